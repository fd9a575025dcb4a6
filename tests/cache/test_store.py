"""The store within one process: hits, layers, damage, trouble with the folder, environment, forks."""
from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import subprocess
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jitfuse.cache import Entry, Store, default_store, location
from jitfuse.cache.entry import encode
from jitfuse.cache.location import Layers
from jitfuse.cache.store import DEFAULT_MAX_BYTES, parse_size
from jitfuse.errors import CacheWarning

MakeEntry = Callable[..., Entry]


@contextmanager
def warned(times: int) -> Iterator[None]:
    """Check that the block issues `times` CacheWarnings."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield
    assert [w.category for w in said] == [CacheWarning] * times, [str(w.message) for w in said]


def fresh(store: Store) -> Store:
    """Return a store on the same folders that remembers nothing, as another process would."""
    return Store(store.layers)


def path_of(store: Store, entry: Entry) -> Path:
    return Path(str(store.layers.write)) / f"{entry.key}.jfc"


def test_stored_in_one_process_loaded_in_the_next(store: Store, make_entry: MakeEntry) -> None:
    entry = make_entry(1)
    assert store.load(entry.key, entry.canonical) is None
    assert store.store(entry)
    other = fresh(store)
    assert other.load(entry.key, entry.canonical) == entry
    assert (store.stats().stored, store.stats().misses, other.stats().hits) == (1, 1, 1)
    assert stat.S_IMODE(path_of(store, entry).stat().st_mode) == 0o600


def test_another_canonical_form_is_a_miss(store: Store, make_entry: MakeEntry) -> None:
    entry = make_entry(1)
    store.store(entry)
    assert store.load(entry.key, b"another form") is None
    store.memory.put(entry)
    assert store.load(entry.key, b"another form") is None


@pytest.mark.parametrize("key", ["", "../../etc/passwd", "/etc/passwd", "a" * 63 + "/", "A" * 64])
def test_what_is_no_key_never_becomes_a_path(store: Store, key: str) -> None:
    with pytest.raises(ValueError, match="not a cache key"):
        store.load(key, b"")
    with pytest.raises(ValueError, match="not a cache key"):
        store.store(Entry(key, {}, b"", b""))


def test_loading_neither_lists_nor_writes(
    store: Store, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = make_entry(1)
    store.store(entry)
    os.utime(path_of(store, entry), (1e9, 1e9))
    before = os.listdir(str(store.layers.write)), path_of(store, entry).stat().st_mtime
    for name in ("scandir", "listdir", "utime", "mkdir", "replace", "unlink"):
        monkeypatch.setattr(os, name, lambda *_, **__: pytest.fail("not on the load path"))
    other = fresh(store)
    assert other.load(entry.key, entry.canonical) and not other.load("0" * 64, b"")
    monkeypatch.undo()
    assert (os.listdir(str(store.layers.write)), path_of(store, entry).stat().st_mtime) == before


class TestDamage:
    """A damaged entry is a miss, said once, and whole again after the next store."""

    def check(self, store: Store, entry: Entry, content: bytes) -> None:
        path_of(store, entry).write_bytes(content)
        assert fresh(store).load(entry.key, entry.canonical) is None

    def test_truncated_at_every_length_and_every_byte_flipped(
        self, store: Store, make_entry: MakeEntry,
    ) -> None:
        entry = make_entry(1, size=8)
        data = encode(entry)
        store.store(entry)
        with warned(1):
            for length in range(len(data)):
                self.check(store, entry, data[:length])
            for position in range(len(data)):
                flipped = bytes([data[position] ^ 0xFF])
                self.check(store, entry, data[:position] + flipped + data[position + 1:])
        assert store.store(entry)
        assert fresh(store).load(entry.key, entry.canonical) == entry

    def test_entries_swapped_between_names(self, store: Store, make_entry: MakeEntry) -> None:
        one, two = make_entry(1), make_entry(2)
        assert store.store(one) and store.store(two)
        os.rename(path_of(store, one), str(store.layers.write) + "/x")
        os.rename(path_of(store, two), path_of(store, one))
        os.rename(str(store.layers.write) + "/x", path_of(store, two))
        with warned(1):
            assert store.load(one.key, one.canonical) is None
            assert store.load(two.key, two.canonical) is None

    @pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
    def test_something_else_under_the_name(self, store: Store, make_entry: MakeEntry, kind: str) -> None:
        entry = make_entry(1)
        path = path_of(store, entry)
        if kind == "folder":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        else:
            target = path.with_name("real")
            target.write_bytes(encode(entry))
            path.symlink_to(target)
        with warned(1):
            assert store.load(entry.key, entry.canonical) is None
        with warned(kind == "folder"):
            assert store.store(entry) == (kind != "folder")
        assert store.load(entry.key, entry.canonical) == entry

    @pytest.mark.skipif(location.owners() is None, reason="the rule is about user ids")
    def test_file_that_others_may_write_to(self, store: Store, make_entry: MakeEntry) -> None:
        entry = make_entry(1)
        store.store(entry)
        path_of(store, entry).chmod(0o666)
        with warned(1):
            assert store.load(entry.key, entry.canonical) is None

    def test_file_of_a_foreign_owner(
        self, store: Store, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        entry = make_entry(1)
        store.store(entry)
        monkeypatch.setattr("jitfuse.cache.folder.owners", lambda: (54321,))
        with warned(1):
            assert store.load(entry.key, entry.canonical) is None

    def test_file_too_large_is_not_read(self, store: Store, make_entry: MakeEntry) -> None:
        entry = make_entry(1)
        with open(path_of(store, entry), "wb") as file:
            file.truncate(1 << 40)
        path_of(store, entry).chmod(0o600)
        with warned(1):
            assert store.load(entry.key, entry.canonical) is None

    def test_unreadable(self, store: Store, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch) -> None:
        entry = make_entry(1)
        store.store(entry)
        fail_with(monkeypatch, "open", errno.EIO)
        with warned(1):
            assert store.load(entry.key, entry.canonical) is None
            assert store.load(entry.key, entry.canonical) is None


def fail_with(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, name, fail)


class TestTrouble:
    """Whatever happens to the folder: no exception, one warning for each cause, and memory serves."""

    def survives(self, store: Store, make_entry: MakeEntry) -> None:
        with warned(1):
            for number in (1, 2, 1):
                entry = make_entry(number)
                assert not store.store(entry)
                assert store.load(entry.key, entry.canonical) == entry

    @pytest.mark.parametrize("call", ["open", "replace"])
    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EACCES, errno.EIO])
    def test_system_calls_that_fail(
        self, store: Store, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch, call: str, number: int,
    ) -> None:
        fail_with(monkeypatch, call, number)
        self.survives(store, make_entry)
        monkeypatch.undo()
        assert os.listdir(str(store.layers.write)) == []

    def test_folder_deleted_is_made_again(self, store: Store, folder: Path, make_entry: MakeEntry) -> None:
        one, two = make_entry(1), make_entry(2)
        store.store(one)
        shutil.rmtree(folder)
        assert store.load(one.key, one.canonical) is None
        assert store.store(two) and fresh(store).load(two.key, two.canonical) == two
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    def test_folder_deleted_for_good(
        self, store: Store, folder: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        shutil.rmtree(folder)
        fail_with(monkeypatch, "mkdir", errno.EROFS)
        self.survives(store, make_entry)

    def test_folder_replaced_by_a_file(self, store: Store, folder: Path, make_entry: MakeEntry) -> None:
        shutil.rmtree(folder)
        folder.write_text("not a folder")
        self.survives(store, make_entry)
        assert folder.read_text() == "not a folder"

    @pytest.mark.skipif(location.owners() is None, reason="the rule is about user ids")
    def test_folder_opened_to_others_later(self, store: Store, folder: Path, make_entry: MakeEntry) -> None:
        assert store.store(make_entry(0))
        folder.chmod(0o777)
        self.survives(store, make_entry)

    def test_folder_moved_behind_a_link(self, store: Store, folder: Path, make_entry: MakeEntry) -> None:
        one, two = make_entry(1), make_entry(2)
        assert store.store(one)
        folder.rename(folder.with_name("moved"))
        folder.symlink_to("moved")
        assert not store.store(two) and store.load(two.key, two.canonical) == two, "kept in memory"
        assert store.load(one.key, one.canonical) is None
        moved = Store(Layers((), location.write_layer(str(folder))))
        assert moved.load(one.key, one.canonical) == one, "the next process finds it"

    def test_no_folder_at_all(self, make_entry: MakeEntry) -> None:
        store, entry = Store(Layers((), None)), make_entry(1)
        assert not store.store(entry) and store.load(entry.key, entry.canonical) == entry
        assert store.stats().files == 0 and store.stats().memory_entries == 1

    def test_warnings_as_errors_lose_nothing(
        self, store: Store, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        entry = make_entry(1)
        fail_with(monkeypatch, "replace", errno.ENOSPC)
        with pytest.raises(CacheWarning, match="No space left"):
            store.store(entry)
        assert store.load(entry.key, entry.canonical) == entry
        assert not store.store(entry)

    def test_file_system_without_rename_over_existing(
        self, store: Store, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        rename = os.rename

        def replace(source: str, target: str) -> None:
            if os.path.exists(target):
                raise FileExistsError(errno.EEXIST, "File exists")
            rename(source, target)

        monkeypatch.setattr(os, "replace", replace)
        old, new = make_entry(1), make_entry(1, created=1)
        assert store.store(old) and store.store(new)
        assert fresh(store).load(new.key, new.canonical) == new
        assert len(os.listdir(str(store.layers.write))) == 1

    def test_a_real_full_and_read_only_file_system(self, tmp_path: Path, make_entry: MakeEntry) -> None:
        mounted = tmp_path / "small"
        mounted.mkdir(0o700)
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(mounted)]
        if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("mounting a tmpfs is not permitted here")
        try:
            store, kept = Store(Layers((), str(mounted))), make_entry(0)
            assert store.store(kept)
            with warned(1):
                for number in range(1, 4):
                    entry = make_entry(number, size=100_000)
                    assert not store.store(entry) and store.load(entry.key, entry.canonical) == entry
            assert os.listdir(mounted) == [f"{kept.key}.jfc"]
            subprocess.run(["mount", "-o", "remount,ro", str(mounted)], check=True)
            with warned(1):
                assert not store.store(make_entry(9))
            assert fresh(store).load(kept.key, kept.canonical) == kept
        finally:
            subprocess.run(["umount", str(mounted)], check=True)


class TestMemory:
    """Entries that no folder takes are bounded, and leave least recently used first."""

    def test_bounded(self, make_entry: MakeEntry) -> None:
        store = Store(Layers((), None), memory_bytes=10_000)
        entries = [make_entry(number, size=1000) for number in range(20)]
        for entry in entries:
            store.store(entry)
            assert store.load(entries[0].key, entries[0].canonical)  # used all the time: stays
        assert store.stats().memory_bytes <= 10_000
        kept = [number for number, e in enumerate(entries) if store.memory.get(e.key)]
        assert kept == [0, 17, 18, 19]

    def test_listings_count(self, make_entry: MakeEntry) -> None:
        store = Store(Layers((), None))
        entry = make_entry(1)
        store.store(entry._replace(metadata={**entry.metadata, "ir": {"zlib": "x" * 50_000}}))
        assert store.memory.bytes > 50_000

    def test_replacing_and_discarding_keep_the_count_right(self, make_entry: MakeEntry) -> None:
        store = Store(Layers((), None))
        for size in (10, 5000, 20):
            store.store(make_entry(1, size=size))
        assert len(store.memory) == 1 and store.memory.bytes < 3000
        store.memory.discard(make_entry(1).key)
        assert len(store.memory) == store.memory.bytes == 0


class TestLayers:
    """Read layers come first, are never written, and do not hide the write layer."""

    @pytest.fixture
    def layered(self, tmp_path: Path, make_entry: MakeEntry) -> Store:
        lower, upper = tmp_path / "lower", tmp_path / "upper"
        lower.mkdir(0o755)
        upper.mkdir(0o700)
        assert Store(Layers((), str(lower))).store(make_entry(1))
        return Store(Layers((str(lower),), str(upper)))

    def test_hit_below_and_store_above(self, layered: Store, make_entry: MakeEntry) -> None:
        one, two = make_entry(1), make_entry(2)
        assert layered.load(one.key, one.canonical) == one
        assert layered.store(two) and path_of(layered, two).exists()
        assert [p.name for p in Path(layered.layers.read[0]).iterdir()] == [f"{one.key}.jfc"]

    def test_damage_below_is_repaired_above(self, layered: Store, make_entry: MakeEntry) -> None:
        one = make_entry(1)
        (Path(layered.layers.read[0]) / f"{one.key}.jfc").write_bytes(b"")
        with warned(1):
            assert layered.load(one.key, one.canonical) is None
            assert layered.store(one)
            assert fresh(layered).load(one.key, one.canonical) == one


class TestDefault:
    """The process's own store follows the environment."""

    def test_made_anew_when_the_environment_changes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.delenv("JITFUSE_CACHE_PATH", raising=False)
        monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path / "one"))
        first = default_store()
        assert default_store() is first and first.layers == Layers((), str(tmp_path / "one"))
        monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path / "two"))
        assert default_store().layers.write == str(tmp_path / "two")
        monkeypatch.setenv("JITFUSE_CACHE_SIZE", "5M")
        assert default_store().max_bytes == 5 << 20

    @pytest.mark.parametrize("text", [
        "plenty", "9" * 400, "9" * 400 + "T", "9" * 100_000, "1e400", "inf", "999999T", "17T", "-5M", "5 M B",
        "5M;", "M", "0x10", "²", "٣M", "1." + "1" * 400, "\udcff", "{size}", "%s",
    ])
    def test_size_that_is_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
        monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path / "one"))
        monkeypatch.setenv("JITFUSE_CACHE_SIZE", text)
        with pytest.warns(CacheWarning) as said:
            for folder in ("one", "two"):
                monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path / folder))
                assert default_store().max_bytes == DEFAULT_MAX_BYTES
        (message,) = [str(warning.message) for warning in said]
        assert message.startswith(f"JITFUSE_CACHE_SIZE={text[:80]!r} is ") and "500M" in message
        assert len(message) < 250

    def test_the_largest_size(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path / "one"))
        monkeypatch.setenv("JITFUSE_CACHE_SIZE", "16T")
        assert default_store().max_bytes == 16 << 40

    def test_size_zero_keeps_everything_in_memory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_entry: MakeEntry,
    ) -> None:
        monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path / "one"))
        monkeypatch.setenv("JITFUSE_CACHE_SIZE", "0")
        entry = make_entry(1)
        assert not default_store().store(entry)
        assert default_store().load(entry.key, entry.canonical) == entry
        assert os.listdir(tmp_path / "one") == []

    def test_threads_get_one_store(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_threads: Any
    ) -> None:
        monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path / "one"))
        found: list[Store] = []
        in_threads(16, lambda k: found.append(default_store()))
        assert len(set(map(id, found))) == 1


@pytest.mark.parametrize("text, size", [
    ("0", 0), ("4096", 4096), ("1k", 1024), ("500M", 500 << 20), ("2G", 2 << 30), ("1.5 GiB", 3 << 29),
    ("1tb", 1 << 40), ("10 B", 10), ("", None), ("-1", None), ("1e9", None), ("G", None), ("1 X", None),
    ("٣", None), ("1 2", None), ("1iB", None), ("nan", None),
])
def test_sizes(text: str, size: int | None) -> None:
    assert parse_size(text) == size


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_while_the_lock_is_held(make_entry: MakeEntry) -> None:
    store, entry = Store(Layers((), None)), make_entry(1)
    store.store(entry)
    with store.memory._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(300)
            found = store.load(entry.key, entry.canonical)  # would wait for ever for the parent's lock
            os._exit(0 if found == entry else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
