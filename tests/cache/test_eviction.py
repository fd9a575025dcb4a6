"""Bounds: least recently used leaves first, use is written at most once a day, and leftovers are removed."""
from __future__ import annotations

import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from jitfuse.cache import Entry, Store, usage
from jitfuse.cache import folder as files
from jitfuse.cache.location import Layers

MakeEntry = Callable[..., Entry]


def names(folder: Path) -> set[str]:
    return {path.name.removesuffix(".jfc") for path in folder.iterdir()}


def age(folder: Path, entry: Entry, seconds: float) -> None:
    stamp = time.time() - seconds
    os.utime(folder / f"{entry.key}.jfc", (stamp, stamp))


def stamp(folder: Path, entry: Entry) -> float:
    return (folder / f"{entry.key}.jfc").stat().st_mtime


def test_least_recently_used_leaves_first(folder: Path, make_entry: MakeEntry) -> None:
    store = Store(Layers((), str(folder)), max_files=8)
    entries = [make_entry(number) for number in range(8)]
    order = [3, 0, 7, 1, 5, 2, 6, 4]  # oldest first
    for entry in entries:
        store.store(entry)
    for position, number in enumerate(order):
        age(folder, entries[number], 1000 - position)
    new = make_entry(100)
    store.store(new)
    assert names(folder) == {new.key, *(entries[number].key for number in order[2:])}  # 7 are 7/8 of 8


def test_bounded_in_bytes(folder: Path, make_entry: MakeEntry) -> None:
    store = Store(Layers((), str(folder)), max_bytes=50_000)
    for number in range(100):
        assert store.store(make_entry(number, size=3000))
        assert store.stats().bytes <= 50_000
    assert store.stats().bytes > 35_000
    assert make_entry(99).key in names(folder)


def test_an_entry_above_the_bound_stays_in_memory(folder: Path, make_entry: MakeEntry) -> None:
    store, entry = Store(Layers((), str(folder)), max_bytes=1000), make_entry(1, size=2000)
    assert not store.store(entry) and store.load(entry.key, entry.canonical) == entry
    assert names(folder) == set()


def test_many_short_processes_stay_bounded_too(folder: Path, make_entry: MakeEntry) -> None:
    # Each store below is new, so none of them ever counts beyond one: the keys' digits must trigger sweeps.
    for number in range(600):
        Store(Layers((), str(folder)), max_files=64 * 4).store(make_entry(number))
    assert len(names(folder)) <= 64 * 4 + 100


def test_small_bounds_are_looked_after_more_often(folder: Path, make_entry: MakeEntry) -> None:
    for number in range(200):
        Store(Layers((), str(folder)), max_bytes=40_000).store(make_entry(number, size=1000))
    assert Store(Layers((), str(folder))).stats().bytes <= 40_000 * 1.25


def test_sweeps_are_rare_under_large_bounds(
    store: Store, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch,
) -> None:
    sweeps: list[str] = []
    monkeypatch.setattr(files, "evict", lambda folder, *_: sweeps.append(folder))
    for number in range(2560):
        store.store(make_entry(number))
    assert 2 <= len(sweeps) <= 25  # a binomial draw with mean 10, and always the same one


def test_a_stamp_from_the_future_does_not_stay_for_ever(folder: Path, make_entry: MakeEntry) -> None:
    store = Store(Layers((), str(folder)), max_files=8)
    entries = [make_entry(number) for number in range(8)]
    for entry in entries:
        store.store(entry)
    age(folder, entries[4], -10 * files.DAY)
    store.store(make_entry(100))
    assert entries[4].key not in names(folder)


def test_the_entry_just_written_stays_when_the_clock_is_behind(folder: Path, make_entry: MakeEntry) -> None:
    store = Store(Layers((), str(folder)), max_files=8)
    for number in range(8):
        store.store(make_entry(number))
        age(folder, make_entry(number), -3600)
    store.store(make_entry(100))
    assert make_entry(100).key in names(folder) and len(names(folder)) == 7


def test_others_files_are_left_alone(folder: Path, make_entry: MakeEntry) -> None:
    kept = {"notes.txt", "a" * 63, "README.jfc", "sub"}
    for name in kept - {"sub"}:
        (folder / name).write_text("mine")
    (folder / "sub").mkdir()
    store = Store(Layers((), str(folder)), max_files=1)
    for number in range(3):
        store.store(make_entry(number))
    assert {path.name for path in folder.iterdir()} == kept | {f"{make_entry(2).key}.jfc"}


def test_leftovers_of_killed_writers_go_and_live_ones_stay(folder: Path, make_entry: MakeEntry) -> None:
    for name, seconds in ((".jfc-dead", 3600), (".jfc-alive", 1), (".jfc-future", -3600)):
        (folder / name).write_bytes(b"half an entry")
        os.utime(folder / name, (time.time() - seconds,) * 2)
    store = Store(Layers((), str(folder)), max_files=1)
    store.store(make_entry(1))
    assert {path.name for path in folder.iterdir()} == {".jfc-alive", f"{make_entry(1).key}.jfc"}


def test_an_entry_removed_by_another_process_meanwhile(
    folder: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Store(Layers((), str(folder)), max_files=4)
    unlink = os.unlink

    def late(path: str) -> None:
        unlink(path)
        unlink(path)  # raises: the other process was faster

    monkeypatch.setattr(os, "unlink", late)
    for number in range(20):
        assert store.store(make_entry(number))
    assert len(names(folder)) <= 4


class TestUse:
    """Use is remembered in memory, and written at a store or at exit, at most once a day."""

    def test_written_at_the_next_store(self, store: Store, folder: Path, make_entry: MakeEntry) -> None:
        one, two = make_entry(1), make_entry(2)
        store.store(one)
        age(folder, one, 2 * files.DAY)
        store.load(one.key, one.canonical)
        assert stamp(folder, one) < time.time() - files.DAY
        store.store(two)
        assert abs(stamp(folder, one) - time.time()) < 60

    def test_not_written_again_within_a_day(self, store: Store, folder: Path, make_entry: MakeEntry) -> None:
        one = make_entry(1)
        store.store(one)
        age(folder, one, files.DAY / 2)
        before = stamp(folder, one)
        store.load(one.key, one.canonical)
        store.flush()
        assert stamp(folder, one) == before

    def test_a_stamp_from_the_future_is_put_right(
        self, store: Store, folder: Path, make_entry: MakeEntry,
    ) -> None:
        one = make_entry(1)
        store.store(one)
        age(folder, one, -2 * files.DAY)
        store.load(one.key, one.canonical)
        store.flush()
        assert abs(stamp(folder, one) - time.time()) < 60

    def test_gone_or_read_only_entries_do_not_matter(
        self, store: Store, folder: Path, make_entry: MakeEntry,
    ) -> None:
        one = make_entry(1)
        store.store(one)
        age(folder, one, 2 * files.DAY)
        store.load(one.key, one.canonical)
        (folder / f"{one.key}.jfc").unlink()
        store.flush()
        assert names(folder) <= {"hits.log"}

    def test_written_at_exit(self, store: Store, folder: Path, make_entry: MakeEntry) -> None:
        one = make_entry(1)
        store.store(one)
        age(folder, one, 2 * files.DAY)
        program = (
            "from jitfuse.cache import default_store\n"
            f"assert default_store().load({one.key!r}, {one.canonical!r})\n"
        )
        environ = {**os.environ, "JITFUSE_CACHE_PATH": "", "JITFUSE_CACHE_DIR": str(folder)}
        subprocess.run([sys.executable, "-c", program], env=environ, check=True)
        assert abs(stamp(folder, one) - time.time()) < 60


def test_stats_list_the_folder_only_after_a_change(
    store: Store, folder: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch,
) -> None:
    store.store(make_entry(1))
    first = store.stats()
    assert (first.files, first.bytes) == (1, (folder / f"{make_entry(1).key}.jfc").stat().st_size)
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", lambda _: pytest.fail("listed again"))
        assert store.stats() == first
    before = folder.stat()
    store.store(make_entry(3))
    os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))  # as if within one tick of the clock
    assert store.stats().files == 2
    time.sleep(0.02)
    Store(store.layers).store(make_entry(2))  # another process
    assert store.stats().files == 3


def test_looking_at_a_folder_within_its_bounds_holds_no_list_of_it(tmp_path: Path) -> None:
    for k in range(2000):
        (tmp_path / f"{k:064x}.jfc").touch()
    usage.record(str(tmp_path), {f"{7:064x}": 2, f"{2**200:064x}": 1})
    tracemalloc.start()
    try:
        assert files.evict(str(tmp_path), 1 << 30, 2000, f"{0:064x}") == (2000, 0)
        usage.fold(str(tmp_path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200_000  # a list of the entries takes 2 MB
    assert usage.counts(str(tmp_path)) == {f"{7:064x}": 2}


def test_folders_under_names_of_entries_drive_nothing_out(folder: Path, make_entry: MakeEntry) -> None:
    """Another user could have put them there while the folder was open; nothing could ever remove them."""
    for number in range(8):
        (folder / f"{number:064x}.jfc").mkdir()
    store = Store(Layers((), str(folder)), max_files=8)
    entries = [make_entry(number) for number in range(8)]
    for entry in entries:
        assert store.store(entry)
    assert all(store.load(entry.key, entry.canonical) == entry for entry in entries)
