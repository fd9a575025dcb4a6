"""One layer's folder on disk: names, reading, atomic writing, eviction. Knows nothing of entries' contents.

The folder is flat: one file ``<key>.jfc`` per entry. So there is one folder to create, trust, lose and recover, and one
listing finds everything. Today's file systems index names, and the bound on the number of files keeps the listing
short, so sub-folders would gain nothing.
"""
from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator

from jitfuse.base.records import Record
from jitfuse.cache.entry import MAX_ENTRY_BYTES, EntryError, is_key
from jitfuse.cache.location import owners

SUFFIX = ".jfc"
DAY = 86_400.0
_TEMPORARY = ".jfc-"
_ABANDONED_SECONDS = 600.0
_RENAMES = 8
_READ_FLAGS = (
    os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)
_WRITE_FLAGS = (
    os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
)


class FileRecord(Record, frozen=True):
    """An entry's file: its key, size in bytes, and when it was last used or written (Unix seconds)."""

    key: str
    size: int
    used: float


def entry_path(folder: str, key: str) -> str:
    """Return the path of the entry of `key` in `folder`."""
    return f"{folder}{os.sep}{key}{SUFFIX}"


def read(path: str) -> tuple[bytes, float]:
    """Return the bytes of an entry's file and its time stamp.

    Raises OSError if it cannot be read, and EntryError if it is no regular file of a trusted owner that only the owner
    may write to: the folder may have been open to others before it was trusted. Links are not followed, and a pipe
    under an entry's name does not block.
    """
    descriptor = os.open(path, _READ_FLAGS)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise EntryError("not a regular file")
        allowed = owners()
        if allowed is not None and (status.st_uid not in allowed or status.st_mode & 0o022):
            raise EntryError(f"user id {status.st_uid} or others could have written it")
        if status.st_size > MAX_ENTRY_BYTES:
            raise EntryError(f"{status.st_size} bytes are too many for an entry")
        data = os.read(descriptor, status.st_size + 1)
        while len(data) < status.st_size and (more := os.read(descriptor, status.st_size - len(data))):
            data += more
        return data, status.st_mtime
    finally:
        os.close(descriptor)


def write(folder: str, key: str, data: bytes) -> None:
    """Put `data` under `key` in one step: readers see the old file or the new one. Raises OSError.

    No fsync: after a power failure the checksum detects the damage, and the entry is made again.
    """
    replace(folder, f"{key}{SUFFIX}", data)


def replace(folder: str, name: str, data: bytes) -> None:
    """Put `data` into the file of this name in one step. Raises OSError."""
    temporary = f"{folder}{os.sep}{_TEMPORARY}{os.urandom(12).hex()}"  # process ids repeat across containers
    target = f"{folder}{os.sep}{name}"
    try:
        with open(os.open(temporary, _WRITE_FLAGS, 0o600), "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view):]
        _rename(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _rename(temporary: str, target: str) -> None:
    try:
        os.replace(temporary, target)
        return
    except (FileExistsError, PermissionError) as error:
        if not os.path.lexists(target):
            raise
        refused = error
    # Some network file systems do not rename over an existing file. Readers see a miss in between, and another writer
    # may get there first.
    for _ in range(_RENAMES):
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(target)
            os.rename(temporary, target)
            return
        except FileExistsError:
            continue
        except OSError:
            break
    raise refused


def records(folder: str) -> Iterator[FileRecord]:
    """Yield a record of each entry's file in `folder`, in no order; nothing if it cannot be listed.

    Folders with such names are skipped: they cannot be removed, so `evict` would never finish.
    """
    for item in _listing(folder):
        key = item.name.removesuffix(SUFFIX)
        if item.name.endswith(SUFFIX) and is_key(key):
            with contextlib.suppress(OSError):
                if item.is_dir(follow_symlinks=False):
                    continue
                status = item.stat(follow_symlinks=False)
                yield FileRecord(key, status.st_size, status.st_mtime)


def has_entries(folder: str) -> bool:
    """Return whether `folder` holds any entry's file; True if that cannot be determined."""
    try:
        with os.scandir(folder) as listing:
            return any(item.name.endswith(SUFFIX) for item in listing)
    except FileNotFoundError:
        return False
    except OSError:
        return True


def remove(folder: str, key: str) -> bool:
    """Remove the entry of `key`; return whether this call removed it."""
    try:
        os.unlink(entry_path(folder, key))
    except OSError:
        return False
    return True


def remove_abandoned(folder: str) -> tuple[int, int]:
    """Remove temporary files of writers that were killed; return the number and bytes of those still being written.

    A file counts as abandoned when no writer can still be writing it.
    """
    files = size = 0
    now = time.time()
    for item in _listing(folder):
        if item.name.startswith(_TEMPORARY):
            with contextlib.suppress(OSError):
                status = item.stat(follow_symlinks=False)
                if abs(now - status.st_mtime) > _ABANDONED_SECONDS:
                    os.unlink(item.path)
                else:
                    files, size = files + 1, size + status.st_size
    return files, size


def _listing(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield the contents of a folder one by one: all 65,000 entries at once would take 40 MB."""
    with contextlib.suppress(OSError), os.scandir(folder) as listing:
        yield from listing


def evict(folder: str, max_bytes: int, max_files: int, keep: str) -> tuple[int, int]:
    """Remove entries, least recently used first, if a bound is exceeded, down to seven eighths of both.

    Never removes the entry of `keep`, which was just written. Returns the number and bytes of the remaining files, with
    those that others are writing. Safe beside other processes: an open file stays readable, and a file that another
    process removed counts as removed, so that concurrent evictions together remove no more than one would. A stamp from
    the future (the clock was set back) counts as the oldest; otherwise it would stay for ever.
    """
    files, size = remove_abandoned(folder)
    for record in records(folder):
        files, size = files + 1, size + record.size
    if files <= max_files and size <= max_bytes:
        return files, size
    horizon = time.time() + DAY
    found = sorted(records(folder), key=lambda record: record.used if record.used < horizon else 0.0)
    for record in found:
        if files <= max_files * 7 // 8 and size <= max_bytes * 7 // 8:
            break
        if record.key != keep and (remove(folder, record.key) or not os.path.lexists(entry_path(folder, record.key))):
            files, size = files - 1, size - record.size
    return files, size
