"""Counts of the array transfers between host and GPU, and of their bytes. Owns: the counts of this process.

Only arrays count; kernel arguments (sizes, strides, scalars) are part of the launch.
"""
from __future__ import annotations

import threading

from jitfuse.base.records import NamedTuple


class Transfers(NamedTuple):
    """A snapshot of the counts of this process."""

    uploads: int = 0
    downloads: int = 0
    upload_bytes: int = 0
    download_bytes: int = 0


_lock = threading.Lock()
_current = Transfers()


def transfers() -> Transfers:
    """Return a snapshot of the counts so far."""
    return _current


def count(*, up: int | None = None, down: int | None = None) -> None:
    """Count one upload or download of so many bytes."""
    global _current
    with _lock:
        t = _current
        if up is not None:
            t = t._replace(uploads=t.uploads + 1, upload_bytes=t.upload_bytes + up)
        if down is not None:
            t = t._replace(downloads=t.downloads + 1, download_bytes=t.download_bytes + down)
        _current = t
