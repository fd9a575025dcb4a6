"""Re-rolls Python loops: long runs of equal ops in a trace become `rolled_loop` steps.

Nested loops are found from the inside out. Owns the graph under construction, and the replacement of runs by loops.
Does not own finding runs (`jitfuse.tracing.control.reroll.comparison`), nor what a run becomes
(`jitfuse.tracing.control.reroll.loop_step`).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jitfuse.ir.program import OpStep
from jitfuse.tracing.control.reroll.comparison import Comparison, Numbers
from jitfuse.tracing.control.reroll.lists import lists_written, numbers_joined
from jitfuse.tracing.control.reroll.literals import literals_inside
from jitfuse.tracing.control.reroll.loop_step import RerolledLoop
from jitfuse.tracing.control.reroll.narrowing import Narrowing
from jitfuse.tracing.control.reroll.op_sequence import OpColumns, columns_of, written_out
from jitfuse.tracing.control.reroll.ragged import with_whole_rows
from jitfuse.tracing.control.reroll.repeated_runs import Runs
from jitfuse.tracing.control.reroll.run import LITERALS, GraphTensors, RerollLimits, attr, is_literal
from jitfuse.tracing.record.graph import OpNode, ProcessGraph
from jitfuse.tracing.schedule.translator import Boundary

_DEPTH: Final = 4
_LONG: Final = 256
"""Fewest ops, in all or left over, for which sums over parts of rows are rewritten."""


def reroll(graph: ProcessGraph, boundary: Boundary, limits: RerollLimits) -> tuple[ProcessGraph, Boundary]:
    """Return a graph and its boundary with long runs of equal ops as loops; the given ones where there are none.

    Sums over rows of different lengths are rewritten over whole rows where that makes loops: first if they span most
    ops, else if they span much of what is left.
    """
    found = _with_whole_rows(graph, boundary, limits, share=1 / 2, most=1 / 4)
    if found is None:
        found = _rerolled(graph, boundary, limits)
        found = _with_whole_rows(*found, limits, share=1 / 3, most=2 / 3) or found
    return found


def _with_whole_rows(
    graph: ProcessGraph, boundary: Boundary, limits: RerollLimits, *, share: float, most: float
) -> tuple[ProcessGraph, Boundary] | None:
    """Return the re-rolled graph with sums over whole rows; None for too few sums, or too many ops left."""
    count = len(graph.ops)
    if count < max(limits.ops, _LONG):
        return None
    whole = with_whole_rows(graph, boundary, limits.iterations, int(share * count))
    found = None if whole is None else _rerolled(whole, boundary, limits)
    return None if found is None or len(found[0].ops) > most * count else found


def _rerolled(graph: ProcessGraph, boundary: Boundary, limits: RerollLimits) -> tuple[ProcessGraph, Boundary]:
    live = graph.live_ops(boundary.delivered())
    literals = [op for op in live if op.op_name in LITERALS and is_literal(op)]
    own = {op.id for op in literals}
    line = [op for op in live if op.id not in own]
    for join in (True, False):
        work = _RerolledGraph(graph, boundary, literals, limits)
        if work.reroll_lists(line, join=join):
            return work.finished(literals)
    work = _RerolledGraph(graph, boundary, literals, limits)
    work.reroll_all(line)
    return work.finished(literals) if work.line else (graph, boundary)


class _RerolledGraph:
    """A graph under construction: its ops without literals, and the new tensors for old ones."""

    def __init__(self, graph: ProcessGraph, boundary: Boundary, literals: list[OpNode], limits: RerollLimits) -> None:
        self.line: list[OpNode] = []
        self._boundary = boundary
        self._graph = ProcessGraph()
        self._graph.metas = list(graph.metas)
        self._graph.feed_names = dict(graph.feed_names)
        self._renamed: dict[int, int] = {}
        self._numbers = Numbers()
        self._limits = limits
        self._tensors = GraphTensors(self._graph.metas, {op.result_ids[0]: op for op in literals})

    def reroll_lists(self, line: list[OpNode], *, join: bool) -> bool:
        """Replace runs that fill lists, too; False where there are none. `join`: also returned lists of numbers."""
        metas, limits = self._graph.metas, self._limits
        if join:
            joined = numbers_joined(line, metas, limits, self._boundary.delivered())
            if joined is None:
                return False
            line, self._renamed = joined.line, joined.renamed
        written = lists_written(line, metas, limits, self._delivered())
        if written is None:
            return False
        self.reroll_all(written.line)
        return bool(self.line) and written.fits(self.line)

    def _delivered(self) -> list[int]:
        """Return the present tensors of the delivered values."""
        return [self._renamed.get(t, t) for t in self._boundary.delivered()]

    def reroll_all(self, line: list[OpNode]) -> None:
        """Replace runs by loops, then runs of these loops."""
        columns = written_out(columns_of(line), self._graph.metas, self._delivered())
        limits = self._limits._replace(ops=0)
        if self.reroll(columns, self._limits):
            for _ in range(1, _DEPTH):
                if not self._reroll_narrowed(self.line, limits) and not self.reroll(columns_of(self.line), limits):
                    break

    def reroll(self, columns: OpColumns, limits: RerollLimits) -> bool:
        """Replace runs by loops; return whether there are any."""
        numbers = self._numbers.of(self._graph.metas)
        comparison = Comparison(columns, numbers, self._tensors.literals, self._delivered())
        runs = Runs(self._tensors, comparison.line)
        taken: list[RerolledLoop] = []
        for run in comparison.runs(limits):
            for loop in runs.loops_of(run):
                comparison.take(loop.begin, loop.end)
                taken.append(loop)
        if taken:
            self._replace(columns.ops, sorted(taken, key=lambda loop: loop.begin))
        return bool(taken)

    def _reroll_narrowed(self, line: list[OpNode], limits: RerollLimits) -> bool:
        """Replace runs of loops that are equal over parts of arrays; undo all where there are none."""
        before = self.line, self._renamed
        loops = _differing(line)
        if len(loops) < limits.iterations:
            return False
        narrowing = Narrowing(self._tensors)
        taken = [RerolledLoop(k, k + 1, *made) for k in loops if (made := narrowing.narrowed(line[k])) is not None]
        self._replace(line, taken)
        if taken and self.reroll(columns_of(self.line), limits):
            return True
        self.line, self._renamed = before
        return False

    def _replace(self, line: Sequence[OpNode], taken: list[RerolledLoop]) -> None:
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
        """Return the graph of all ops, and its boundary over the new tensors."""
        graph, b = self._graph, self._boundary
        known = {t: OpStep(0, op.op_name, (), op.attrs, (t,)) for t, op in self._tensors.literals.items()
                 if op.op_name != "constant"}
        line = [*literals, *self._tensors.constants.values()]
        for op in _made_once(self.line):
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
    """Return the positions of loops whose windows differ from the previous loop with the same body."""
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


def _made_once(line: list[OpNode]) -> list[OpNode]:
    """Return the ops without repeated slices and reshapes."""
    first: dict[Any, int] = {}
    same: dict[int, int] = {}
    kept = []
    for op in line:
        if not same.keys().isdisjoint(op.input_ids):
            op = op._replace(input_ids=tuple([same.get(t, t) for t in op.input_ids]))
        if op.op_name in ("slice", "reshape"):
            found = first.setdefault(op.signature, op.result_ids[0])
            if found != op.result_ids[0]:
                same[op.result_ids[0]] = found
                continue
        kept.append(op)
    return kept
