"""The metadata of a kernel's cache entry, for users: the same that ``jitfuse cache show`` prints.

Owns their reading for kernels in memory. Does not own entries (`jitfuse.cache`) or kernels.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitfuse.cache import Entry, default_store, expand_text

if TYPE_CHECKING:
    from jitfuse.cache.inspect import EntryInfo


class Described:
    """A kernel with a `key` and an `entry`, the object that holds it; several kernels may share one."""

    @property
    def metadata(self) -> dict[str, Any]:
        """All metadata of the entry, with its listings compressed."""
        entry: Entry | None = getattr(self, "entry", None)
        return dict(entry.metadata) if entry is not None else {}

    @property
    def function(self) -> str:
        """The name of the function that the object was first made for."""
        return str(self.metadata.get("function", ""))

    @property
    def where(self) -> str:
        """That function's file:line."""
        return str(self.metadata.get("source", ""))

    @property
    def target(self) -> str:
        """The machine that the code is for."""
        return str(self.metadata.get("target", ""))

    @property
    def program(self) -> str:
        """The text of the program that the object was first made for."""
        return expand_text(self.metadata.get("program"))

    @property
    def cached(self) -> EntryInfo | None:
        """The entry as ``jitfuse cache list`` shows it (size, age, hits, ...); None if it is not on disk."""
        from jitfuse.cache.inspect import find
        from jitfuse.errors import JitfuseError

        try:
            return find(default_store(), str(getattr(self, "key", "")))[0]
        except JitfuseError:
            return None
