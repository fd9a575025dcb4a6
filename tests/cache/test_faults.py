"""Every call of the operating system fails once: nothing is raised, nothing wrong is found, all is well afterwards.

With JITFUSE_TEST_SCALE above 1 each fails in each of several ways.
"""
from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amount import extended

from jitfuse.cache import Entry, Store, notices
from jitfuse.cache import folder as files
from jitfuse.cache.location import resolve_layers
from jitfuse.errors import CacheWarning

MakeEntry = Callable[..., Entry]
CALLS = (
    "open", "read", "write", "close", "fstat", "stat", "lstat", "replace", "rename", "unlink", "utime", "scandir",
    "mkdir", "readlink",
)
NUMBERS = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.ESTALE, errno.ENOENT, errno.EEXIST, errno.ENOTDIR)


class Faults:
    """Counts calls of the operating system and lets one of them fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        self.failing = -1
        self.number = 0
        for name in CALLS:
            monkeypatch.setattr(os, name, self._watched(name, getattr(os, name)))

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **keywords: Any) -> Any:
            self.made.append(name)
            if len(self.made) - 1 != self.failing:
                return real(*args, **keywords)
            if name == "close":
                real(*args)  # as the system does: the descriptor is gone, and the data may be
            raise OSError(self.number, os.strerror(self.number))

        return call


def session(entries: list[Entry]) -> None:
    """Use a cache in every way: find the folder, store, replace, load, miss, evict, flush, measure."""
    store = Store(resolve_layers(), max_files=4)
    store.store(entries[0])
    for entry in entries[:3]:
        found = store.load(entry.key, entry.canonical)
        assert found is None or found == entry
    for entry in entries:
        store.store(entry)
    for entry in reversed(entries):
        found = Store(store.layers).load(entry.key, entry.canonical)
        assert found is None or found == entry
        store.load(entry.key, entry.canonical)
    store.flush()
    assert store.stats().files >= 0


@pytest.mark.full
def test_every_call_fails_in_every_way(
    tmp_path: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("JITFUSE_CACHE_PATH", raising=False)
    monkeypatch.setattr(files, "DAY", 0.0)  # time stamps are written each time
    entries = [make_entry(number, size=40) for number in range(6)]
    folders = iter(range(1 << 20))

    def fresh_folder() -> None:
        monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path / str(next(folders)) / "cache"))

    with monkeypatch.context() as patch:
        faults = Faults(patch)
        fresh_folder()
        session(entries)
        calls = len(faults.made)
        assert set(faults.made) >= set(CALLS) - {"rename", "readlink", "stat"}
        for failing in range(calls):
            for number in NUMBERS if extended() else NUMBERS[failing % len(NUMBERS):][:1]:
                notices.forget()
                fresh_folder()
                faults.made, faults.failing, faults.number = [], failing, number
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    session(entries)
                assert len(said) <= 1 and all(w.category is CacheWarning for w in said), (failing, number)
                faults.failing = -1
                store = Store(resolve_layers())
                assert store.store(entries[5]) and store.load(entries[5].key, entries[5].canonical) == entries[5]
