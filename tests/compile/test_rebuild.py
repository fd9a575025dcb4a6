"""Entries that somebody else wrote are made again and compared: what is not the same to the byte is found."""
from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.cache import Entry, cache_key, default_store, expand_text
from jitfuse.cache.inspect import find
from jitfuse.cache.parts import describe, recorded_parts
from jitfuse.compile.rebuild import Verdict, check, remade
from jitfuse.errors import JitfuseError
from jitfuse.ir.kernels.decoding import form_of

X = np.arange(12.0).reshape(3, 4)


def functions() -> Iterator[Any]:
    yield lambda x: np.sin(x) * 0.1 + x
    yield lambda x: (x - np.mean(x, axis=1, keepdims=True)).astype(np.float32)
    yield lambda x: np.cumsum(x, axis=0) + np.inf
    yield lambda x: np.argmax(x, axis=1)
    yield lambda x: jf.softmax(x @ x.T) @ x
    yield lambda x: np.pad(x, 1)[::2] * (1 + 2j)
    yield lambda x: x[np.array([2, 0])] ** 3 + jf.random.uniform((2, 4))


def entries_of(fused: Any) -> list[Entry]:
    return [find(default_store(), key)[1] for key in dict.fromkeys(k.key for k in fused.kernels)]


@pytest.mark.parametrize("fn", list(functions()))
def test_forms_and_code_come_back_the_same(fn: Any) -> None:
    fused = jf.fuse(fn)
    fused.warm(X)
    for kernel in fused.kernels:
        assert form_of(kernel.form.canonical_bytes) == kernel.form
    for entry in entries_of(fused):
        assert check(entry) is Verdict.SAME


def test_what_was_tampered_with_is_found() -> None:
    fused = jf.fuse(lambda x: x * 3 - 1)
    fused.warm(X)
    (entry,) = entries_of(fused)
    middle = len(entry.code) // 2
    evil = entry.code[:middle] + bytes([entry.code[middle] ^ 1]) + entry.code[middle + 1 :]
    assert check(entry._replace(code=evil)) is Verdict.DIFFERENT
    assert check(entry._replace(code=b"")) is Verdict.DIFFERENT
    assert check(entry._replace(key="0" * 64)) is Verdict.MISNAMED
    assert check(entry._replace(canonical=entry.canonical.replace(b"multiply", b"subtract"))) is Verdict.MISNAMED
    assert check(entry._replace(metadata={})) is Verdict.UNKNOWN_KEY
    parts = recorded_parts(entry.metadata)
    assert parts is not None
    for change in ({"level": 2}, {"machine": ("another",)}, {"sources": "0" * 64}, {"jitfuse": "9.9"}):
        foreign = {**parts, **change, "forms": entry.canonical}
        made = Entry(cache_key(foreign), describe(foreign, "forms"), entry.canonical, entry.code)
        assert check(made) is Verdict.FOREIGN


@pytest.mark.parametrize("canonical", [
    b"", b"{}", b"[" * 100_000, b"{'version': 2}", b"__import__('os').system('true')", b"\xff\xfe", b"null\0null",
])
def test_what_is_no_form_is_refused_and_never_run(canonical: bytes) -> None:
    fused = jf.fuse(lambda x: x * 3 - 1)
    fused.warm(X)
    (entry,) = entries_of(fused)
    for data in canonical.split(b"\0"):
        with pytest.raises(JitfuseError, match="no kernel form"):
            form_of(data)
    parts = {**(recorded_parts(entry.metadata) or {}), "forms": canonical}
    made = Entry(cache_key(parts), describe(parts, "forms"), canonical, entry.code)
    assert check(made) is Verdict.BROKEN


def test_the_runtime_is_made_again_too() -> None:
    from jitfuse.backends.llvm.loader import load
    from jitfuse.backends.llvm.runtime import native
    from jitfuse.compile.objects.keys import runtime_parts
    from jitfuse.compile.objects.runtime_object import load_runtime_object

    load_runtime_object(
        "runtime", native.runtime_text, native.key_parts(), lambda code: load(code, allowed=native.IMPORTS)
    )
    key = cache_key(runtime_parts("runtime", native.key_parts()))
    _, entry = find(default_store(), key)
    assert check(entry) is Verdict.SAME
    assert check(entry._replace(code=entry.code[:-1])) is Verdict.DIFFERENT


def rewritten(entry: Entry, canonical: bytes) -> Entry:
    parts = {**(recorded_parts(entry.metadata) or {}), "forms": canonical}
    return Entry(cache_key(parts), {**entry.metadata, **describe(parts, "forms")}, canonical, entry.code)


def test_what_would_take_for_ever_is_refused_in_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JITFUSE_CACHE_PATH", raising=False)
    monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path))  # empty: the entry has this kernel alone
    fused = jf.fuse(lambda x, i: x[i])
    fused.warm(jf.spec((9,), "float64"), jf.spec((3,), "int64"))
    (entry,) = entries_of(fused)
    at = entry.canonical.index(b"['bounded'")
    one = entry.canonical[at : entry.canonical.index(b"]", entry.canonical.index(b"]", at) + 1) + 1]
    head, tail = entry.canonical.rsplit(b"], [], None]]", 1)  # behind the last instruction
    begin = time.process_time()
    for count, verdict in ((2_000, Verdict.TOO_LARGE), (20_000, Verdict.BROKEN), (400_000, Verdict.TOO_LARGE)):
        body = b", ".join([head, *[one] * count]) + b"], [], None]]" + tail
        assert check(rewritten(entry, body)) is verdict
    assert check(rewritten(entry, b"\0".join([entry.canonical] * 5_000))) is Verdict.TOO_LARGE
    assert time.process_time() - begin < 30


def test_what_is_remade_is_ours() -> None:
    fused = jf.fuse(lambda x: x * 0.75 - 2, name="mine")
    fused.warm(X)
    (entry,) = entries_of(fused)
    said = {**entry.metadata, "ir": "define", "function": "f" * 10_000, "program": "\x1b[2J" * 100_000, "more": 1}
    found = remade(entry._replace(metadata=said))
    assert found.verdict is Verdict.SAME and found.entry is not None
    metadata = found.entry.metadata
    assert metadata["ir"] == entry.metadata["ir"] and "more" not in metadata
    assert metadata["claimed"] == ["function", "program", "source"] and len(metadata["function"]) < 600
    program = expand_text(metadata["program"])
    assert "\x1b" not in program and len(program) <= 1 << 16
