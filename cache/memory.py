"""Keep entries in memory if no folder can hold them. Owns only that: bounded, least recently used evicted first."""
from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from jitfuse.cache.entry import Entry


class MemoryLayer:
    """At most `max_bytes` of entries by key; safe to use from many threads."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> Entry | None:
        """Return the entry under `key` and mark it as most recently used, or return None."""
        if not self._entries:
            return None
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
            return entry

    def put(self, entry: Entry) -> None:
        """Store `entry`, replacing an older one with its key; evict the oldest entries beyond the bound."""
        with self._lock:
            self._remove(entry.key)
            self._entries[entry.key] = entry
            self.bytes += _weight(entry)
            while self.bytes > self.max_bytes:
                self._remove(next(iter(self._entries)))

    def discard(self, key: str) -> None:
        """Forget the entry under `key`, if there is one."""
        if self._entries:
            with self._lock:
                self._remove(key)

    def clear(self) -> None:
        """Forget every entry."""
        with self._lock:
            self._entries.clear()
            self.bytes = 0

    def renew_lock(self) -> None:
        """Take a new lock in a forked child: a thread of the parent may have held the old one."""
        self._lock = threading.Lock()

    def _remove(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.bytes -= _weight(entry)


def _weight(entry: Entry) -> int:
    """Return roughly how many bytes an entry takes: listings in its metadata are larger than the code."""
    return 1024 + len(entry.code) + len(entry.canonical) + _text_bytes(entry.metadata)


def _text_bytes(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_text_bytes, value.values()))
    return sum(map(_text_bytes, value)) if isinstance(value, list | tuple) else 0
