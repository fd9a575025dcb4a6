"""Groups of steps: what a group's frame, its reductions and the index maps of its values allow.

Owns the record of a group, and the predicates over one group, frame or index map. Does not own how groups form
(`jitfuse.plans.groups`).
"""
from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, Final

from jitfuse.base.records import NamedTuple, Record, fresh
from jitfuse.ir.kernels.sum_tree import CHUNK
from jitfuse.ir.operators import ops
from jitfuse.ir.program import OpStep
from jitfuse.plans.contraction import MAX_SWEPT
from jitfuse.plans.frame import Frame, ValueKey
from jitfuse.plans.layout import Flat, Lin
from jitfuse.reasons import Reason

SPLIT_GRID: Final = 8
"""Reductions with fewer grid points than this, over at least two chunks, may be split into partial reductions."""
NARROW: Final = 64
"""Readers of a reduction of long columns get a kernel of their own only if at least this many columns are adjacent."""
MAX_OPERANDS: Final = 32


class RefusedMerge(NamedTuple):
    """One rejected merge: the step to be merged, the step that leads the group, and the reason."""

    step: int
    group: int
    reason: Reason


class Reach(NamedTuple):
    """What lies below a value in a kernel: the longest chain of reductions, and whether inner axes read memory."""

    depth: int = 0
    swept: bool = False


class Group(Record, eq=False):
    """Steps that share a kernel, which may begin with a contraction, or one library call (`host`)."""

    number: int
    frame: Frame
    host: OpStep | None = None
    contraction: OpStep | None = None
    roots: list[int] = fresh(default_factory=list)
    reductions: list[OpStep] = fresh(default_factory=list)
    depths: dict[int, int] = fresh(default_factory=dict)
    placings: dict[int, str] = fresh(default_factory=dict)
    leaves: set[tuple[int, Any]] = fresh(default_factory=set)
    inlined: set[int] = fresh(default_factory=set)
    needs: set[int] = fresh(default_factory=set)
    reach: dict[ValueKey, Reach] = fresh(default_factory=dict)
    split: bool = False
    window: OpStep | None = None
    """The update that the kernel stores in place; such a kernel computes nothing else."""
    size: int = 0
    """How many values it computes; a value counts once for each index map."""

    @property
    def fused(self) -> frozenset[int]:
        """The results of reductions and scans, and of the contraction, that this kernel computes."""
        made = self.reductions if self.contraction is None else [self.contraction, *self.reductions]
        return frozenset(s.result_id for s in made)


class TouchedValues(Record):
    """What computing one value in a frame would touch."""

    leaves: set[tuple[int, Any]] = fresh(default_factory=set)
    inlined: set[int] = fresh(default_factory=set)
    reach: dict[ValueKey, Reach] = fresh(default_factory=dict)
    depth: int = 0
    swept: bool = False
    size: int = 0
    related: bool = False
    """Whether a value that the group computes is needed at the index where the group computes it."""


def may_reduce(group: Group, frame: Frame) -> bool:
    """Return whether a group may take on a reduction over these axes of its shape.

    A contraction's result is swept along rows or columns, which must be short enough to be kept in scratch.
    """
    if group.contraction is None:
        return group.frame.reduced in ((), frame.reduced)
    rank = len(frame.shape)
    if frame.reduced not in ((rank - 1,), (rank - 2,)) or frame.shape[frame.reduced[0]] > MAX_SWEPT:
        return False
    if frame == group.frame:
        return True
    return not group.reductions and all(placing == "whole" for placing in group.placings.values())


def moves(where: Any) -> bool:
    """Return whether an index map moves along some axis of the kernel."""
    return not isinstance(where, tuple) or any(not isinstance(p, Lin) or p.terms for p in where)


def covers(where: Any, frame: Frame) -> bool:
    """Return whether an index map moves along every kernel axis of an extent other than 1."""
    if not isinstance(where, tuple):
        where = (where.index,)
    if any(not isinstance(part, Lin) for part in where):
        return True
    axes = {axis for part in where for axis, _ in part.terms}
    return all(extent == 1 or axis in axes for axis, extent in enumerate(frame.extents))


def is_few_and_long(frame: Frame) -> bool:
    """Return whether few grid points reduce many elements each: the class in which reductions may be split."""
    grid = math.prod(frame.shape[k] for k in frame.grid_axes)
    return 0 < grid < SPLIT_GRID and math.prod(frame.shape[k] for k in frame.reduced) >= 2 * CHUNK


def is_of_long_columns(frame: Frame) -> bool:
    """Return whether long columns are adjacent: a kernel that sweeps them twice does not find them in a cache."""
    last = len(frame.shape) - 1
    if not frame.reduced or last in frame.reduced or frame.shape[last] < NARROW:
        return False
    return math.prod(frame.shape[k] for k in frame.reduced) >= 2 * CHUNK


def reduces(step: OpStep, unrolled: Collection[int]) -> bool:
    """Return whether a kernel reduces or scans for a step; `unrolled` are the results of unrolled reductions."""
    op = ops.get(step.op_name)
    assert op is not None
    return op.kind in (ops.REDUCTION, ops.SCAN) and step.result_id not in unrolled


def is_scan(step: OpStep) -> bool:
    """Return whether a step is a scan: it is computed along its inner axis, as a value of the whole shape."""
    op = ops.get(step.op_name)
    return op is not None and op.kind == ops.SCAN


def result_placing(step: OpStep) -> str:
    """Return where a reduction's or a scan's result lies: "whole", or on the grid with its axes "kept" or "dropped"."""
    if is_scan(step):
        return "whole"
    return "kept" if step.attr("keepdims") else "dropped"


def reframed(leaves: set[tuple[int, Any]], old: Frame, new: Frame) -> set[tuple[int, Any]]:
    """Return leaves under the index maps of a frame of the same shape that reduces other axes.

    A contracted axis stays last, behind the frame's axes.
    """
    axes = [new.position(axis) for axis in old.grid_axes + old.reduced] + [len(new.shape)]

    def moved(part: Any) -> Any:
        if not isinstance(part, Lin):
            return part
        return Lin(part.const, tuple(sorted((axes[a], c) for a, c in part.terms)))

    def map_(where: Any) -> Any:
        return Flat(moved(where.index)) if isinstance(where, Flat) else tuple(map(moved, where))

    return {(value, map_(where)) for value, where in leaves}


def is_per_point(frame: Frame, probe: TouchedValues) -> bool:
    """Return whether all inner extents are 1, and for larger ones the value would still be one per grid point."""
    return probe.depth > 0 and not probe.swept and all(frame.shape[k] == 1 for k in frame.reduced)


def sweeps(where: Any, inner: range) -> bool:
    """Return whether an index map moves along inner axes."""
    return any(not isinstance(p, Lin) or p.coefficient(a) for p in where for a in inner)
