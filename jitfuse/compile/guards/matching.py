"""Whether a call matches a trace, or a part of one: the native guards again, in Python.

Owns `Conditions` and the checks. Does not own the native guards (`jitfuse.compile.guards.guard_tables`) or why a call
differs (`jitfuse.compile.guards.mismatch`).
"""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from jitfuse.base.floats import exact_text
from jitfuse.base.records import Record
from jitfuse.compile.guards.guard_tables import is_c_order
from jitfuse.tracing.interception.chain import Chain, Guard
from jitfuse.tracing.record.device_array import seen
from jitfuse.tracing.trace import FeedSource, Trace, overlap


class Conditions(Record, frozen=True):
    """The conditions of a call.

    feeds    the feeds that are checked
    known    these, and the feeds that aliases and written arrays are compared with
    writes   feeds that are written: they must be writeable and overlap no other array
    the rest as in `jitfuse.tracing.trace.Trace`
    """

    guards: Sequence[Guard]
    feeds: Mapping[int, FeedSource]
    known: Mapping[int, FeedSource]
    aliases: Sequence[tuple[Chain, int]]
    guarded_values: Mapping[int, bool | int | float | complex | bytes]
    int_ranges: Mapping[int, tuple[int, int]]
    writes: Collection[int]

    @staticmethod
    def of(trace: Trace) -> Conditions:
        """Return the conditions of a whole trace."""
        return Conditions(
            trace.guards, trace.feeds, trace.feeds, trace.aliases, trace.guarded_values, trace.int_ranges,
            frozenset(trace.program.writes),
        )

    def hold(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Return whether a call with these arguments meets them."""
        if not all(guard.check(args, kwargs) for guard in self.guards):
            return False
        if not all(self._feed_matches(feed, args, kwargs) for feed in self.feeds):
            return False
        return self._same(args, kwargs) and self.disjoint(args, kwargs)

    def _same(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Return whether arrays that were one object in the trace are one object again."""
        return all(
            chain.resolve(args, kwargs) is self.known[feed].source.resolve(args, kwargs)
            for chain, feed in self.aliases
        )

    def disjoint(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Return whether written arrays share memory with no other, as in the trace."""
        if not self.writes:
            return True
        arrays = {f: seen(s.source.resolve(args, kwargs)) for f, s in self.known.items() if s.kind == "array"}
        return overlap(arrays, self.writes) is None

    def _feed_matches(self, feed: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        source = self.feeds[feed]
        if not isinstance(source.source, Chain):
            return True
        try:
            value = seen(source.source.resolve(args, kwargs))
        except Exception:
            return False
        if source.kind == "array":
            return (
                type(value) is np.ndarray and value.dtype.name == source.meta.dtype and value.dtype.isnative
                and value.shape == source.meta.shape and value.flags.aligned
                and (value.flags.writeable or feed not in self.writes)
                and (value.strides == source.strides or _both_c_order(value, source))
                and (feed not in self.guarded_values or value.tobytes() == self.guarded_values[feed])
            )
        if source.kind == "numpy":
            return isinstance(value, np.generic) and value.dtype.name == source.meta.dtype
        wanted = {"float64": float, "int64": int, "bool": bool, "complex128": complex}[source.meta.dtype]
        if type(value) is not wanted:
            return False
        assert isinstance(value, bool | int | float | complex)
        if feed in self.guarded_values and exact_text(value) != exact_text(self.guarded_values[feed]):
            return False
        low, high = self.int_ranges.get(feed, (-(1 << 63), (1 << 63) - 1))
        return not isinstance(value, int) or low <= value <= high


def _both_c_order(value: np.ndarray[Any, Any], source: FeedSource) -> bool:
    return value.flags.c_contiguous and is_c_order(source.meta, source.strides)
