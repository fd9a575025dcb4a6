"""Rolls equal iterations of Python loops back: from long runs of equal ops in a trace to `rolled_loop` steps.

A run of period p is found where each op has the operator, attributes and metas of the one p ops before it, and reads
what lies as far back, or the very same value, or another literal; regions that slices read and write may move on by a
fixed distance. This is compared for all ops of one period at once, so that the time is linear in the ops. Loops in
loops are found inner ones first. Owns finding runs, and putting loops in their place; what a run becomes is in
`jitfuse.tracing.rolled_step`.
"""
from __future__ import annotations

import bisect
import itertools
from collections.abc import Collection, Iterator
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
_MOVING: Final = ("slice", "update_slice")
_ZEROS: Final = tuple((0,) * (_AXES - rank) for rank in range(_AXES + 1))
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
    live, delivered = graph.live_ops(boundary.delivered()), boundary.delivered()
    literals = [op for op in live if is_literal(op)]
    own = {op.id for op in literals}
    line = [op for op in live if op.id not in own]
    work = _Work(graph, boundary, limits)
    written = lists_written(line, work.metas, limits.iterations, delivered)
    if written is not None:
        work.roll_all(written_out(written.line, work.metas, delivered), limits)
        if not written.fits(work.line):
            written, work = None, _Work(graph, boundary, limits)
    if written is None:
        work.roll_all(written_out(line, work.metas, delivered), limits)
    return work.finished(literals) if work.line else (graph, boundary)


class _Work:
    """A graph in the making: its ops but for literals, and what stands for old tensors."""

    def __init__(self, graph: ProcessGraph, boundary: Boundary, limits: Limits) -> None:
        self.line: list[OpNode] = []
        self._boundary = boundary
        self._graph = ProcessGraph()
        self._graph.metas = list(graph.metas)
        self._graph.feed_names = dict(graph.feed_names)
        self._renamed: dict[int, int] = {}
        self._numbers = _Numbers()
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
        delivered = [self._renamed.get(t, t) for t in self._boundary.delivered()]
        numbers = self._numbers.of(self._graph.metas)
        comparison = _Comparison(line, numbers, self._place.literals, delivered)
        taken: list[Rolled] = []
        for run in comparison.runs(limits):
            for loop in roll_run(self._place, comparison.line, run):
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
    """What of each op is compared with the one a period before it.

    `numbers` tells metas apart; what is `delivered` is read after the end.
    """

    def __init__(
        self, line: list[OpNode], numbers: Any, literals: Collection[int], delivered: Collection[int]
    ) -> None:
        count = len(line)
        self._free = np.ones(count, bool)
        read, arity = _flat([op.input_ids for op in line])
        made, widths = _flat([op.result_ids for op in line])
        at, origin = np.repeat(np.arange(count), arity), np.repeat(np.arange(count), widths)
        position, last_use = np.full(len(numbers), -1), np.full(len(numbers), -1)
        position[made] = origin
        np.maximum.at(last_use, read, at)
        last_use[list(delivered)] = count
        self._operand = np.full((_COMPARED, count), -1)
        for slot, operand in enumerate(self._operand):
            has = arity > slot
            operand[has] = read[(np.cumsum(arity) - arity + slot)[has]]
        self._distance = _distances(line, self._operand, position, literals)
        self._starts, codes = _regions(line)
        self._code = _paired(codes, numbers[made[np.cumsum(widths) - widths]])
        for operand in self._operand:
            self._code = _paired(self._code, np.where(operand < 0, 0, numbers[operand] + 1))
        until = np.maximum.reduceat(last_use[made], np.cumsum(widths) - widths) if count else last_use[:0]
        places = dict(zip(made.tolist(), origin.tolist()))
        self.line = Line(line, self._code.tolist(), places, last_use, until)

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
            for starts in self._starts:
                by = starts[period:] - starts[:-period]
                alike &= by[period:] == by[:-period]
            if not alike.any():
                continue
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
        window = min(_WINDOW, count // least)  # no period is longer than that
        if not window:
            return []
        mixed = np.zeros(count - window + 1, np.uint64)
        for k in range(window):
            mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + self._code[k : k + len(mixed)].astype(np.uint64)
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


def _flat(tuples: list[tuple[int, ...]]) -> tuple[Any, Any]:
    """Return the items of all tuples, and how many each has."""
    lengths = np.fromiter(map(len, tuples), np.int64, len(tuples))
    return np.fromiter(itertools.chain.from_iterable(tuples), np.int64, int(lengths.sum())), lengths


def _distances(line: list[OpNode], operands: Any, position: Any, literals: Collection[int]) -> Any:
    """Return how far back each operand is made; what no op of the line makes has a number of its own below 0."""
    literal = np.zeros(len(position), bool)
    literal[list(literals)] = True
    exact = np.fromiter([op.op_name in EXACT for op in line], bool, len(line))
    made = position[operands]
    given = np.where(literal[operands] & ~exact, _LITERAL, -2 - operands)
    return np.where(operands < 0, 0, np.where(made >= 0, np.arange(len(line)) - made, given))


def _regions(line: list[OpNode]) -> tuple[Any, Any]:
    """Return where regions start, axis by axis, and a number for each op: of equal ones all but this and tensors is
    equal, with the metas of operands beyond those that are compared for all ops at once."""
    numbers: dict[Any, int] = {}
    codes: list[int] = []
    places: list[int] = []
    starts: list[tuple[int, ...]] = []
    rank = 0
    for k, (_, name, inputs, attrs, results, _, _) in enumerate(line):
        key: Any = attrs
        if name in _MOVING:
            (_, counts), (_, begins), (_, steps) = key  # in alphabetical order
            if len(begins) <= _AXES:
                rank = max(rank, len(begins))
                places.append(k)
                starts.append((*begins, *_ZEROS[len(begins)]))
                key = counts, steps
        codes.append(numbers.setdefault((name, key, len(inputs), len(results)), len(numbers)))
    table = np.zeros((_AXES, len(line)), np.int64)
    table[:, places] = np.fromiter(itertools.chain.from_iterable(starts), np.int64).reshape(-1, _AXES).T
    return table[:rank], np.array(codes, np.int64)


def _paired(codes: Any, column: Any) -> Any:
    """Return a number for each pair of numbers: equal pairs have one."""
    width = int(column.max(initial=0)) + 1
    if int(codes.max(initial=0)) >= (1 << 62) // width:
        codes = np.unique(codes, return_inverse=True)[1]
    return codes * width + column


class _Numbers:
    """A number for each meta of a list that grows: equal ones have one."""

    def __init__(self) -> None:
        self._by_identity: dict[int, int] = {}
        self._by_value: dict[Meta, int] = {}
        self._found: list[int] = []

    def of(self, metas: list[Meta]) -> Any:
        """Return the numbers of all metas, of which earlier ones are those of the last call."""
        by_identity, by_value, found = self._by_identity, self._by_value, self._found
        for meta in metas[len(found) :]:
            number = by_identity.get(id(meta))
            if number is None:
                number = by_identity[id(meta)] = by_value.setdefault(meta, len(by_value))
            found.append(number)
        return np.array(found, np.int64)


def _stretches(mask: Any, least: int) -> Iterator[tuple[int, int]]:
    """Yield the stretches (begin, end) of at least so many true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]])))
    for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if end - begin >= max(least, 1):
            yield begin, end
