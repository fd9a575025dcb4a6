"""Split reductions: partial rows over chunks of the inner elements, then a final kernel with the epilogue.

Few grid points over many elements would keep few threads busy; the sum's tree is defined so that splitting it
changes no bit (`jitfuse.ir.kernel.sum_lanes`). Owns the two forms. Does not own when to split
(`jitfuse.plans.groups`).
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jitfuse.dtypes import itemsize
from jitfuse.ir.kernel import CHUNK, Axis, Instr, KernelForm, Reduction, Stage, sum_lanes
from jitfuse.ir.kernel import Operand as FormOperand
from jitfuse.plans.body import BodyBuilder
from jitfuse.plans.form import Space
from jitfuse.plans.launch import Launch, make_launch
from jitfuse.plans.nodes import INNER
from jitfuse.plans.numbering import Numbering, live_nodes, needed, used_operands
from jitfuse.plans.stages import StageDraft


def finish_split(body: BodyBuilder, partials: Sequence[Any]) -> list[Launch]:
    """Return the partial and the final launch; `partials` are the buffers of the partial rows, one per reduction."""
    space = Space(body)
    (first,) = (stage for stage in space.stages if stage.reductions)
    return [_partial(space, first, partials), _final(space, first, partials)]


def _chunks(space: Space) -> int:
    return -(-math.prod(space.extents(space.inner)) // CHUNK)


def _row_strides(space: Space, dtype: str) -> tuple[int, ...]:
    """Return the byte strides of partial rows along the grid axes and the chunks."""
    row = sum_lanes(itemsize(dtype)) * itemsize(dtype)
    points, chunks = space.extents(space.grid), _chunks(space)
    return (*(chunks * math.prod(points[a + 1 :]) * row for a in range(len(points))), row)


def _partial(space: Space, first: StageDraft, partials: Sequence[Any]) -> Launch:
    """Return the kernel that reduces chunks: its last grid axis counts them, its inner axes are the body's."""
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
    for r, buffer in zip(draft.reductions, partials, strict=True):
        reductions.append(r._replace(phase="partial", store_to=len(operands)))
        operands.append(FormOperand(r.dtype, ("n",) * (rank + 1) + ("0",) * inner, True))
        strides.append((*_row_strides(space, r.dtype), *(0,) * inner))
        buffers.append((buffer, 0))
    form = KernelForm(
        (Axis(),) * (rank + 1), (Axis(),) * inner, rank + inner, tuple(operands),
        tuple(d for d, _ in numbering.params), (draft._replace(reductions=tuple(reductions)),),
    )
    sizes = (*space.extents(space.grid), _chunks(space), *space.extents(space.inner))
    return make_launch(form, buffers, strides, sizes, numbering.params)


def _final(space: Space, first: StageDraft, partials: Sequence[Any]) -> Launch:
    """Return the kernel that combines the partial rows, then computes and stores what is known per grid point."""
    rank = len(space.grid)
    epilogue = StageDraft()
    # what the partial launch knows about grid points is made again: it costs nothing here
    epilogue.nodes = [n for s in space.stages for n in s.nodes if n.level < INNER]
    live = live_nodes([epilogue])
    used = used_operands([epilogue], live)
    axis_of = {a: k for k, b in enumerate(space.grid) for a in b}
    numbering = Numbering(used, axis_of, live, space.body.params)
    operands = [FormOperand(o.dtype, (*space.classes(o, space.grid), "0"), o.out) for o in used]
    strides = [(*space.strides(o, space.grid), 0) for o in used]
    buffers: list[tuple[Any, int]] = [(o.buffer, o.access.offset) for o in used]
    reductions = []
    for (step, operand, result), buffer in zip(first.reductions, partials, strict=True):
        reductions.append(Reduction(step.op_name, operand.dtype, (), "final", load_from=len(operands)))
        operands.append(FormOperand(operand.dtype, ("n",) * (rank + 1)))
        strides.append(_row_strides(space, operand.dtype))
        buffers.append((buffer, 0))
        numbering.take(result)
    instructions: tuple[Instr, ...] = numbering.instructions(epilogue.nodes)
    stages = (Stage("reduce", (), tuple(reductions)), Stage("point", instructions))
    form = KernelForm(
        (Axis(),) * rank, (Axis(),), rank, tuple(operands), tuple(d for d, _ in numbering.params), stages
    )
    return make_launch(form, buffers, strides, (*space.extents(space.grid), _chunks(space)), numbering.params)
