"""What a key is made of, as its entry records it: read back, checked, compared."""
from __future__ import annotations

import json
from typing import Any

import pytest

from jitfuse.cache import Entry, cache_key, compress_text
from jitfuse.cache.keys import Part
from jitfuse.cache.parts import describe, differences, key_from_parts, recorded_parts

PARTS: dict[str, Part] = {
    "backend": "llvm", "level": 1, "machine": ("linux", "7.0:1,2"), "raw": b"\0\xff", "none": None, "on": True,
    "nested": (1, ("a", b"b"), ()),
}


def entry(canonical: bytes = b"forms", more: dict[str, Any] | None = None, **parts: Part) -> Entry:
    made = {**PARTS, **parts, "forms": canonical}
    metadata = json.loads(json.dumps({**describe(made, "forms"), **(more or {})}))
    return Entry(cache_key(made), metadata, canonical, b"code")


def test_parts_come_back_and_make_the_key() -> None:
    made = entry()
    assert recorded_parts(made.metadata) == PARTS
    assert key_from_parts(made) == made.key
    assert key_from_parts(made._replace(canonical=b"other")) != made.key
    assert key_from_parts(entry(level=2)) != made.key


def test_keys_without_a_canonical_part() -> None:
    made = Entry(cache_key(PARTS), describe(PARTS, None), b"anything", b"")
    assert key_from_parts(made) == made.key


@pytest.mark.parametrize("value", [
    None, 3, "x", [], {"level": 1.5}, {"level": {"hex": "zz"}}, {"level": {"hex": 3}}, {"level": {"a": 1}},
    {"level": [[[1.0]]]}, {"level": {}},
])
def test_what_is_no_record_is_none(value: Any) -> None:
    assert recorded_parts({"key_parts": value}) is None
    assert key_from_parts(Entry("0" * 64, {"key_parts": value}, b"", b"")) is None


def test_differences_name_the_part_and_both_values() -> None:
    (found,) = differences(entry(level=1), entry(level=2))
    assert found == ("level", "the level of code generation", "1", "2")
    (found,) = differences(entry(machine=("linux", "a", "b")), entry(machine=("linux", "b", "c")))
    assert (found.part, found.first, found.second) == ("machine", "a", "c")
    (found,) = differences(entry(b"forms"), entry(b"others"))
    assert found.part == "forms"
    (found,) = differences(entry(), entry(extra="x"))
    assert (found.part, found.first, found.second) == ("extra", "absent", "x")
    assert differences(entry(), entry()) == []
    assert [d.part for d in differences(entry(b"a", level=1), entry(b"b", level=2, backend="wgsl"))] == [
        "forms", "backend", "level"
    ]


def test_processors_differ_by_their_features() -> None:
    a = {"target": "x86_64 znver5", "features": compress_text("+avx2,+avx512f,-amx")}
    b = {"target": "x86_64 haswell", "features": compress_text("+avx2,-avx512f,-amx")}
    (found,) = differences(entry(more=a, machine=("1",)), entry(more=b, machine=("2",)))
    assert (found.first, found.second) == ("x86_64 znver5 with avx512f", "x86_64 haswell")
