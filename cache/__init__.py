"""The disk cache: opaque object bytes under a content key, shared by any number of processes.

Knows nothing of kernels, programs or backends. `keys` makes the keys, `entry` is the file format, `location` finds the
folders and decides which to trust, `store` reads, writes and evicts. `inspect` and `render` show the cache to people;
they are imported only when needed. docs/cache.md has the promises and the threat model.
"""
from __future__ import annotations

from jitfuse.cache.entry import Entry, compress_text, expand_text
from jitfuse.cache.keys import cache_key, environment_parts
from jitfuse.cache.sources import SourcesNow, find_entry, nothing_stored, publish, sources_known, sources_now
from jitfuse.cache.store import Store, default_store

__all__ = [
    "Entry", "SourcesNow", "Store", "cache_key", "compress_text", "default_store", "environment_parts", "expand_text",
    "find_entry", "nothing_stored", "publish", "sources_known", "sources_now",
]
