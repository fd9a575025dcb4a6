"""Split reductions: reduce chunks of the inner elements to partial rows, then combine them in a final kernel.

Few grid points over many elements would use few threads. The tree of sums and products is defined so that splitting
changes no bit (`jitfuse.ir.kernels.sum_tree.sum_lanes`); other reductions do not depend on order. The final kernel has
the epilogue. Owns the two forms. Does not own when to split (`jitfuse.plans.groups`).
"""
from __future__ import annotations

import math
from typing import Any, Final

from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import itemsize
from jitfuse.ir.kernels.form import KernelAxis, KernelForm
from jitfuse.ir.kernels.form import Operand as FormOperand
from jitfuse.ir.kernels.stages import Instr, Reduction, Stage
from jitfuse.ir.kernels.sum_tree import CHUNK
from jitfuse.ir.program import OpStep
from jitfuse.plans.body import BodyBuilder
from jitfuse.plans.form import Space
from jitfuse.plans.launch import Launch, make_launch
from jitfuse.plans.nodes import INNER
from jitfuse.plans.numbering import Numbering, live_nodes, needed, used_operands
from jitfuse.plans.stages import StageDraft

_BUFFERS: Final = ("partial", "positions")
"""Names of the buffers that hold the partial results of chunks."""


def finish_split(body: BodyBuilder) -> list[Launch]:
    """Return the partial and the final launch."""
    space = Space(body)
    (first,) = (stage for stage in space.stages if stage.reductions)
    return [_partial(space, first), _final(space, first)]


def _chunks(space: Space) -> int:
    return -(-math.prod(space.extents(space.inner)) // CHUNK)


def _row_strides(space: Space, row: int) -> tuple[int, ...]:
    """Return the byte strides of partial rows of `row` bytes along the grid axes and the chunks."""
    points, chunks = space.extents(space.grid), _chunks(space)
    return (*(chunks * math.prod(points[a + 1 :]) * row for a in range(len(points))), row)


class _Rows(NamedTuple):
    """The partial rows of a reduction in memory: dtype, strides along grid and chunks, buffer of each operand."""

    dtypes: list[str]
    strides: list[tuple[int, ...]]
    buffers: list[tuple[Any, int]]


def _rows(space: Space, r: Reduction, step: OpStep) -> _Rows:
    dtypes = [dtype for dtype, _ in r.partial_rows]
    strides = [_row_strides(space, count * itemsize(dtype)) for dtype, count in r.partial_rows]
    return _Rows(dtypes, strides, [((_BUFFERS[k], step.result_id), 0) for k in range(len(dtypes))])


def _partial(space: Space, first: StageDraft) -> Launch:
    """Return the kernel that reduces chunks: its last grid axis counts them; its inner axes are the body's."""
    body, rank, inner = space.body, len(space.grid), len(space.inner)
    live = needed([operand for _, operand, _ in first.reductions])
    stage = StageDraft()
    stage.nodes = [n for s in space.stages for n in s.nodes if id(n) in live]
    stage.reductions = first.reductions
    used = used_operands([stage], live)
    # the chunks' axis stands between the grid and the inner axes
    axis_of = {a: k + (k >= rank) for k, b in enumerate(space.blocks) for a in b}
    numbering = Numbering(used, axis_of, live, body.params)
    (draft,) = numbering.stages([stage], looping=True)
    operands = [
        FormOperand(o.dtype, (*space.classes(o, space.grid), "0", *space.classes(o, space.inner))) for o in used
    ]
    strides = [(*space.strides(o, space.grid), 0, *space.strides(o, space.inner)) for o in used]
    buffers: list[tuple[Any, int]] = [(o.buffer, o.access.offset) for o in used]
    reductions = []
    for r, (step, _, _) in zip(draft.reductions, first.reductions, strict=True):
        rows = _rows(space, r, step)
        rows_at = tuple(range(len(operands), len(operands) + len(rows.dtypes)))
        reductions.append(r._replace(phase="partial", store_to=rows_at))
        operands += [FormOperand(dtype, ("n",) * (rank + 1) + ("0",) * inner, True) for dtype in rows.dtypes]
        strides += [(*s, *(0,) * inner) for s in rows.strides]
        buffers += rows.buffers
    form = KernelForm(
        (KernelAxis(),) * (rank + 1), (KernelAxis(),) * inner, rank + inner, tuple(operands),
        tuple(d for d, _ in numbering.params), (draft._replace(reductions=tuple(reductions)),),
    )
    sizes = (*space.extents(space.grid), _chunks(space), *space.extents(space.inner))
    return make_launch(form, buffers, strides, sizes, numbering.params, numbering.checks)


def _final(space: Space, first: StageDraft) -> Launch:
    """Return the kernel that combines the partial rows, then computes and stores the values per grid point."""
    rank = len(space.grid)
    epilogue = StageDraft()
    # values per grid point are recomputed here, which is cheap
    epilogue.nodes = [n for s in space.stages for n in s.nodes if n.level < INNER]
    live = live_nodes([epilogue])
    used = used_operands([epilogue], live)
    axis_of = {a: k for k, b in enumerate(space.grid) for a in b}
    numbering = Numbering(used, axis_of, live, space.body.params)
    operands = [FormOperand(o.dtype, (*space.classes(o, space.grid), "0"), o.out) for o in used]
    strides = [(*space.strides(o, space.grid), 0) for o in used]
    buffers: list[tuple[Any, int]] = [(o.buffer, o.access.offset) for o in used]
    reductions = []
    for step, operand, result in first.reductions:
        r = Reduction(step.op_name, operand.dtype, (), "final")
        rows = _rows(space, r, step)
        rows_at = tuple(range(len(operands), len(operands) + len(rows.dtypes)))
        reductions.append(r._replace(load_from=rows_at))
        operands += [FormOperand(dtype, ("n",) * (rank + 1)) for dtype in rows.dtypes]
        strides += rows.strides
        buffers += rows.buffers
        numbering.take(result)
    instructions: tuple[Instr, ...] = numbering.instructions(epilogue.nodes)
    stages = (Stage("reduce", (), tuple(reductions)), Stage("point", instructions))
    form = KernelForm(
        (KernelAxis(),) * rank, (KernelAxis(),), rank, tuple(operands), tuple(d for d, _ in numbering.params), stages
    )
    sizes = (*space.extents(space.grid), _chunks(space))
    return make_launch(form, buffers, strides, sizes, numbering.params, numbering.checks)
