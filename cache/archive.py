"""Many entries in one file, to carry a cache from one machine to another.

    offset  size  content, integers little-endian
    0       8     magic "JITFUSEA"
    8       4     format version
    12      4     number of entries
    16            entries, one after the other, each as in its own file (`entry`)

It holds no names and no paths, so nothing can be unpacked to a place of its choosing. Owns the file's form. Its reader
(`jitfuse.cli.transfer`) decides how much of the content to trust.
"""
from __future__ import annotations

import contextlib
import os
import stat
import struct
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from jitfuse.cache.entry import MAX_ENTRY_BYTES, Entry, EntryError, decode, encode, parse_metadata
from jitfuse.cache.location import owners
from jitfuse.errors import ArgumentError, JitfuseError

MAGIC = b"JITFUSEA"
FORMAT_VERSION = 1
_HEADER = struct.Struct("<8sII")
_ENTRY_START = 104
"""Bytes of an entry before its sections: its length is at 12, its key at 52."""


def write_archive(path: str, entries: Sequence[Entry], *, replace: bool = False) -> int:
    """Write entries to a file, completely or not at all; return its size in bytes.

    Raises ArgumentError if the file exists, is no archive and may not be replaced, and JitfuseError if it cannot be
    written.
    """
    target = Path(path)
    if not target.name:
        raise ArgumentError(f"{path} is no name of a file")
    partial = None
    try:
        if target.exists() and not replace and not _is_archive(target):
            raise ArgumentError(f"{path} exists and is no cache archive; name another file, or give --force")
        descriptor, partial = tempfile.mkstemp(prefix=".jitfuse-", suffix=".partial", dir=target.parent)
        with open(descriptor, "wb") as file:
            file.write(_HEADER.pack(MAGIC, FORMAT_VERSION, len(entries)))
            for entry in entries:
                file.write(encode(entry))
            size = file.tell()
        os.replace(partial, target)
        return size
    except OSError as error:
        raise JitfuseError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        if partial is not None:
            with contextlib.suppress(OSError):
                os.unlink(partial)


def _is_archive(path: Path) -> bool:
    try:
        with open(path, "rb", opener=_opened) as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _opened(path: str, flags: int) -> int:
    """Open a file; do not wait for somebody to write to it, if it is a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_archive(path: str, *, owned: bool = False) -> Iterator[Entry | str]:
    """Yield the entries of an archive one by one; for a damaged entry, yield a text that describes the damage.

    After a wrong length nothing more can be found: the last item is then a text. `owned` requires a file that only the
    user or root could have written. Raises JitfuseError if the file is no archive of jitfuse.
    """
    try:
        with open(path, "rb", opener=_opened) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise JitfuseError(f"{path} is not a regular file")
            allowed = owners()
            if owned and allowed is not None and (status.st_uid not in allowed or status.st_mode & 0o022):
                raise JitfuseError(
                    f"{path} could have been written by others (user id {status.st_uid}, mode "
                    f"{stat.S_IMODE(status.st_mode):04o}), who could run code as you; chmod go-w makes it yours alone"
                )
            yield from _entries(file, path)
    except OSError as error:
        raise JitfuseError(f"{path} cannot be read: {error.strerror}") from error


def _entries(file: BinaryIO, path: str) -> Iterator[Entry | str]:
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size or not header.startswith(MAGIC):
        raise JitfuseError(f"{path} is no cache archive; `python -m jitfuse cache export` writes one")
    _, version, count = _HEADER.unpack(header)
    if version != FORMAT_VERSION:
        raise JitfuseError(f"{path} has archive format {version}, this jitfuse reads {FORMAT_VERSION}")
    for number in range(count):
        start = file.read(_ENTRY_START)
        size = int.from_bytes(start[12:20], "little")
        left = os.fstat(file.fileno()).st_size - file.tell()  # a length may be anything, and reading allocates it
        rest = file.read(size - _ENTRY_START) if 0 <= size - _ENTRY_START <= min(left, MAX_ENTRY_BYTES) else b""
        if _ENTRY_START + len(rest) != size:
            yield f"entry {number + 1} of {count} and what follows: the file ends early or is damaged there"
            return
        try:
            entry = decode(start + rest, start[52:84].hex())
            parse_metadata(getattr(entry.metadata, "text", b"{}"))
            yield entry
        except EntryError as error:
            yield f"entry {number + 1} of {count}: {error}"
    if file.read(1):
        yield f"something follows the {count} entries"
