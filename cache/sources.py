"""Digest jitfuse's own code-generating sources, so that changed code never loads objects of old code.

Reading about 100 files takes 1 ms and checking their status 0.5 ms. So the digest is itself a cache entry, whose
canonical form encodes the names, sizes, times and inode numbers of the files; any difference is a miss. Change times,
unlike modification times, cannot be set back by unpacking an archive.
The files are checked when the package is imported, and again before an entry that this process compiled is stored:
modules imported later may have been edited in between (`sources_now`).
"""
from __future__ import annotations

import os
import sys
import threading
import time
from array import array
from collections.abc import Callable
from functools import cache
from itertools import chain

from jitfuse.base import forks
from jitfuse.base.digests import digest, hex_digest, new_digest
from jitfuse.base.records import NamedTuple
from jitfuse.cache.entry import FORMAT_VERSION, Entry
from jitfuse.cache.store import Store, default_store

_FOLDERS = ("base", "ir", "passes", "plans", "backends", "compile")
_FILES = (
    "dtypes.py", "reasons.py",
    # what passes and plans use of it
    "tracing/abstract.py", "tracing/program_builder.py", "tracing/schedule/scheduler.py",
    "tracing/schedule/integer_schedule.py",
)
_SECOND_NS = 1_000_000_000
_SETTLED_NS = 2 * _SECOND_NS
_INODE = (1 << 63) - 1
"""Bits of an inode number that count: those of a signed 64-bit integer."""

SourceFile = tuple[str, str, int, int, int, int]
"""One source: its name relative to the package with ``/``, its path, and what reveals a change: size, modification
time and change time in nanoseconds, inode."""


@cache
def package_root() -> str:
    """Return the folder of the installed package or, in a checkout, the one with the symlinks."""
    import jitfuse

    return os.path.dirname(os.path.abspath(str(jitfuse.__file__)))


def list_sources(root: str) -> tuple[SourceFile, ...]:
    """Return the code-generating sources below `root`, sorted by name; empty if they lie in a zip file."""
    found: list[SourceFile] = []
    for name in _FOLDERS:
        _collect(os.path.join(root, name), name, found)
    for name in _FILES:
        path = os.path.join(root, name)
        if os.path.isfile(path):
            found.append((name, path, *_identity(os.stat(path))))
    return tuple(sorted(found))


def _collect(folder: str, prefix: str, found: list[SourceFile]) -> None:
    """Add the sources in a folder and below. Every import of jitfuse runs this, hence no call per file."""
    try:
        with os.scandir(folder) as listing:
            items = list(listing)
    except OSError:
        return
    for item in items:
        name = item.name
        if name.endswith(".py"):
            s = item.stat()
            found.append((f"{prefix}/{name}", item.path, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino & _INODE))
        elif name != "__pycache__" and item.is_dir(follow_symlinks=False):
            _collect(item.path, f"{prefix}/{name}", found)


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino & _INODE


def state_of(sources: tuple[SourceFile, ...]) -> bytes:
    """Return bytes that encode names, sizes, times and inodes.

    Made at import, right after the sources were listed: later their 2,000 objects are no longer in the processor's
    cache, and reading them takes 0.2 ms.
    """
    names, _, *numbers = zip(*sources) if sources else ((), ())
    columns = array("q", chain.from_iterable(numbers))
    return "\0".join(names).encode("utf-8", "surrogatepass") + b"\0\0" + columns.tobytes()


def digest_of(sources: tuple[SourceFile, ...]) -> str | None:
    """Return the digest (hex) over names and contents; it does not depend on where the package lies.

    None if a file is not the one listed, or changed since. Raises OSError if one cannot be read.
    """
    total = new_digest()
    for name, path, *listed in sources:
        # system calls only: making a file object takes as long as reading most of these files
        file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
        try:
            content = _whole(file, listed[0])
            status = os.fstat(file)
        finally:
            os.close(file)
        if _identity(status) != tuple(listed) or len(content) != listed[0]:
            return None
        encoded = name.encode("utf-8", "surrogatepass")
        total.update(len(encoded).to_bytes(4, "little") + encoded + len(content).to_bytes(8, "little"))
        total.update(content)
    return total.hexdigest()


def _whole(file: int, size: int) -> bytes:
    """Return the content of an open file, up to one byte more than its expected size."""
    content = os.read(file, size + 1)
    while len(content) <= size and (more := os.read(file, size + 1 - len(content))):
        content += more
    return content


def remembered_digest(root: str, sources: tuple[SourceFile, ...], state: bytes, store: Store) -> str | None:
    """Return `digest_of(sources)`, from `store` if it was remembered for files of equal `state_of`.

    A file younger than 2 seconds may change again within the resolution of its time stamp, so a digest that covers one
    is not remembered. Nor is one of files whose change times are whole seconds: read-only images (squashfs, ISO 9660)
    have no finer ones, and two builds of one may show the same numbers for different contents. Returns None if the
    files changed while they were read. Raises OSError if one cannot be read.
    """
    key = _digest_key(root)
    canonical = digest(state)
    entry = store.load(key, canonical, count=False)
    if entry is not None:
        return entry.code.decode("ascii", "replace")
    made = digest_of(sources)
    if made is None:
        return None
    youngest = max(max(modified, changed) for _, _, _, modified, changed, _ in sources)
    exact = all(source[4] % _SECOND_NS for source in sources)
    if exact and youngest < time.time_ns() - _SETTLED_NS:
        metadata = {"kind": "sources", "source": root, "created": int(time.time())}
        store.store(Entry(key, metadata, canonical, made.encode()), count=False)
    return made


def _digest_key(root: str) -> str:
    """Return the key of the entry that remembers the digest of the sources below `root`."""
    # includes the format, so that a newer format does not take the old entry for a damaged one
    return hex_digest(f"jitfuse sources in format {FORMAT_VERSION} of ".encode() + os.fsencode(root))


_at_import = list_sources(package_root())
_state_at_import = state_of(_at_import)
_process_word = f"process {os.urandom(16).hex()}"
_digest: str | None = None
_digest_lock = threading.Lock()
_seen: SourcesNow | None = None
_counted: tuple[tuple[int, str], int] = (0, ""), 0
"""The result of the last check."""


def sources_digest() -> str:
    """Return the digest of the sources that this process runs, computed once.

    It covers the files as they were at import. If their contents cannot be determined (they changed while being read,
    are unreadable, or lie in a zip file), the result is a random value of this process, so that no other process uses
    its objects.
    """
    global _digest
    if _digest is None:
        with _digest_lock:
            if _digest is None:
                _digest = _compute()
    return _digest


def sources_known() -> bool:
    """Return whether `sources_digest` has been computed: the first time it may take milliseconds."""
    return _digest is not None


def _compute() -> str:
    try:
        if _at_import:
            return remembered_digest(package_root(), _at_import, _state_at_import, default_store()) or _process_word
    except OSError:
        pass  # an unreadable source is as good as a changed one
    return _process_word


def unchanged_since_import() -> bool:
    """Return whether the sources are still those that `sources_digest` covers."""
    try:
        return list_sources(package_root()) == _at_import
    except OSError:
        return False


class SourcesNow(NamedTuple):
    """The result of `sources_now`: whether the sources are those at import, and the number of modules imported then."""

    unchanged: bool
    modules: int


def sources_now() -> SourcesNow:
    """Check the sources once more, and compute their digest: all that `publish` needs.

    If no module was imported since an earlier check, that check holds for all code that has run: a function compiled as
    many subgraphs checks once. This may run beside a compilation whose text is already written.
    """
    global _seen
    sources_digest()
    modules = _modules()  # before the check: modules imported meanwhile may be newer
    seen = _seen
    if seen is None or not seen.unchanged or seen.modules != modules:
        seen = _seen = SourcesNow(unchanged_since_import(), modules)
    return seen


def _modules() -> int:
    """Return how many modules of ours are imported; they are counted again where anything was imported last."""
    global _counted
    last = len(sys.modules), next(reversed(sys.modules))
    if _counted[0] != last:
        _counted = last, len([name for name in tuple(sys.modules) if name.startswith("jitfuse.")])
    return _counted[1]


def publish(*entries: Entry, now: SourcesNow | None = None) -> None:
    """Store entries that this process's code generator made; only in memory if its sources were edited.

    `now` is a result of `sources_now`; without it, or if modules were imported since, the sources are checked again.
    """
    if not entries:
        return
    store = default_store()
    if now is None or now.modules != _modules():
        now = SourcesNow(unchanged_since_import(), _modules())
    for entry in entries:
        if now.unchanged:
            store.store(entry, count=entry.metadata.get("kind") is None)
        else:
            store.memory.put(entry)


def find_entry(
    key: Callable[[], str], canonical: bytes, *, count: bool = True, accept: Callable[[Entry], bool] | None = None,
) -> Entry | None:
    """Return the entry of a key and a canonical form, as `Store.load` does.

    The key is computed only if anything is stored: a process that starts with an empty cache then reads the sources,
    most of the cost of the first key, only when it has something to store.
    """
    store = default_store()
    if nothing_stored(store):
        store.misses += count
        return None
    return store.load(key(), canonical, count=count, accept=accept)


def nothing_stored(store: Store) -> bool:
    """Return whether this process, before its first key, finds a store empty."""
    return _digest is None and store.is_empty(_digest_key(package_root()))


@forks.renew
def _renew_lock() -> None:
    """Take a fresh lock in a forked child: a thread of the parent may have held the old one."""
    global _digest_lock
    _digest_lock = threading.Lock()
