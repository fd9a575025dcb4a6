"""Runs that equal an earlier one: their loops are the same, over other tensors and other regions of arrays.

The inner loops of a loop differ between iterations in their outer operands and in where their windows begin. Two runs
are compared as arrays, and the loops of the first are reused. Owns when runs are alike, and the reuse. Does not own
what a run becomes (`jitfuse.tracing.control.reroll.loop_step`).
"""
from __future__ import annotations

from collections.abc import Sequence
from operator import mul
from typing import Any

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.ir.program import Attrs
from jitfuse.tracing.control.reroll.arrays import in_order
from jitfuse.tracing.control.reroll.loop_step import RerolledLoop, reroll_run
from jitfuse.tracing.control.reroll.run import GraphTensors, Line, PeriodicRun
from jitfuse.tracing.record.graph import OpNode


class _Known(NamedTuple):
    run: PeriodicRun
    loops: list[RerolledLoop]


class Runs:
    """The runs of one line."""

    def __init__(self, tensors: GraphTensors, line: Line) -> None:
        self._tensors, self._line = tensors, line
        self._known: dict[Any, _Known] = {}
        self._replacement = np.zeros_like(line.made)
        """The present run's outer operand for each one of the known run; `_replaced` is the inverse."""
        self._replaced = np.zeros_like(line.made)

    def loops_of(self, run: PeriodicRun) -> list[RerolledLoop]:
        """Return the loops that a run becomes."""
        key = run.end - run.begin, run.period, run.begin - run.first, run.least
        known = self._known.get(key)
        if known is not None:
            distances = self._distances(known.run, run)
            found = None if distances is None else self._taken_over(known, run, distances)
            if found is not None:
                return found
        loops = reroll_run(self._tensors, self._line, run)
        left = run.end - (loops[-1].end if loops else run.begin)  # what is no loop here may be one elsewhere
        if left < run.least * run.period and all(loop.origin is not None for loop in loops):
            self._known[key] = _Known(run, loops)
        return loops

    # ------------------------------------------------------------------ comparing
    def _distances(self, one: PeriodicRun, other: PeriodicRun) -> Any:
        """Return how far the regions of a run start from those of a run like it, op by op; None where the runs differ.

        Each op must be of the same kind, and have its last use equally far on. Its operands must be made equally far
        before, or be the same literal, or be outer tensors that replace the other run's one for one.
        """
        line, count = self._line, one.end - one.first
        a, b = slice(one.first, one.end), slice(other.first, other.end)
        if not (np.array_equal(line.kinds[a], line.kinds[b]) and line.plain[a].all()):
            return None
        uses = [np.clip(line.until[run] - run.start, -1, count) for run in (a, b)]
        if not np.array_equal(*uses):
            return None
        x, y = line.operands[:, a], line.operands[:, b]
        given = x >= 0
        x, y = x[given], y[given]
        made, again = (np.maximum(line.made[t] - run.start, -1) for t, run in ((x, a), (y, b)))
        if not np.array_equal(made, again):
            return None
        outer = made < 0
        return line.starts[:, b] - line.starts[:, a] if self._correspond(x[outer], y[outer]) else None

    def _correspond(self, x: Any, y: Any) -> bool:
        """Return whether outer tensors correspond one for one; literals correspond to themselves."""
        literal = self._line.literal[x]
        if not np.array_equal(literal, self._line.literal[y]) or (x[literal] != y[literal]).any():
            return False
        self._replacement[x] = y
        self._replaced[y] = x
        return bool((self._replacement[x] == y).all() and (self._replaced[y] == x).all())

    # ------------------------------------------------------------------ taking over
    def _taken_over(self, known: _Known, run: PeriodicRun, distances: Any) -> list[RerolledLoop] | None:
        """Return the loops of a known run over the tensors and regions of a run like it; None where bodies differ."""
        moves = []
        for loop in known.loops:
            move = self._moves(loop, distances[:, loop.begin - known.run.first :], run.first - known.run.first)
            if move is None:
                return None
            moves.append(move)
        made: dict[int, int] = {}
        return [self._moved(loop, known.run, run, move, made) for loop, move in zip(known.loops, moves, strict=True)]

    def _moves(self, loop: RerolledLoop, distances: Any, further: int) -> dict[int, list[int]] | None:
        """Return how far the windows of each operand of a loop move; None where the body must differ.

        All windows of an operand must move equally, in all iterations, because the body depends on how they overlap.
        Slices inside of the body must not move. The loops must come from the same source lines.
        """
        origin = loop.origin
        assert origin is not None
        distances, period = distances[:, : loop.end - loop.begin], origin.period
        one, other = (self._sources(at, at + loop.end - loop.begin) for at in (loop.begin, loop.begin + further))
        if one != other or (distances[:, period:] != distances[:, :-period]).any():
            return None
        distances = distances[:, :period]
        by: list[list[int]] = distances.T.tolist()
        moves: dict[int, list[int]] = {}
        for phase, operand in origin.operands.items():
            if moves.setdefault(operand, by[phase]) != by[phase]:
                return None
        if any(moves[operand][axis] for operand, axis in origin.whole):
            return None
        inside = set(np.flatnonzero(distances.any(axis=0)).tolist()).difference(origin.operands, origin.hoisted)
        return None if inside else moves

    def _sources(self, begin: int, end: int) -> list[str]:
        recorded = self._line.recorded
        return [recorded[k].source for k in self._line.origin[begin:end].tolist()]

    def _moved(
        self, loop: RerolledLoop, known: PeriodicRun, run: PeriodicRun, moves: dict[int, list[int]],
        made: dict[int, int]
    ) -> RerolledLoop:
        """Return a loop over other tensors and regions; `made` maps the known loops' results to the new ones."""
        tensors, line, origin, further = self._tensors, self._line, loop.origin, run.first - known.first
        assert origin is not None

        def now(tensor: int) -> int:
            if tensor in made:
                return made[tensor]
            if tensor in tensors.literals:
                return tensor
            at = int(line.made[tensor])
            return int(line.first[at + further] if at >= known.first else self._replacement[tensor])

        ops: list[OpNode] = []
        for number, op in enumerate(loop.ops):
            inputs, attrs = tuple([now(t) for t in op.input_ids]), op.attrs
            if op.op_name == "rolled_loop":
                attrs = self._over(op, inputs, moves)
            elif number < len(origin.hoisted):
                attrs = line.recorded[line.origin[origin.begin + origin.hoisted[number] + further]].attrs
            made.update({t: tensors.tensor(tensors.metas[t]) for t in op.result_ids})
            ops.append(op._replace(input_ids=inputs, attrs=attrs, result_ids=tuple([made[t] for t in op.result_ids])))
        renamed = {now(old): made[new] for old, new in loop.renamed.items()}
        return RerolledLoop(loop.begin + further, loop.end + further, ops, renamed)

    def _over(self, op: OpNode, inputs: Sequence[int], moves: dict[int, list[int]]) -> Attrs:
        """Return the attributes of a loop with the windows of each operand moved."""
        held: dict[str, Any] = dict(op.attrs)
        sources = inputs[held["carries"] :]
        by = {n: sum(map(mul, far, in_order(self._tensors.metas[sources[n]].shape))) for n, far in moves.items()}
        for name in ("reads", "writes"):
            held[name] = tuple([(a[0], a[1] + by.get(a[0], 0), *a[2:]) for a in held[name]])
        return tuple(held.items())
