"""Kernels are found by their forms: in this process and on the disk, whichever program they were first made for."""
from __future__ import annotations

import gc
import marshal
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.cache import Entry, default_store
from jitfuse.compile.objects import kernel_object, objects
from jitfuse.compile.objects.keys import object_key
from jitfuse.errors import CacheWarning
from jitfuse.ir.kernels.form import KernelForm
from jitfuse.ir.program import FusedProgram

X = np.linspace(-2.0, 2.0, 24).reshape(4, 6)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JITFUSE_CACHE_PATH", raising=False)
    monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path / "cache"))
    forget()


def forget() -> None:
    """Have nothing found in this process: as a new one would."""
    objects._objects.clear()
    objects._homes.clear()


def first(x: Any) -> Any:
    return np.cumsum(x * 1.5, axis=1), np.sin(x).max(axis=0)


def second(x: Any) -> Any:
    return np.sin(x).max(axis=0), np.cumsum(x * 1.5, axis=1), np.cumprod(x + 0.25, axis=1)


def part(x: Any) -> Any:
    return np.sin(x).max(axis=0)


def called(function: Callable[..., Any], x: np.ndarray = X) -> Any:
    """Return a function that has been called, with NumPy's results."""
    fused = jf.fuse(function)
    got, want = fused(x), function(x)
    for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, want)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    return fused


def counts(fused: Any) -> tuple[int, int]:
    return fused.stats()["compiles"], fused.stats()["cache_hits"]


def made_for(fused: Any) -> Any:
    return fused.parts.specs[0].plans[False].kernels


def test_programs_share_kernels_in_a_process() -> None:
    a, b, c = called(first), called(second), called(part)
    assert counts(a) == (1, 0) and counts(b) == (1, 0) and counts(c) == (0, 0)
    (whole,), shared = made_for(a).objects, made_for(b).objects
    assert whole in shared and len(shared) == 2 and made_for(c).objects == (whole,)
    assert 0 < len(made_for(b).compiled.members) < len(b.kernels) == len({str(k.form) for k in b.kernels})
    assert {k.key for k in b.kernels} == {made.key for made in shared}
    assert all(k.source.count("define i64 @k") >= 1 for k in b.kernels)


def test_subgraphs_of_a_program_share_kernels() -> None:
    def iterations(x: Any) -> Any:
        for k in range(3):
            x = np.sin(x) * x + x.mean(axis=1, keepdims=True)
            if x.sum() > 1e9 + k:
                break
        return x

    fused = called(iterations)
    assert fused.stats()["splits"] == 3
    assert fused.stats()["compiles"] < 4


def test_kernels_are_found_on_the_disk_one_by_one() -> None:
    called(first)
    forget()
    assert counts(called(part)) == (0, 1)
    forget()
    both = called(second)
    assert counts(both) == (1, 1) and len(made_for(both).compiled.members) == 1
    forget()
    again = called(second)
    assert counts(again) == (0, 2) and again.stats()["cache_misses"] == 0
    forget()
    assert counts(called(second, np.linspace(0.0, 1.0, 35).reshape(5, 7))) == (0, 2)  # another shape: no plan is known


def references() -> list[tuple[Path, Entry]]:
    return entries_of("reference")


def entries_of(kind: str) -> list[tuple[Path, Entry]]:
    store = default_store()
    found = []
    for path in Path(store.layers.write or "").glob("*.jfc"):
        entry = store.load(path.stem, None, count=False)
        if entry is not None and entry.metadata.get("kind") == kind:
            found.append((path, entry))
    return found


def test_a_kernel_whose_object_is_gone_is_compiled() -> None:
    fused = called(first)
    assert len(references()) == len(fused.kernels) == 2
    (Path(default_store().layers.write or "") / f"{made_for(fused).objects[0].key}.jfc").unlink()
    forget()
    assert counts(called(part)) == (1, 0)


@pytest.mark.parametrize("place", [b"", b"\xff", marshal.dumps((1, 2)), marshal.dumps(("ab", 0)), marshal.dumps("no")])
def test_references_that_name_no_object_are_misses(place: bytes) -> None:
    called(first)
    for _, entry in references():
        default_store().store(entry._replace(code=kernel_object.REFERENCE + place))
    forget()
    with warnings.catch_warnings(action="ignore", category=CacheWarning):
        assert counts(called(part)) == (1, 0)


def test_a_reference_to_another_kernel_is_a_miss() -> None:
    called(first)
    (_, a), (_, b) = references()
    default_store().store(a._replace(code=b.code))
    default_store().store(b._replace(code=a.code))
    forget()
    assert called(part).stats()["compiles"] == 1


def test_an_object_of_one_kernel_may_give_way_to_a_reference() -> None:
    alone = called(part)
    (made,) = made_for(alone).objects
    forget()
    default_store().memory.clear()
    (Path(default_store().layers.write or "") / f"{made.key}.jfc").unlink()
    called(first)  # of a process that began before there was the other one
    form = made.entry.canonical
    found = default_store().load(object_key(form), form)
    assert found is not None and found.metadata.get("kind") == "reference"
    forget()
    assert counts(called(part)) == (0, 1)


def test_without_a_cache_kernels_are_shared_too() -> None:
    a, b = jf.fuse(first, cache=False), jf.fuse(part, cache=False)
    a(X), b(X)
    assert counts(a) == (1, 0) and counts(b) == (0, 0) and not references()


def test_what_was_compiled_without_a_cache_keeps_no_text_and_is_the_same_entry() -> None:
    def own(x: Any) -> Any:
        return np.cumsum(x * 1.5, axis=1), np.cos(x).max(axis=0)

    alone = jf.fuse(own, cache=False)
    alone(X)
    (made,) = made_for(alone).objects
    reachable, todo = set(), [vars(made._entry)]
    while todo:
        value = todo.pop()
        if id(value) not in reachable and not isinstance(value, FusedProgram | type):
            reachable.add(id(value))
            assert not isinstance(value, KernelForm) and not (isinstance(value, str) and "define" in value)
            todo += gc.get_referents(value) if not hasattr(value, "__globals__") else []
    text, forms = made.source, made.entry.metadata["forms"]
    forget()
    (stored,) = made_for(called(own)).objects
    assert stored is not made
    assert (stored.key, stored.source, stored.entry.metadata["forms"]) == (made.key, text, forms)


def test_what_was_compiled_without_a_cache_is_stored_for_who_uses_it() -> None:
    alone = jf.fuse(first, cache=False)
    alone(X)
    assert counts(alone) == (1, 0) and not references()
    assert counts(called(part)) == (0, 0) and len(references()) == 2
    forget()
    assert counts(called(part)) == (0, 1)
    del alone


@pytest.mark.parametrize("wanted", [part, first])
@pytest.mark.parametrize("gone", ["objects", "references", "plans"])
def test_what_a_folder_that_is_only_read_lacks_is_compiled_once(
    wanted: Callable[..., Any], gone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {made_for(f).objects[0].key for f in (called(first), called(part))}
    read = tmp_path / "cache"
    kind = gone[:-1]
    lacking = made if kind == "object" else {path.stem for path, _ in entries_of(kind)}
    assert lacking
    for key in lacking:
        (read / f"{key}.jfc").unlink()
    monkeypatch.setenv("JITFUSE_CACHE_PATH", f"{read}{os.pathsep}{tmp_path / 'written'}")
    forget()
    assert called(wanted).stats()["compiles"] == (gone == "objects")
    for _ in range(2):
        forget()
        again = called(wanted)
        assert counts(again) == (0, 1) and again.stats()["cache_misses"] == 0
        assert "runtime" not in vars(again.parts.specs[0].plans[False])  # the plan was found too
