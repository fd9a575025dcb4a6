"""How often entries were loaded: counted in memory, added to one small file at the next store or at exit.

Owns the file ``hits.log`` of a write layer: lines of a key and a number. Any number of processes append to it, each in
one write; now and then it is folded into one line per key. A count may be lost if two processes fold at once, and
processes that are killed or leave through ``os._exit`` add nothing: the counts are for people, and no decision depends
on them.
"""
from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Mapping

from jitfuse.cache import folder as files
from jitfuse.cache.entry import EntryError, is_key

NAME = "hits.log"
FOLD_BYTES = 8 << 20
"""Size from which on the next writer folds the file: its length with the largest possible number of entries."""
_MAX_COUNT = 10**15
_APPEND = (
    os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)


def record(folder: str, hits: Mapping[str, int]) -> None:
    """Add `hits` (key: times) to the folder's record. Never raises for failures of the folder."""
    text = "".join([f"{key} {count}\n" for key, count in hits.items()])
    if not text:
        return
    try:
        descriptor = os.open(_path(folder), _APPEND, 0o600)
    except OSError:
        return  # read-only, gone, or something else under the name
    size = 0
    with contextlib.suppress(OSError):  # a full disk, a file server that is gone
        try:
            status = os.fstat(descriptor)
            # must not grow another file of ours through a link, planted while the folder was open to others
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                size = status.st_size + os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)
    if size > FOLD_BYTES:
        fold(folder)


def counts(folder: str) -> dict[str, int]:
    """Return how often each entry of a folder's record was loaded; malformed lines are skipped."""
    try:
        data, _ = files.read(_path(folder))
    except (OSError, EntryError):
        return {}
    found: dict[str, int] = {}
    for line in data.decode("ascii", "replace").splitlines():
        key, _, number = line.partition(" ")
        if is_key(key) and number.isdecimal() and len(number) < 16:
            found[key] = min(found.get(key, 0) + int(number), _MAX_COUNT)
    return found


def fold(folder: str, keep: Collection[str] | None = None) -> None:
    """Write one line per key, of the keys in `keep`, by default those whose entries exist. Never raises."""
    found = counts(folder)
    if keep is None:  # not the keys of all entries: most have no count
        keep = {record.key for record in files.records(folder) if record.key in found} if found else ()
    text = "".join([f"{key} {found[key]}\n" for key in sorted(found) if key in keep])
    with contextlib.suppress(OSError):
        if text:
            files.replace(folder, NAME, text.encode())
        else:
            os.unlink(_path(folder))


def _path(folder: str) -> str:
    return f"{folder}{os.sep}{NAME}"
