"""Keys: equal exactly for equal parts, in every process, and for nothing that has no fixed encoding."""
from __future__ import annotations

import enum
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jitfuse.cache import keys
from jitfuse.cache.keys import Part, cache_key, environment_parts

LEAVES = st.none() | st.booleans() | st.integers() | st.binary(max_size=6) | st.text(max_size=6)
PARTS = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
MAPPINGS = st.dictionaries(st.text(max_size=4), PARTS, max_size=3)


def typed(value: Part) -> object:
    """Return something that compares equal only for equal values of equal types (1 == True in Python)."""
    return (type(value), tuple(typed(v) for v in value) if isinstance(value, tuple) else value)


@given(MAPPINGS, MAPPINGS)
def test_keys_are_equal_exactly_when_the_parts_are(first: dict[str, Part], second: dict[str, Part]) -> None:
    same = {k: typed(v) for k, v in first.items()} == {k: typed(v) for k, v in second.items()}
    assert (cache_key(first) == cache_key(second)) == same


@pytest.mark.parametrize("first, second", [
    ({"a": "1"}, {"a": b"1"}), ({"a": "1"}, {"a": 1}), ({"a": 1}, {"a": True}), ({"a": 0}, {"a": None}),
    ({"a": 1}, {"a": (1,)}), ({"a": ("x", "y")}, {"a": ("xy",)}),
    ({"a": (("x",), "y")}, {"a": ("x", ("y",))}),
    ({"a": "b", "c": "d"}, {"a": "d", "c": "b"}), ({"a": "bc"}, {"ab": "c"}), ({"a": ()}, {}),
    ({"a": 255}, {"a": -1}), ({"a": 128}, {"a": -128}), ({"a": ""}, {"a": b""}), ({"a": "s\0"}, {"a": "s"}),
])
def test_what_graph_breaks_alike_differs(first: dict[str, Part], second: dict[str, Part]) -> None:
    assert cache_key(first) != cache_key(second)


def test_order_of_the_mapping_does_not_matter() -> None:
    assert cache_key({"a": 1, "b": 2}) == cache_key({"b": 2, "a": 1})


def test_a_fixed_key_never_changes() -> None:
    # A change here means that the encoding changed: raise the format version with it.
    parts: dict[str, Part] = {"form": b"\x00\xff", "options": ("O0", 256, -1, True, None), "name": "é\ud800"}
    assert cache_key(parts) == "2b58c64306bc329b0ea20e12ae66b904312e8e323d5cf8b3bac78ff1eb578506"


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize("value", [
    1.0, [1], {"a": 1}, {1}, frozenset(), np.int64(1), np.str_("a"), bytearray(b"a"), object(), Colour.RED,
    (1, [2]),
])
def test_other_types_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="encode it first"):
        cache_key({"a": value})


def environment(**changes: Any) -> dict[str, Part]:
    extra = {"triple": "x86_64", "cpu": "znver4", "features": "+avx2", "llvm": "22"} | changes
    return environment_parts("llvm", touches_python=True, extra=extra)


def test_every_part_of_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {cache_key(environment())}
    for name in ("triple", "cpu", "features", "llvm"):
        seen.add(cache_key(environment(**{name: "other"})))
    seen.add(cache_key(environment_parts("wgsl", touches_python=True, extra={})))
    for name, value in [("__version__", "9.9"), ("FORMAT_VERSION", 99), ("sources_digest", lambda: "other"),
                        ("python_abi", lambda: ("other",)), ("numpy_abi", lambda: 1)]:
        with monkeypatch.context() as patch:
            patch.setattr(keys, name, value)
            seen.add(cache_key(environment()))
    assert len(seen) == 11


def test_python_and_numpy_count_only_where_they_are_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    without = cache_key(environment_parts("llvm", touches_python=False, extra={}))
    monkeypatch.setattr(keys, "python_abi", lambda: ("other",))
    monkeypatch.setattr(keys, "numpy_abi", lambda: 1)
    assert cache_key(environment_parts("llvm", touches_python=False, extra={})) == without


def test_extra_cannot_hide_the_caches_own_parts() -> None:
    with pytest.raises(ValueError, match="sources"):
        environment(sources="mine")


PROGRAM = """
from jitfuse.cache import cache_key, environment_parts
extra = {name: "x" for name in {"triple", "cpu", "features", "llvm", "options"}}
parts = environment_parts("llvm", touches_python=True, extra=extra)
del parts["sources"]  # someone may be editing them; tested on a tree of its own
print(cache_key({**parts, "form": b"form"}))
"""


@pytest.mark.full
def test_key_is_the_same_in_other_processes_and_hash_seeds(tmp_path: Path) -> None:
    found = set()
    for seed in ("0", "1", "4711"):
        environ = {**os.environ, "PYTHONHASHSEED": seed, "JITFUSE_CACHE_DIR": str(tmp_path / "cache")}
        command = [sys.executable, "-c", PROGRAM]
        result = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, check=True)
        found.add(result.stdout)
    assert len(found) == 1 and len(found.pop().strip()) == 64
