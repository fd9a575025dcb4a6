"""How often entries were loaded: counted without a write by the call, summed over processes, of no consequence."""
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jitfuse.cache import Entry, Store, usage
from jitfuse.cache.inspect import clear, find, hit_counts, list_entries
from jitfuse.cache.location import Layers

MakeEntry = Callable[..., Entry]
A, B = "a" * 64, "b" * 64


def test_loads_write_nothing_and_are_counted_at_the_flush(store: Store, folder: Path, make_entry: MakeEntry) -> None:
    entry = make_entry(1)
    store.store(entry)
    before = sorted(os.listdir(folder))
    for _ in range(3):
        assert store.load(entry.key, entry.canonical) is not None
    assert store.load(make_entry(2).key, make_entry(2).canonical) is None
    assert sorted(os.listdir(folder)) == before
    assert list_entries(store)[0].hits == 3
    store.flush()
    assert usage.counts(str(folder)) == {entry.key: 3} and store.unwritten_hits == {}
    store.flush()
    assert find(store, entry.key)[0].hits == 3
    assert Store(Layers((), str(folder))).unwritten_hits == {} and hit_counts(store) == {entry.key: 3}


@pytest.mark.full
def test_processes_add_up(store: Store, folder: Path, make_entry: MakeEntry) -> None:
    entry = make_entry(1)
    store.store(entry)
    code = (
        "from jitfuse.cache import default_store\n"
        f"for _ in range(5): assert default_store().load({entry.key!r}, {entry.canonical!r}) is not None"
    )
    environment = {**os.environ, "JITFUSE_CACHE_PATH": "", "JITFUSE_CACHE_DIR": str(folder)}
    running = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert hit_counts(store) == {entry.key: 15}


def test_folding_keeps_sums_and_forgets_what_is_gone(store: Store, folder: Path, make_entry: MakeEntry) -> None:
    entry = make_entry(1)
    store.store(entry)
    for _ in range(10):
        usage.record(str(folder), {entry.key: 2, A: 1})
    usage.fold(str(folder))
    assert (folder / usage.NAME).read_text() == f"{entry.key} 20\n"
    clear(store)
    assert os.listdir(folder) == []


def test_a_long_record_folds_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "FOLD_BYTES", 1000)
    for _ in range(200):
        usage.record(str(folder), {A: 1})
        assert not (folder / usage.NAME).exists() or (folder / usage.NAME).stat().st_size < 1100


@pytest.mark.parametrize("content", [
    b"", b"\0" * 100, b"\xff\xfe\n", b"nonsense\n", A.encode() + b" -3\n", A.encode() + b" 1" + b"0" * 30 + b"\n",
    A.encode() + b" 1e9\n", A.encode() + b"\n", b" 7\n", A.upper().encode() + b" 7\n",
])
def test_damaged_lines_count_for_nothing(folder: Path, content: bytes) -> None:
    (folder / usage.NAME).write_bytes(content + f"{B} 4\n".encode())
    (folder / usage.NAME).chmod(0o600)
    assert usage.counts(str(folder)) in ({B: 4}, {})
    assert set(usage.counts(str(folder))) <= {B}


def test_whatever_lies_there_is_no_failure(store: Store, folder: Path, tmp_path: Path, make_entry: MakeEntry) -> None:
    entry = make_entry(1)
    store.store(entry)
    mine = tmp_path / "mine.txt"
    mine.write_text("precious")
    name = folder / usage.NAME

    def used() -> None:
        assert store.load(entry.key, entry.canonical) is not None
        store.flush()
        usage.fold(str(folder))
        assert len(list_entries(store)) == 1

    name.symlink_to(mine)
    used()
    name.unlink(missing_ok=True)
    os.link(mine, name)
    usage.record(str(folder), {entry.key: 1})
    assert mine.read_text() == "precious"
    name.unlink()
    name.mkdir()
    used()
    name.rmdir()
    os.mkfifo(name)
    used()
    assert mine.read_text() == "precious"
    name.unlink(missing_ok=True)
    used()
