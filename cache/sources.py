"""A digest of jitfuse's own code-generating sources, so that changed code never meets objects of old code.

Reading about 100 files takes 1 ms and looking at them 0.5 ms, so the digest is kept as an entry of the cache
itself, whose canonical form lists names, sizes, times and inode numbers of the files it was made from; any
difference is a miss. Change times, unlike modification times, cannot be set back by unpacking an archive.
The files are looked at when the package is imported, and once more before anything that this process compiled is
stored: modules that are imported later may have been edited in between (`unchanged_since_import`).
"""
from __future__ import annotations

import hashlib
import os
import time
from typing import NamedTuple

from jitfuse.cache.entry import Entry
from jitfuse.cache.store import Store, default_store

_FOLDERS = ("ir", "passes", "plans", "backends")
_FILES = ("dtypes.py", "compile/objects.py", "compile/gpu_kernels.py")
_SECOND_NS = 1_000_000_000
_SETTLED_NS = 2 * _SECOND_NS


class SourceFile(NamedTuple):
    """One source: its name relative to the package with ``/``, its path, and what tells a change of it."""

    name: str
    path: str
    size: int
    modified_ns: int
    changed_ns: int
    inode: int


def package_root() -> str:
    """Return the folder of the installed package or, in a checkout, the one with the symlinks."""
    import jitfuse

    return os.path.dirname(os.path.abspath(str(jitfuse.__file__)))


def list_sources(root: str) -> tuple[SourceFile, ...]:
    """Return the code-generating sources below `root`, sorted by name; empty where they lie in a zip file."""
    found: list[SourceFile] = []
    for name in _FOLDERS:
        _collect(os.path.join(root, name), name, found)
    for name in _FILES:
        path = os.path.join(root, name)
        if os.path.isfile(path):
            found.append(_source(name, path, os.stat(path)))
    return tuple(sorted(found))


def _collect(folder: str, prefix: str, found: list[SourceFile]) -> None:
    try:
        with os.scandir(folder) as listing:
            items = list(listing)
    except OSError:
        return
    for item in items:
        name = f"{prefix}/{item.name}"
        if item.name.endswith(".py"):
            found.append(_source(name, item.path, item.stat()))
        elif item.is_dir(follow_symlinks=False) and item.name != "__pycache__":
            _collect(item.path, name, found)


def _source(name: str, path: str, status: os.stat_result) -> SourceFile:
    return SourceFile(name, path, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def digest_of(sources: tuple[SourceFile, ...]) -> str:
    """Return the sha256 (hex) over names and contents; the same wherever the package lies. Raises OSError."""
    total = hashlib.sha256()
    for source in sources:
        with open(source.path, "rb") as file:
            content = hashlib.sha256(file.read()).digest()
        name = source.name.encode("utf-8", "surrogatepass")
        total.update(len(name).to_bytes(4, "little") + name + content)
    return total.hexdigest()


def remembered_digest(root: str, sources: tuple[SourceFile, ...], store: Store) -> str | None:
    """Return `digest_of(sources)`, from `store` where it was remembered for the very same files.

    A file younger than 2 seconds may change again within the resolution of its time stamp, so a digest that
    covers one is not remembered. Nor is one of files whose change times are whole seconds: read-only images
    (squashfs, ISO 9660) keep none, and two builds of one may show the same numbers for different contents.
    Returns None where the files changed while they were read. Raises OSError where one cannot be read.
    """
    if any(source.changed_ns % _SECOND_NS == 0 for source in sources):
        return _digest_of_unchanged(root, sources)
    key = hashlib.sha256(b"jitfuse sources of " + os.fsencode(root)).hexdigest()
    lines = [f"{s.name}\0{s.size} {s.modified_ns} {s.changed_ns} {s.inode}" for s in sources]
    state = "\n".join(lines).encode("utf-8", "surrogatepass")
    entry = store.load(key, state, count=False)
    if entry is not None:
        return entry.code.decode("ascii", "replace")
    digest = _digest_of_unchanged(root, sources)
    if digest is None:
        return None
    youngest = max(max(source.modified_ns, source.changed_ns) for source in sources)
    if youngest < time.time_ns() - _SETTLED_NS:
        metadata = {"kind": "sources", "source": root, "created": int(time.time())}
        store.store(Entry(key, metadata, state, digest.encode()), count=False)
    return digest


def _digest_of_unchanged(root: str, sources: tuple[SourceFile, ...]) -> str | None:
    digest = digest_of(sources)
    return digest if list_sources(root) == sources else None


_at_import = list_sources(package_root())
_process_word = f"process {os.urandom(16).hex()}"
_digest: str | None = None


def sources_digest() -> str:
    """Return the digest of the sources that this process runs, computed once.

    They are the files as they were at import. Where their contents cannot be told (they changed while they were
    read, are unreadable, or lie in a zip file) the answer is a random word of this process: its objects then serve
    nobody else.
    """
    global _digest
    if _digest is None:
        _digest = _compute()  # threads that meet here find the same
    return _digest


def _compute() -> str:
    try:
        if _at_import:
            return remembered_digest(package_root(), _at_import, default_store()) or _process_word
    except OSError:
        pass  # an unreadable source is as good as a changed one
    return _process_word


def unchanged_since_import() -> bool:
    """Return whether the sources are still those that `sources_digest` speaks of."""
    try:
        return list_sources(package_root()) == _at_import
    except OSError:
        return False


def publish(entry: Entry) -> None:
    """Store an entry that this process's code generator made; only in memory where its sources were edited."""
    store = default_store()
    if unchanged_since_import():
        store.store(entry)
    else:
        store.memory.put(entry)
