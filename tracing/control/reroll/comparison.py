"""Finds runs of equal iterations among the ops of a trace.

In a run of period p, each op has the operator, attributes and metas of the op p before it. Its operands are made
equally far before, or are the same tensor, or are other literals. Regions of slices may move by a fixed distance. All
ops are compared at once for each period, so that the time is linear in the ops. Does not own what a run becomes
(`jitfuse.tracing.control.reroll.loop_step`).
"""
from __future__ import annotations

import bisect
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from jitfuse.ir.operators import ops
from jitfuse.ir.operators.families import FAMILIES
from jitfuse.ir.program import Meta
from jitfuse.tracing.control.reroll.body import EXACT
from jitfuse.tracing.control.reroll.op_sequence import OpColumns, flat_of
from jitfuse.tracing.control.reroll.run import FEW_ITERATIONS, LONG_ITERATION, Line, PeriodicRun, RerollLimits
from jitfuse.tracing.record.graph import OpNode

MAX_PERIOD: Final = 2048
_COMPARED: Final = 3
"""Operands that are compared for all ops at once; others are compared when a run becomes a loop."""
_AXES: Final = 4
"""Slices of higher rank do not move."""
_INDEXING: Final = frozenset(FAMILIES["indexing"])
_MOVING: Final = ("slice", "update_slice")
_WINDOW: Final = 4
"""Ops by which iterations are recognised before they are compared."""
_ENDS: Final = 16
"""Ends of short runs among which the next run of the same kind is searched."""
_PART: Final = 4
"""Of this many ops of a long iteration, at least one recurs at the same distance."""
_LITERAL: Final = -1


class Comparison:
    """The properties by which each op is compared with the one a period before it.

    `numbers` maps metas to numbers; `delivered` tensors count as read after the end.
    """

    def __init__(
        self, columns: OpColumns, numbers: Any, literals: Collection[int], delivered: Collection[int]
    ) -> None:
        ops, recorded, copied, read, arity, made, widths = columns
        count = len(ops)
        self._free = np.ones(count, bool)
        where, order, first = np.cumsum(arity) - arity, np.arange(count), columns.first
        origin = np.repeat(order, widths)
        position, last_use = np.full(len(numbers), -1), np.full(len(numbers), -1)
        position[made] = origin
        last_use[read] = np.repeat(order, arity)  # of a tensor that is read several times, the last read counts
        last_use[list(delivered)] = count
        operands = np.full((_COMPARED, count), -1)
        for slot, operand in enumerate(operands):
            has = np.flatnonzero(arity > slot)
            operand[has] = read[where[has] + slot]
        literal = np.zeros(len(numbers), bool)
        literal[list(literals)] = True
        self._operand = operands
        starts, codes, exact = _regions(recorded)
        self._starts, codes, exact = starts[:, copied], codes[copied], exact[copied]
        self._distance = _distances(operands, position, literal, exact)
        self._code = _paired(_paired(codes, numbers[first]), arity * (int(widths.max(initial=0)) + 1) + widths)
        for operand in operands:
            self._code = _paired(self._code, np.where(operand < 0, 0, numbers[operand] + 1))
        until = np.maximum.reduceat(last_use[made], np.cumsum(widths) - widths) if count else last_use[:0]
        self.line = Line(
            ops, self._code, last_use, until, position, literal, first, operands, self._starts,
            (arity <= _COMPARED) & (widths == 1), recorded, copied,
        )

    def take(self, begin: int, end: int) -> None:
        """Exclude ops from further runs."""
        self._free[begin:end] = False

    def runs(self, limits: RerollLimits) -> Iterator[PeriodicRun]:
        """Yield runs of equal iterations, short periods first; ops taken from one run are excluded from the next.

        Many short runs of one period count as a long one: they are inner loops. Where their lengths differ, as those of
        `range(i)` do, the shortest become loops too: they share compiled code.
        """
        periods = self._periods(limits)
        for period in periods:  # grows in the loop
            alike = self._code[period:] == self._code[:-period]
            alike &= self._free[period:] & self._free[:-period]
            for distance, operand in zip(self._distance, self._operand, strict=True):
                alike &= (distance[period:] == distance[:-period]) | (operand[period:] == operand[:-period])
            alike = alike[period:] & alike[:-period]
            for starts in self._starts:
                by = starts[period:] - starts[:-period]
                alike &= by[period:] == by[:-period]
            if not alike.any():
                continue
            least = limits.least(period)
            found = list(_stretches(alike, (least - 2) * period))
            if len(found) < limits.iterations or sum(end - begin for begin, end in found) < limits.ops:
                found = [(begin, end) for begin, end in found if end - begin >= limits.ops - 2 * period]
            elif least > FEW_ITERATIONS:
                least = FEW_ITERATIONS
                found = list(_stretches(alike, (least - 2) * period))
            _add_distances(periods, alike, period, limits)
            for begin, end in found:
                taken = np.flatnonzero(~self._free[begin : end + 2 * period])  # up to the end of the run before
                begin += int(taken[-1]) + 1 if len(taken) else 0
                before = self._free[max(begin - period, 0) : begin]
                yield PeriodicRun(
                    begin, end + 2 * period, period, begin - int(np.argmin([*before[::-1], False])), least,
                    limits.merges)

    def _periods(self, limits: RerollLimits) -> list[int]:
        """Return the distances at which a few equal ops often recur, and small multiples of these.

        Those of long iterations may recur less often, but then for a good part of the ops, as there are many distances.
        """
        count, least = len(self._code), limits.iterations
        window = min(_WINDOW, count // least)  # no period is longer
        if not window:
            return []
        mixed = np.zeros(count - window + 1, np.uint64)
        for k in range(window):
            mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + self._code[k : k + len(mixed)].astype(np.uint64)
        order = np.argsort(mixed, kind="stable")
        again = mixed[order[1:]] == mixed[order[:-1]]
        distances = np.diff(order)[again]
        often = np.bincount(distances[distances <= MAX_PERIOD], minlength=1)
        found = np.flatnonzero(often >= least - 1)
        every = {p * m for p in found.tolist() for m in (1, 2, 3, 4)}
        long = np.arange(LONG_ITERATION, max(len(often), LONG_ITERATION))
        again = often[LONG_ITERATION:]
        every.update(long[(again >= limits.least(LONG_ITERATION) - 1) & (again * _PART >= long)].tolist())
        return sorted(p for p in every if p <= min(MAX_PERIOD, count // limits.least(p)))


def _add_distances(periods: list[int], alike: Any, period: int, limits: RerollLimits) -> None:
    """Add the distances between the ends of runs of a period: these are loops too short to be runs."""
    ends = np.flatnonzero(alike[:-1] & ~alike[1:])
    for between in range(1, min(_ENDS, len(ends) - limits.iterations) + 1):
        distances = ends[between:] - ends[:-between]
        often = np.bincount(distances[distances <= MAX_PERIOD], minlength=1)
        for distance in np.flatnonzero(2 * often >= len(distances)).tolist():
            if distance > period and distance not in periods:
                bisect.insort(periods, distance)


def _distances(operands: Any, position: Any, literal: Any, exact: Any) -> Any:
    """Return how far before each operand is made; operands from outside of the line have their own negative numbers."""
    made = position[operands]
    given = np.where(literal[operands] & ~exact, _LITERAL, -2 - operands)
    return np.where(operands < 0, 0, np.where(made >= 0, np.arange(operands.shape[1]) - made, given))


def _regions(ops: Sequence[OpNode]) -> tuple[Any, Any, Any]:
    """Return the starts of regions, axis by axis; a number for each op, equal for ops that differ only in starts and
    tensors; and which ops' kernels depend on literals.

    Most other ops share their name and attributes, as objects: each such pair is read once.
    """
    names: list[str] = [op[1] for op in ops]
    attrs: list[Any] = [op[3] for op in ops]
    moving = [k for k, name in enumerate(names) if name in _MOVING and len(attrs[k][1][1]) <= _AXES]
    staying = np.ones(len(ops), bool)
    staying[moving] = False
    others = np.flatnonzero(staying).tolist()
    codes, exact, raises = np.zeros((3, len(ops)), np.int64)

    regions: list[Any] = [(names[k], attrs[k][0][1], attrs[k][2][1]) for k in moving]  # name, counts and steps
    codes[moving], kinds = _numbered(regions)
    keys = [(names[k], id(attrs[k])) for k in others]
    met = dict(zip(keys, [attrs[k] for k in others]))
    numbers: dict[Any, int] = {}
    facts = [(numbers.setdefault((name, held), kinds + len(numbers)), name in EXACT, _may_raise(name))
             for (name, _), held in met.items()]
    at = np.fromiter(map(dict(zip(met, range(len(met)))).__getitem__, keys), np.int64, len(keys))
    codes[others], exact[others], raises[others] = np.array(facts, np.int64).reshape(-1, 3).T[:, at]
    if raises.any():  # an error names its line, so ops of different lines differ
        which = np.flatnonzero(raises).tolist()
        column = np.zeros(len(ops), np.int64)
        column[which], _ = _numbered([ops[k].source for k in which])
        codes = _paired(codes, column)
    return _starts([attrs[k][1][1] for k in moving], moving, len(ops)), codes, exact.astype(bool)


def _numbered(values: Sequence[Any]) -> tuple[Any, int]:
    """Return a number for each value, the same for equal ones, and the count of numbers."""
    numbers = dict(zip(dict.fromkeys(values), range(len(values))))
    return np.fromiter(map(numbers.__getitem__, values), np.int64, len(values)), len(numbers)


def _starts(starts: list[tuple[int, ...]], positions: list[int], count: int) -> Any:
    """Return the starts of the ops at these positions, axis by axis; 0 for missing axes and for other ops."""
    flat, ranks = flat_of(starts)
    table = np.zeros((int(ranks.max(initial=0)), count), np.int64)
    begins = np.cumsum(ranks) - ranks
    for axis, row in enumerate(table):
        has = ranks > axis
        row[np.array(positions, np.int64)[has]] = flat[begins[has] + axis]
    return table


@lru_cache(maxsize=1024)
def _may_raise(name: str) -> bool:
    """Return whether an operator can raise for some elements: an index, a matrix, an exponent."""
    row = ops.get(name)
    assert row is not None
    return bool(row.raises) or row.kind == ops.LIBRARY or name in _INDEXING


def _paired(codes: Any, column: Any) -> Any:
    """Return a number for each pair of numbers, the same for equal pairs."""
    width = int(column.max(initial=0)) + 1
    if int(codes.max(initial=0)) >= (1 << 62) // width:
        codes = np.unique(codes, return_inverse=True)[1]
    return codes * width + column


class Numbers:
    """Numbers for the metas of a growing list, the same for equal ones."""

    def __init__(self) -> None:
        self._by_identity: dict[int, int] = {}
        self._by_value: dict[Meta, int] = {}
        self._found = np.zeros(0, np.int64)

    def of(self, metas: list[Meta]) -> Any:
        """Return the numbers of all metas; the list may only have grown since the last call."""
        new = metas[len(self._found) :]
        names = list(map(id, new))
        by_identity, by_value = self._by_identity, self._by_value
        for name, meta in dict(zip(names, new)).items():
            if name not in by_identity:
                by_identity[name] = by_value.setdefault(meta, len(by_value))
        added = np.fromiter(map(by_identity.__getitem__, names), np.int64, len(names))
        self._found = np.concatenate([self._found, added])
        return self._found


def _stretches(mask: Any, least: int) -> Iterator[tuple[int, int]]:
    """Yield the stretches (begin, end) of at least `least` true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]])))
    begins, ends = edges[::2], edges[1::2]
    long = ends - begins >= max(least, 1)
    yield from zip(begins[long].tolist(), ends[long].tolist(), strict=True)
