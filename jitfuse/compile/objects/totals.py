"""Counts of compiled modules and cache hits, per process and per thread. Owns nothing else."""
from __future__ import annotations

import threading

from jitfuse.base.records import Record


class Totals(Record):
    """Counts: modules given to LLVM, objects found in the cache, and objects missing from it."""

    compiles: int = 0
    cache_hits: int = 0
    cache_misses: int = 0


class _ThreadTotals(threading.local, Totals):
    pass


_totals = Totals()
_own_totals = _ThreadTotals()


def totals() -> Totals:
    """Return the counts of this process."""
    return _totals


def thread_totals() -> Totals:
    """Return the counts of this thread alone, without what other threads compile meanwhile."""
    return _own_totals


def count(name: str) -> None:
    """Add one to a total."""
    for counts in (_totals, _own_totals):
        setattr(counts, name, getattr(counts, name) + 1)
