"""The store: load and store entries over the layers, fall back to memory, keep the write layer bounded.

Loading neither lists a folder nor writes. Used entries are remembered, and their time stamps are written at the next
store or at exit, at most once a day per entry; `usage` then adds how often each was used. Storing replaces files
atomically, so any number of processes share a folder without locks. No failure of the folder raises: it causes a miss,
or an entry that stays in memory, with one `CacheWarning` per process and cause.
"""
from __future__ import annotations

import atexit
import errno
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator

from jitfuse.base import forks
from jitfuse.base.records import NamedTuple
from jitfuse.cache import folder as files
from jitfuse.cache import location
from jitfuse.cache.entry import MAX_ENTRY_BYTES, Entry, EntryError, decode, encode, is_key
from jitfuse.cache.memory import MemoryLayer
from jitfuse.cache.notices import warn_once

DEFAULT_MAX_BYTES = 1 << 30
DEFAULT_MAX_FILES = 65_536
LARGEST_MAX_BYTES = DEFAULT_MAX_FILES * MAX_ENTRY_BYTES
"""The most that a folder can hold, with the most and the largest entries: 16 TiB."""
MEMORY_BYTES = 16 << 20
_SWEEPS_PER_BOUND = 32
_MOST_STORES = 256
"""Entries that all processes write between two listings, at most on average."""
_ABSENT = (errno.ENOENT, errno.ENOTDIR)


class StoreStats(NamedTuple):
    """What a store holds and did: files and bytes of the write layer, and counts of this process."""

    files: int
    bytes: int
    max_files: int
    max_bytes: int
    memory_entries: int
    memory_bytes: int
    hits: int
    misses: int
    stored: int


class Store:
    """Entries in memory, `layers.read` and `layers.write`. Threads may share one; forks keep working."""

    def __init__(
        self, layers: location.Layers, *, max_bytes: int = DEFAULT_MAX_BYTES,
        max_files: int = DEFAULT_MAX_FILES, memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self.layers = layers
        self.max_bytes = max_bytes
        self.max_files = max_files
        self.memory = MemoryLayer(memory_bytes)
        self.hits = self.misses = self.stored = 0
        self._used: set[str] = set()
        self.unwritten_hits: dict[str, int] = {}
        self._written_files = self._written_bytes = 0
        self._usage: tuple[int, int, int] | None = None
        self._seen_filled = False
        _stores.add(self)

    def load(
        self, key: str, canonical: bytes | None, *, count: bool = True, accept: Callable[[Entry], bool] | None = None,
    ) -> Entry | None:
        """Return the entry of `key` whose canonical form is `canonical` (None: whichever it is), or None.

        None if it is absent, unreadable, damaged, owned by another user, made from something else, or rejected by
        `accept`. A rejected entry in one folder, such as a reference to a missing object, does not hide a good one in
        another. Raises ValueError for an invalid `key`, before a path is made of it. `count` says whether the hit or
        miss counts in `stats`; the cache's own records do not.
        """
        if not is_key(key):
            raise ValueError(f"not a cache key: {key!r}")
        found = self._found(key, canonical)
        entry = next(found if accept is None else filter(accept, found), None)
        if count:
            self.hits += entry is not None
            self.misses += entry is None
            if entry is not None:
                self.unwritten_hits[key] = self.unwritten_hits.get(key, 0) + 1
        return entry

    def _found(self, key: str, canonical: bytes | None) -> Iterator[Entry]:
        """Yield the entries of a key, from memory and from folder after folder."""
        entry = self.memory.get(key)
        if entry is not None and canonical in (None, entry.canonical):
            yield entry
        for layer in self.read_folders():
            entry = self._load_from(layer, key)
            if entry is not None and canonical in (None, entry.canonical):
                yield entry

    def read_folders(self) -> tuple[str, ...]:
        """Return the folders in lookup order."""
        write = self.layers.write
        return self.layers.read if write is None else (*self.layers.read, write)

    def is_empty(self, likely: str) -> bool:
        """Return whether no entry exists so far, neither in memory nor in a folder.

        `likely` is the key of an entry that most folders have: looking for it is quicker than listing them.
        """
        if not self._seen_filled:
            folders = self.read_folders()
            there = any(os.path.exists(files.entry_path(folder, likely)) for folder in folders)
            self._seen_filled = there or bool(len(self.memory)) or any(map(files.has_entries, folders))
        return not self._seen_filled

    def reject(self, key: str, reason: str, *, count: bool = True) -> None:
        """Record that an entry of `key` is useless: a miss after all, if `load` counted it as a hit.

        For defects that the checksum cannot find: a writer whose memory was damaged, or a loader that has become
        stricter. The next store overwrites it. `count` is the argument that `load` was given; it is False inside its
        `accept`.
        """
        self.memory.discard(key)
        if count:
            self.hits, self.misses = self.hits - 1, self.misses + 1
            self.unwritten_hits.pop(key, None)
        warn_once(
            "refused",
            f"the kernel cache entry {key[:16]} cannot be used ({reason}); the kernel is compiled again. "
            "`python -m jitfuse cache clear` removes all entries.",
        )

    def _load_from(self, layer: str, key: str) -> Entry | None:
        folder = location.trusted_folder(layer)
        if folder is None:
            return None
        path = files.entry_path(layer, key)
        try:
            data, stamp = files.read(path)
            entry = decode(data, key)
        except OSError as error:
            if error.errno not in _ABSENT:
                warn_once(
                    f"load {error.errno} {layer}",
                    f"kernel cache {layer!r} cannot be read ({error.strerror}): kernels are compiled anew.",
                )
            return None
        except EntryError as error:
            warn_once(
                f"damaged {layer}",
                f"the kernel cache entry {path!r} is damaged ({error}); the kernel is compiled again. "
                "`python -m jitfuse cache verify` checks all entries.",
            )
            return None
        if not location.is_still(layer, folder):
            return None  # replaced while it was read: its origin is unknown
        if layer == self.layers.write and abs(time.time() - stamp) > files.DAY:
            self._used.add(key)
        return entry

    def store(self, entry: Entry, *, count: bool = True) -> bool:
        """Write `entry` to the write layer and return whether it is there; keep it in memory if not.

        No failure of the folder raises; a malformed entry (`encode`) is an error of the caller and does.
        """
        data = encode(entry)
        folder = self.layers.write
        self.memory.put(entry)  # first, so that it stays there if a warning is turned into an exception
        if folder is not None and len(data) <= self.max_bytes and self._write(folder, entry.key, data):
            self.memory.discard(entry.key)
            self.stored += count
            self._usage = None
            self.flush()
            self._sweep(folder, entry.key, len(data))
            return True
        return False

    def _write(self, folder: str, key: str, data: bytes) -> bool:
        # The folder is created and checked at each store: it may be gone or moved, or writable by others by now.
        if location.write_layer(folder) != folder:
            return False
        try:
            files.write(folder, key, data)
        except OSError as error:
            warn_once(
                f"store {error.errno} {folder}",
                f"kernels are not written to the cache {folder!r} ({error.strerror}); "
                "they stay in this process's memory.",
            )
            return False
        return True

    def _sweep(self, folder: str, key: str, size: int) -> None:
        """Evict now and then, so that many stores share the cost of one listing.

        It runs if this process wrote a 32nd of a bound since it last listed, or if the key's own digits say so. The
        digits serve many short processes: together they list as often, and at least once in 256 entries on average. The
        bounds are thus exceeded by a few per cent. Listing a full folder takes 0.5 s, so that a store pays 2 ms for it.
        """
        self._written_files += 1
        self._written_bytes += size
        share = min(self.max_files // _SWEEPS_PER_BOUND, self.max_bytes // (size * _SWEEPS_PER_BOUND), _MOST_STORES)
        due = (
            self._written_files * _SWEEPS_PER_BOUND >= self.max_files
            or self._written_bytes * _SWEEPS_PER_BOUND >= self.max_bytes
            or int(key[:8], 16) % max(share, 1) == 0
        )
        if due:
            self._written_files = self._written_bytes = 0
            files.evict(folder, self.max_bytes, self.max_files, key)
            from jitfuse.cache import usage

            usage.fold(folder)

    def flush(self) -> None:
        """Write how often entries were used since the last flush, and their time stamps. Never raises."""
        used, self._used = self._used, set()
        hits, self.unwritten_hits = self.unwritten_hits, {}
        # another user may have put a folder or a link in the place of one that was removed
        if self.layers.write is not None and (hits or used) and location.known_folder(self.layers.write):
            if hits:
                from jitfuse.cache import usage  # not needed when a process starts

                usage.record(self.layers.write, dict(hits))
            for key in tuple(used):  # another thread may still be adding to it
                try:
                    os.utime(files.entry_path(self.layers.write, key))
                except OSError:
                    continue  # evicted meanwhile, or read-only

    def stats(self) -> StoreStats:
        """Return sizes and counts. The folder is listed again only if names in it changed since."""
        count, size = self._measure()
        return StoreStats(
            count, size, self.max_files, self.max_bytes, len(self.memory), self.memory.bytes,
            self.hits, self.misses, self.stored,
        )

    def _measure(self) -> tuple[int, int]:
        if self.layers.write is None:
            return 0, 0
        try:
            changed = os.stat(self.layers.write).st_mtime_ns
        except OSError:
            return 0, 0
        if self._usage is None or self._usage[0] != changed:
            sizes = [record.size for record in files.records(self.layers.write)]
            self._usage = (changed, len(sizes), sum(sizes))
        return self._usage[1:]


_stores: weakref.WeakSet[Store] = weakref.WeakSet()
_default: tuple[tuple[str | None, ...], Store] | None = None
_default_lock = threading.Lock()


def default_store() -> Store:
    """Return the process's store, made anew if the variables for its place or size changed."""
    global _default
    current = _default
    wanted = location.environment()
    if current is not None and current[0] == wanted:
        return current[1]
    with _default_lock:
        if _default is None or _default[0] != wanted:
            if _default is not None:
                _default[1].flush()
            _default = (wanted, Store(location.resolve_layers(), max_bytes=_size_limit()))
        return _default[1]


def _size_limit() -> int:
    text = os.environ.get("JITFUSE_CACHE_SIZE", "").strip()
    size = parse_size(text) if text else DEFAULT_MAX_BYTES
    if size is None or size > LARGEST_MAX_BYTES:
        fault = "is no size" if size is None else "is more than a cache folder can hold"
        warn_once(
            f"size {text}",
            f"JITFUSE_CACHE_SIZE={text[:80]!r} {fault}: give one such as 500M or 2G, at most "
            f"{LARGEST_MAX_BYTES >> 40}T. {DEFAULT_MAX_BYTES >> 30}G is used.",
        )
        return DEFAULT_MAX_BYTES
    return size


def parse_size(text: str) -> int | None:
    """Return the bytes that `text` means, such as ``4096``, ``500M`` or ``1.5 GiB``; None if it is no size.

    K, M, G and T are powers of 1024, in either case, with or without ``B`` or ``iB``. Numbers have up to 18 digits
    on either side of the point.
    """
    pattern = r"(\d{1,18}(?:\.\d{1,18})?)\s*(?:([kmgt])(?:i?b)?|b)?"
    match = re.fullmatch(pattern, text.strip().lower(), re.ASCII)
    if match is None:
        return None
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2] or " "))


def _flush_all() -> None:
    for store in list(_stores):
        store.flush()


@forks.renew
def _renew() -> None:
    """In a forked child: take fresh locks, and leave the parent's time stamps to the parent."""
    global _default_lock
    _default_lock = threading.Lock()
    for store in list(_stores):
        store.memory.renew_lock()
        store._used = set()
        store.unwritten_hits = {}


atexit.register(_flush_all)
