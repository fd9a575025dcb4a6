"""Plan temporaries in one arena by their live ranges.

Owns offsets. The algorithm is greedy best fit over live intervals, largest first (as in Pisarchyk and Lee,
"Efficient memory management for deep neural net inference", 2020).
"""
from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from jitfuse.base.records import NamedTuple

ALIGN: Final = 64


class Interval(NamedTuple):
    """One temporary: its bytes, and the first and last runtime step that touches it."""

    size: int
    first: int
    last: int


def live_intervals(sizes: Mapping[Hashable, int], touched: Sequence[Sequence[Hashable]]) -> dict[Hashable, Interval]:
    """Return the interval of each buffer in `sizes`; `touched[k]` lists the buffers of runtime step k."""
    first: dict[Hashable, int] = {}
    last: dict[Hashable, int] = {}
    for k, buffers in enumerate(touched):
        for b in buffers:
            if b in sizes:
                first.setdefault(b, k)
                last[b] = k
    return {b: Interval(sizes[b], first[b], last[b]) for b in first}


def plan_arena(intervals: Mapping[Hashable, Interval]) -> tuple[dict[Hashable, int], int]:
    """Return (byte offset of each buffer, arena bytes); buffers that are live at the same time never overlap."""
    order = sorted(intervals, key=lambda b: (-intervals[b].size, intervals[b].first, repr(b)))
    steps = max((i.last for i in intervals.values()), default=-1) + 1
    alive: list[list[tuple[int, int]]] = [[] for _ in range(steps)]
    """The (begin, end) ranges in use at each step; `begun`: those not in use at the step before."""
    begun: list[list[tuple[int, int]]] = [[] for _ in range(steps)]
    offsets: dict[Hashable, int] = {}
    total = 0
    for buffer in order:
        interval = intervals[buffer]
        size = -(-max(interval.size, 1) // ALIGN) * ALIGN
        busy = list(alive[interval.first])
        for step in range(interval.first + 1, interval.last + 1):
            busy += begun[step]
        busy.sort()
        at, best, best_gap = 0, None, None
        for start, end in busy:
            gap = start - at
            if gap >= size and (best_gap is None or gap < best_gap):
                best, best_gap = at, gap
            at = max(at, end)
        offset = at if best is None else best
        offsets[buffer] = offset
        begun[interval.first].append((offset, offset + size))
        for step in range(interval.first, interval.last + 1):
            alive[step].append((offset, offset + size))
        total = max(total, offset + size)
    return offsets, total
