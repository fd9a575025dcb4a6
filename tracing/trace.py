"""The result of a trace: the program, the sources of its feeds, and the guards under which it replaces the function.

Owns the records, and how they are filled from a session. Does not own the run of the function
(`jitfuse.tracing.tracer`).
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from jitfuse.base.records import Record
from jitfuse.errors import OverlapError
from jitfuse.ir.program import FusedProgram, Meta
from jitfuse.tracing.interception.chain import Chain, Guard
from jitfuse.tracing.record.device_array import HostArray
from jitfuse.tracing.record.session import Session
from jitfuse.tracing.results.returned import ResultTree
from jitfuse.tracing.schedule.translator import Boundary


class FeedSource(Record, frozen=True):
    """Where a feed is read at each call, and the type and layout that it must have.

    source   a Chain, or RANDOM_STATE
    kind     "array" (np.ndarray with exactly these shape, dtype and strides), "python" (exact int or float),
             "numpy" (a NumPy scalar of this dtype), "state"
    strides  in bytes
    """

    source: Any
    kind: str
    meta: Meta
    strides: tuple[int, ...]


class Trace(Record, frozen=True):
    """The result of one trace.

    program         scheduled and pruned; covers both modes
    feeds           feed id -> its source; also feeds that only the result tree names
    guards          conditions under which the program replaces the function
    aliases         (chain, feed): the array at the end of the chain must be the one bound to the feed
    guarded_values  feed id -> the Python scalar, or the bytes of the array, that Python has read; compared at each call
    int_ranges      feed id -> (low, high), the range of a Python int
    result          the tree to return
    positional      number of positional arguments of the call
    keywords        keyword names of the call, in order, without `training`
    mode_sensitive  whether Python or a step has read the training flag
    trace_ms        duration of the trace, in milliseconds
    torch           whether its results are torch tensors, because the function has seen some
    recorded        operators that the run has recorded, before loops were re-rolled
    """

    program: FusedProgram
    feeds: Mapping[int, FeedSource]
    guards: tuple[Guard, ...]
    aliases: tuple[tuple[Chain, int], ...]
    guarded_values: Mapping[int, bool | int | float | complex | bytes]
    int_ranges: Mapping[int, tuple[int, int]]
    result: ResultTree
    positional: int
    keywords: tuple[str, ...]
    mode_sensitive: bool
    trace_ms: float
    mode: bool | None = None
    """The mode that the trace is valid for; None: both."""
    torch: bool = False
    recorded: int = 0


class TraceEnd(Record, frozen=True):
    """The end of a run with graph breaks: the outputs and writes that are left to compute, and the result."""

    session: Session
    guards: Sequence[Guard]
    result: ResultTree
    boundary: Boundary


# ---------------------------------------------------------------- records from a session
def guards_of(
    session: Session, found: Iterable[Guard]
) -> tuple[tuple[Guard, ...], tuple[tuple[Chain, int], ...]]:
    """Return the guards without repetitions, and the aliases.

    If one array has two access paths, the tracing environment guards its identity. It only matters that both paths
    lead to the same array, whichever it is: these guards become aliases of the feed. A wrapper that owns its memory
    stands for the array in it.
    """
    guards: dict[Any, Guard] = {}
    aliases: dict[Chain, int] = {}
    for guard in found:
        owns = guard.kind == "IS" and isinstance(guard.expected, HostArray) and guard.expected.is_owner
        array, chain = (guard.expected.array, guard.chain.attr("value")) if owns else (guard.expected, guard.chain)
        feed = session.feed_of_array.get(id(array)) if guard.kind == "IS" else None
        if feed is None:
            guards.setdefault(guard.key, guard)
        elif chain != session.feeds[feed].source:
            aliases[chain] = feed
    return tuple(guards.values()), tuple(aliases.items())


def feed_sources(session: Session) -> dict[int, FeedSource]:
    """Return the source of each feed."""
    return {f.id: FeedSource(f.source, f.kind, f.meta, f.layout.strides) for f in session.feeds.values()}


def reject_overlap(session: Session, writes: Mapping[int, int]) -> None:
    """Raise OverlapError where a written array shares memory with another feed, or with itself."""
    names = session.graph.feed_names
    for feed in (session.feeds[w] for w in writes):
        repeats = any(s == 0 and n > 1 for n, s in zip(feed.meta.shape, feed.layout.strides, strict=True))
        if repeats and 0 not in feed.meta.shape:
            raise OverlapError(f"{names[feed.id]} is written and its elements share memory")
    if writes:
        found = overlap({f.id: f.value for f in session.feeds.values() if f.kind == "array"}, writes)
        if found is not None:
            raise OverlapError("{} is written and shares memory with {}".format(*[names[feed] for feed in found]))


def overlap(arrays: Mapping[int, Any], written: Collection[int]) -> tuple[int, int] | None:
    """Return the keys of a written array and of another with which it shares memory; None if there are none.

    Memory is what lies between the first and the last byte, as for `np.may_share_memory`.
    """
    spans = sorted([(*np.lib.array_utils.byte_bounds(a), key) for key, a in arrays.items() if a.size])
    last = last_written = (0, -1)
    for begin, end, key in spans:
        before = last if key in written else last_written
        if begin < before[0]:
            return (key, before[1]) if key in written else (before[1], key)
        last = max(last, (end, key))
        if key in written:
            last_written = last
    return None
