"""Rolls equal iterations of Python loops back: from long runs of equal ops in a trace to `rolled_loop` steps.

A run of period p is found where each op has the operator, attributes and metas of the one p ops before it, and reads
what lies as far back, or the very same value, or another literal; regions that slices read and write may move on by a
fixed distance. This is compared for all ops of one period at once, so that the time is linear in the ops. Loops in
loops are found inner ones first. Owns finding runs, and putting loops in their place; what a run becomes is in
`jitfuse.tracing.rolled_step`.
"""
from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from jitfuse.ir.program import Meta, OpStep
from jitfuse.records import NamedTuple
from jitfuse.tracing.graph import OpNode, ProcessGraph
from jitfuse.tracing.rolled_body import EXACT
from jitfuse.tracing.rolled_lists import lists_written
from jitfuse.tracing.rolled_literals import literals_inside
from jitfuse.tracing.rolled_narrow import narrowed
from jitfuse.tracing.rolled_run import Line, Run, Workplace, attr, is_literal
from jitfuse.tracing.rolled_step import Rolled, roll_run
from jitfuse.tracing.rolled_views import made_once, written_out
from jitfuse.tracing.translator import Boundary

MAX_PERIOD: Final = 2048
_COMPARED: Final = 3
"""Operands that are compared for all ops at once; further ones are when a run becomes a loop."""
_AXES: Final = 4
"""Slices of higher rank do not move on."""
_WINDOW: Final = 4
"""Ops by which iterations are recognised before they are compared."""
_ENDS: Final = 16
"""Ends of short runs among which the next one of the same kind is looked for."""
_LITERAL: Final = -1
_DEPTH: Final = 4


class Limits(NamedTuple):
    """From how many ops, in how many iterations, on a run becomes a loop; one of loops does so whatever its ops."""

    ops: int
    iterations: int


def rolled(graph: ProcessGraph, boundary: Boundary, limits: Limits) -> tuple[ProcessGraph, Boundary]:
    """Return a graph and what it delivers, with long runs of equal ops as loops; the given ones where there is none."""
    live = graph.live_ops(boundary.delivered())
    line, delivered = [op for op in live if not is_literal(op)], boundary.delivered()
    work = _Work(graph, boundary, limits)
    written = lists_written(line, work.metas, limits.iterations, delivered)
    if written is not None:
        work.roll_all(written_out(written.line, work.metas, delivered), limits)
        if not written.fits(work.line):
            written, work = None, _Work(graph, boundary, limits)
    if written is None:
        work.roll_all(written_out(line, work.metas, delivered), limits)
    return work.finished([op for op in live if is_literal(op)]) if work.line else (graph, boundary)


class _Work:
    """A graph in the making: its ops but for literals, and what stands for old tensors."""

    def __init__(self, graph: ProcessGraph, boundary: Boundary, limits: Limits) -> None:
        self.line: list[OpNode] = []
        self._boundary = boundary
        self._graph = ProcessGraph()
        self._graph.metas = list(graph.metas)
        self._graph.feed_names = dict(graph.feed_names)
        self._renamed: dict[int, int] = {}
        literals = {op.result_ids[0]: op for op in graph.ops if is_literal(op)}
        self._place = Workplace(self._graph.metas, literals, limits.iterations)

    @property
    def metas(self) -> list[Meta]:
        """The metas of all tensors, to which new ones are added."""
        return self._graph.metas

    def roll_all(self, line: list[OpNode], limits: Limits) -> None:
        """Replace runs by loops, then runs of these."""
        for _ in range(_DEPTH):
            if not self._roll_narrowed(line, limits) and not self.roll(line, limits):
                break
            line, limits = self.line, limits._replace(ops=0)

    def roll(self, line: list[OpNode], limits: Limits) -> bool:
        """Replace runs by loops; returns whether there are any."""
        comparison = _Comparison(line, self._graph.metas, self._place.literals)
        for t in self._boundary.delivered():
            comparison.last_use[self._renamed.get(t, t)] = len(line)
        taken: list[Rolled] = []
        whole = Line(line, comparison.kinds, comparison.position, comparison.last_use)
        for run in comparison.runs(limits):
            for loop in roll_run(self._place, whole, run):
                comparison.take(loop.begin, loop.end)
                taken.append(loop)
        if taken:
            self._replace(line, sorted(taken, key=lambda loop: loop.begin))
        return bool(taken)

    def _roll_narrowed(self, line: list[OpNode], limits: Limits) -> bool:
        """Replace runs of loops over parts of arrays, as far as these are alike as such; else leave all as it is."""
        before = self.line, self._renamed
        loops = _differing(line)
        if len(loops) < limits.iterations:
            return False
        taken = [Rolled(k, k + 1, *made) for k in loops if (made := narrowed(self._place, line[k])) is not None]
        self._replace(line, taken)
        if taken and self.roll(self.line, limits):
            return True
        self.line, self._renamed = before
        return False

    def _replace(self, line: list[OpNode], taken: list[Rolled]) -> None:
        renamed: dict[int, int] = {}
        made: list[OpNode] = []
        at = 0
        for loop in taken:
            made += [*line[at : loop.begin], *loop.ops]
            renamed.update(loop.renamed)
            at = loop.end
        made += line[at:]
        self._renamed = {**{old: renamed.get(new, new) for old, new in self._renamed.items()}, **renamed}
        self.line = [
            op if renamed.keys().isdisjoint(op.input_ids)
            else op._replace(input_ids=tuple([renamed.get(t, t) for t in op.input_ids]))
            for op in made
        ]

    def finished(self, literals: list[OpNode]) -> tuple[ProcessGraph, Boundary]:
        """Return the graph of all ops, and the boundary over what stands for the old values."""
        graph, b = self._graph, self._boundary
        known = {t: OpStep(0, op.op_name, (), op.attrs, (t,)) for t, op in self._place.literals.items()
                 if op.op_name != "constant"}
        line = [*literals, *self._place.constants.values()]
        for op in made_once(self.line):
            inputs, attrs = literals_inside(op.op_name, op.input_ids, op.attrs, known)
            line.append(op._replace(input_ids=inputs, attrs=attrs))
        graph.producer = [None] * len(graph.metas)
        graph.ops = [op._replace(id=k) for k, op in enumerate(line)]
        for op in graph.ops:
            for t in op.result_ids:
                graph.producer[t] = op.id

        def now(values: Any) -> dict[Any, int]:
            return {key: self._renamed.get(t, t) for key, t in values.items()}

        return graph, Boundary(now(b.outputs), b.state_in, now(b.state_out), now(b.writes))


def _differing(line: list[OpNode]) -> list[int]:
    """Return the places of loops that have other windows than the last loop before them with the same body."""
    last: dict[Any, Any] = {}
    found: list[int] = []
    for k, op in enumerate(line):
        if op.op_name == "rolled_loop":
            key = attr(op, "body"), attr(op, "length")
            before = last.setdefault(key, (op.attrs, k))
            last[key] = op.attrs, k
            if before[0] != op.attrs:
                found += [before[1], k]
    return sorted(set(found))


class _Comparison:
    """What of each op is compared with the one a period before it."""

    def __init__(self, line: list[OpNode], metas: list[Meta], literals: dict[int, OpNode]) -> None:
        self.position: dict[int, int] = {}
        self.last_use: dict[int, int] = {}
        count = len(line)
        self._free = np.ones(count, bool)
        self._starts: Any = None
        starts: dict[int, tuple[int, ...]] = {}
        number = _numbers(metas)
        codes: dict[Any, int] = {}
        self.kinds: list[int] = []
        distance = [[0] * count for _ in range(_COMPARED)]
        operand = [[-1] * count for _ in range(_COMPARED)]
        position, last_use = self.position, self.last_use
        for k, op in enumerate(line):
            attrs: Any = op.attrs
            if op.op_name in ("slice", "update_slice"):
                counts, begins, steps = (value for _, value in attrs)
                if len(begins) <= _AXES:
                    starts[k], attrs = begins, (counts, steps)
            looks = tuple([number[t] for t in (*op.input_ids, op.result_ids[0])])
            self.kinds.append(codes.setdefault((op.op_name, attrs, looks, len(op.result_ids)), len(codes)))
            literal = None if op.op_name in EXACT else literals
            for slot, t in enumerate(op.input_ids[:_COMPARED]):
                made = position.get(t)
                operand[slot][k] = t
                if made is not None:
                    distance[slot][k] = k - made
                else:
                    distance[slot][k] = _LITERAL if literal is not None and t in literal else -2 - t
            for t in op.input_ids:
                last_use[t] = k
            for t in op.result_ids:
                position[t] = k
        if starts:
            self._starts = np.zeros((count, _AXES), np.int64)
            padded = [(*begins, *(0,) * (_AXES - len(begins))) for begins in starts.values()]
            self._starts[list(starts)] = padded
        self._code = np.array(self.kinds)
        self._distance, self._operand = np.array(distance), np.array(operand)

    def take(self, begin: int, end: int) -> None:
        """Leave ops out of further runs."""
        self._free[begin:end] = False

    def runs(self, limits: Limits) -> Iterator[Run]:
        """Yield runs of equal iterations, short periods first; those of different periods may overlap.

        Many short runs of one period count as a long one: they are the loops within a loop.
        """
        periods = self._periods(limits.iterations)
        for period in periods:  # which grow
            alike = self._code[period:] == self._code[:-period]
            alike &= self._free[period:] & self._free[:-period]
            for distance, operand in zip(self._distance, self._operand, strict=True):
                alike &= (distance[period:] == distance[:-period]) | (operand[period:] == operand[:-period])
            alike = alike[period:] & alike[:-period]
            if self._starts is not None:
                by = self._starts[period:] - self._starts[:-period]
                alike &= (by[period:] == by[:-period]).all(axis=1)
            least = (limits.iterations - 2) * period
            found = list(_stretches(alike, least))
            if len(found) < limits.iterations or sum(end - begin for begin, end in found) < limits.ops:
                found = [(begin, end) for begin, end in found if end - begin >= limits.ops - 2 * period]
            _add_distances(periods, alike, period, limits.iterations)
            for begin, end in found:
                before = self._free[max(begin - period, 0) : begin]
                yield Run(begin, end + 2 * period, period, begin - int(np.argmin([*before[::-1], False])))

    def _periods(self, least: int) -> list[int]:
        """Return the distances at which a few ops often come again, and small multiples of these."""
        count = len(self._code)
        if count <= _WINDOW:
            return []
        mixed = np.zeros(count, np.uint64)
        for k in range(_WINDOW):
            mixed[: count - k] = mixed[: count - k] * np.uint64(0x9E3779B97F4A7C15) + self._code[k:].astype(np.uint64)
        order = np.argsort(mixed, kind="stable")
        again = mixed[order[1:]] == mixed[order[:-1]]
        apart = np.diff(order)[again]
        often = np.bincount(apart[apart <= MAX_PERIOD], minlength=1)
        found = np.flatnonzero(often >= least - 1)
        every = {p * m for p in found.tolist() for m in (1, 2, 3, 4)}
        return sorted(p for p in every if p <= min(MAX_PERIOD, count // least))


def _add_distances(periods: list[int], alike: Any, period: int, least: int) -> None:
    """Add the distances at which the ends of runs of a period often come again: loops that are too short to be runs."""
    ends = np.flatnonzero(alike[:-1] & ~alike[1:])
    for between in range(1, min(_ENDS, len(ends) - least) + 1):
        apart = ends[between:] - ends[:-between]
        often = np.bincount(apart[apart <= MAX_PERIOD], minlength=1)
        for distance in np.flatnonzero(2 * often >= len(apart)).tolist():
            if distance > period and distance not in periods:
                bisect.insort(periods, distance)


def _numbers(metas: list[Meta]) -> list[int]:
    """Return a number for each meta: equal ones have one."""
    by_identity: dict[int, int] = {}
    by_value: dict[Meta, int] = {}
    found = []
    for meta in metas:
        number = by_identity.get(id(meta))
        if number is None:
            number = by_identity[id(meta)] = by_value.setdefault(meta, len(by_value))
        found.append(number)
    return found


def _stretches(mask: Any, least: int) -> Iterator[tuple[int, int]]:
    """Yield the stretches (begin, end) of at least so many true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]])))
    for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if end - begin >= max(least, 1):
            yield begin, end
