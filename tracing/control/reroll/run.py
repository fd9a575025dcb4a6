"""The parts of a run of equal iterations: the operands of each op, and how far slices move.

Owns the iterations of one run (`Iterations`) and the tensors of the graph under construction (`GraphTensors`). Does not
own where runs are (`jitfuse.tracing.control.reroll.rerolling`), nor the loop that they become
(`jitfuse.tracing.control.reroll.loop_step`).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import numpy_dtype
from jitfuse.ir.program import Meta, make_attrs
from jitfuse.tracing.record.graph import OpNode

SAMPLE: Final = 5
"""The iteration that represents all: a run that reads from further back is no loop."""

VIEWS: Final = frozenset({"slice", "reshape"})
"""Operators that are hoisted out of loops where they are the same in all iterations."""

Carry = tuple[int, int, int]
"""(phase, result, lag): a result of the op at this position of an iteration, `lag` iterations before."""


LONG_ITERATION: Final = 64
"""Fewest ops of iterations that are not merged: few such iterations become a loop too, else all would be compiled."""
FEW_ITERATIONS: Final = 4


class RerollLimits(NamedTuple):
    """The fewest ops and iterations of a run that becomes a loop; a run of loops needs no number of ops.

    `merges`: several short iterations may become one of the loop.
    """

    ops: int
    iterations: int
    merges: bool = True

    def least(self, period: int) -> int:
        """Return the fewest iterations of `period` ops that become a loop."""
        return self.iterations if period < LONG_ITERATION else min(self.iterations, FEW_ITERATIONS)


class NoLoopError(Exception):
    """A run cannot become a loop; never leaves this package."""


class PeriodicRun(NamedTuple):
    """Ops begin <= k < end, each like the one a period before it.

    The iteration before may belong to the run, though its outer operands differ: ops from `first` on are free for it.
    `least` is the fewest iterations that become a loop. `merges`: several may become one of the loop.
    """

    begin: int
    end: int
    period: int
    first: int
    least: int
    merges: bool


class Line(NamedTuple):
    """The ops of a graph in order, without literals, and for each tensor its `last_use`: the op that reads it last.

    Delivered tensors count as read after the end. As arrays: ops of equal `kinds` differ only in operands and moving
    regions; `until` is the last use of an op's results; `made` is the op that makes a tensor, -1 for none of the line;
    `literal` marks literals; `first` is the first result of each op, `operands` its first operands (-1: none), `starts`
    the start of its region, axis by axis; `plain` ops have one result and no further operands. Each op is, or is a copy
    of, `recorded[origin[k]]`.
    """

    ops: Sequence[OpNode]
    kinds: Any
    last_use: Any
    until: Any
    made: Any
    literal: Any
    first: Any
    operands: Any
    starts: Any
    plain: Any
    recorded: Sequence[OpNode]
    origin: Any


class GraphTensors:
    """The tensors of the graph under construction: new ones come after the old ones, equal constants are one."""

    def __init__(self, metas: list[Meta], literals: dict[int, OpNode]) -> None:
        self.metas = metas
        self.literals = literals
        self.constants: dict[Any, OpNode] = {}

    def tensor(self, meta: Meta) -> int:
        """Return a new tensor."""
        self.metas.append(meta)
        return len(self.metas) - 1

    def constant(self, array: np.ndarray[Any, Any], dtype: str, source: str) -> int:
        """Return the tensor of an array that is part of the program."""
        data = np.ascontiguousarray(array, numpy_dtype(dtype).newbyteorder("<")).tobytes()
        key = array.shape, dtype, data
        if key not in self.constants:
            attrs = make_attrs({"shape": array.shape, "dtype": dtype, "data": data})
            made = OpNode(0, "constant", (), attrs, (self.tensor(Meta(array.shape, dtype)),), False, source)
            self.constants[key] = self.literals[made.result_ids[0]] = made
        return self.constants[key].result_ids[0]


LITERALS: Final = ("constant", "full")
"""The operators that may make literals."""


def is_literal(op: OpNode) -> bool:
    """Return whether an op is a number or an array that is part of the program."""
    return op.op_name == "constant" or (op.op_name == "full" and attr(op, "shape") == ())


def attr(op: OpNode, name: str) -> Any:
    """Return an attribute of an op."""
    return dict(op.attrs)[name]


class Inner(NamedTuple):
    """An operand: a result of an op, `lag` iterations before."""

    phase: int
    result: int
    lag: int


class Outer(NamedTuple):
    """An operand: the same tensor in all iterations."""

    tensor: int


class Varying(NamedTuple):
    """An operand: literals that differ between iterations."""

    tensors: tuple[int, ...]


Source = Inner | Outer | Varying


class Iterations:
    """`count` iterations of `period` ops from `begin` on.

    ops      the ops of one of them, by phase
    inputs   their operands
    moves    how far the region of a slice or update moves in each iteration, None for other ops
    initial  the carried values of the first iterations
    used     the tensors that are used after the run
    hoisted  views that are the same in all iterations, made once before them: phase -> op
    """

    def __init__(self, tensors: GraphTensors, line: Line, run: PeriodicRun) -> None:
        """Read a run, up to the first iteration whose values are used later; raises NoLoopError if too few are left."""
        self.tensors, self.line, self._position = tensors, line.ops, line.made
        self.begin, self.period = run.begin, run.period
        self.count = (run.end - run.begin) // run.period
        kinds = line.kinds[run.begin : run.begin + 2 * run.period]
        if not np.array_equal(kinds[: run.period], kinds[run.period :]):
            raise NoLoopError
        iterations = (self.producer_of(t)[0] for t in self._used(line))
        self.count = min((k for k in iterations if k < self.count - SAMPLE), default=self.count - 1) + 1
        if self.count < run.least:
            raise NoLoopError
        self.used = self._used(line)
        self._sample = min(SAMPLE, self.count - 1)
        self._made: dict[tuple[int, int], list[int]] = {}
        self.ops = [self.op(r, self._sample) for r in range(self.period)]
        self.moves = self._moves(line)
        self.inputs = self._inputs(line)
        self.initial: dict[Carry, int] = {}
        for phase, sources in enumerate(self.inputs):
            for slot, source in enumerate(sources):
                if isinstance(source, Inner):
                    self._enter(phase, slot, source)
        self._check_initial()
        self.hoisted: dict[int, OpNode] = {}
        self._hoist()

    @property
    def end(self) -> int:
        """One past the last op."""
        return self.begin + self.count * self.period

    def op(self, phase: int, iteration: int) -> OpNode:
        """Return an op of an iteration."""
        return self.line[self.begin + iteration * self.period + phase]

    def _over_iterations(self, phase: int) -> Sequence[OpNode]:
        """Return this op in each iteration."""
        return self.line[self.begin + phase : self.end : self.period]

    def position(self, tensor: int) -> int:
        """Return the position of the op that makes a tensor, -1 for none of the line."""
        at: int = self._position.item(tensor)
        return at

    def producer_of(self, tensor: int) -> tuple[int, int, int]:
        """Return (iteration, phase, result) of a tensor of the run."""
        at = self.position(tensor)
        iteration, phase = divmod(at - self.begin, self.period)
        return iteration, phase, tensor - self.line[at].result_ids[0]

    def _used(self, line: Line) -> list[int]:
        """Return the tensors that are used after the last iteration."""
        begin, end, last_use = self.begin, self.end, line.last_use
        later = np.flatnonzero(line.until[begin:end] >= end).tolist()
        return [t for k in later for t in self.line[begin + k].result_ids if last_use[t] >= end]

    def _moves(self, line: Line) -> list[tuple[int, ...] | None]:
        starts = line.starts[:, self.begin : self.end].reshape(-1, self.count, self.period)
        by = starts[:, 1:] - starts[:, :-1]
        if (by[:, 1:] != by[:, :1]).any():
            raise NoLoopError
        found: list[tuple[int, ...] | None] = []
        for op, steps in zip(self.ops, by[:, 0].T.tolist(), strict=True):
            rank = len(attr(op, "starts")) if op.op_name in ("slice", "update_slice") else -1
            found.append(None if rank < 0 else (*steps, *(0,) * rank)[:rank])
        return found

    def _inputs(self, line: Line) -> list[list[Source]]:
        """Return the operands of each op; the first operands of all ops are compared at once."""
        begin, count, period, sample = self.begin, self.count, self.period, self._sample
        most = max(1, *[len(op.input_ids) for op in self.ops])
        read = line.operands[:most, begin : self.end].reshape(-1, count, period)
        at = line.made[read]
        same = (read == read[:, :1]).all(axis=1)
        literal = line.literal[read].all(axis=1) & ~same
        inner = (read[:, 0] >= 0) & ~same & ~literal
        result = read - line.first[at]
        lag = sample - (at[:, sample] - begin) // period
        after = np.arange(count)[:, None]
        irregular = (at - at[:, [sample]] != (after - sample) * period) | (result != result[:, [sample]])
        irregular &= (after >= lag[:, None]) & inner[:, None]
        outside = inner & (at[:, sample] < begin)
        outside |= same & (read[:, 0] >= 0) & (at[:, 0] >= begin)
        if irregular.any() or outside.any():
            raise NoLoopError
        producer = (at[:, sample] - begin) % period
        lists = [a.tolist() for a in (same, literal, read[:, 0], producer, result[:, sample], lag)]
        found: list[list[Source]] = []
        for r, op in enumerate(self.ops):
            sources: list[Source] = []
            for j in range(len(op.input_ids)):
                if j >= len(read):
                    sources.append(self._source(r, j))
                    continue
                is_same, is_literal, tensor, phase, number, back = [a[j][r] for a in lists]
                sources.append(
                    Outer(tensor) if is_same else Varying(tuple(read[j, :, r].tolist())) if is_literal
                    else Inner(phase, number, back)
                )
            found.append(sources)
        return found

    def _source(self, phase: int, slot: int) -> Source:
        """Return one of the further operands of an op."""
        column = [op.input_ids[slot] for op in self._over_iterations(phase)]
        first, sample = column[0], column[self._sample]
        if column.count(first) == self.count:
            if self.position(first) >= self.begin:
                raise NoLoopError
            return Outer(first)
        if self.tensors.literals.keys() >= set(column):
            return Varying(tuple(column))
        if self.position(sample) < self.begin:
            raise NoLoopError
        iteration, producer, result = self.producer_of(sample)
        lag = self._sample - iteration
        made = self._made.get((producer, result))
        if made is None:
            made = self._made[producer, result] = [op.result_ids[result] for op in self._over_iterations(producer)]
        if made[: self.count - lag] != column[lag:]:
            raise NoLoopError
        return Inner(producer, result, lag)

    def _enter(self, phase: int, slot: int, source: Inner) -> None:
        """Record the tensors that an op reads from before the first iterations."""
        for k in range(source.lag):
            key = source.phase, source.result, source.lag - k
            tensor = self.op(phase, k).input_ids[slot]
            if self.initial.setdefault(key, tensor) != tensor or self.position(tensor) >= self.begin:
                raise NoLoopError

    def _check_initial(self) -> None:
        metas = self.tensors.metas
        for (phase, result, lag), tensor in self.initial.items():
            if any((phase, result, nearer) not in self.initial for nearer in range(1, lag)):
                raise NoLoopError
            if metas[tensor] != metas[self.ops[phase].result_ids[result]]:
                raise NoLoopError

    def _hoist(self) -> None:
        """Hoist the views that are the same in all iterations, and that only these read."""
        again = {source.phase for sources in self.inputs for source in sources
                 if isinstance(source, Inner) and source.lag}
        again |= {self.producer_of(t)[1] for t in self.used}
        metas = self.tensors.metas
        for phase, (op, sources) in enumerate(zip(self.ops, self.inputs, strict=True)):
            if op.op_name not in VIEWS or phase in again or any(self.moves[phase] or ()):
                continue
            outer = [s.tensor for s in sources if isinstance(s, Outer)]
            if len(outer) == len(sources):
                made = self.tensors.tensor(metas[op.result_ids[0]])
                self.hoisted[phase] = op._replace(input_ids=tuple(outer), result_ids=(made,))
                self._replace(Inner(phase, 0, 0), Outer(made))

    def _replace(self, old: Source, new: Source) -> None:
        self.inputs = [[new if source == old else source for source in sources] for sources in self.inputs]
