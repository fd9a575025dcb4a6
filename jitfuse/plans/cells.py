"""Finish a map: decide whether it writes out the last axes of its values.

Lanes along two or three elements are idle (`rgb * gains`, `xy[:, ::-1]`). Where values come in pieces along such axes
(`np.stack([x, y], axis=1)`, `np.dstack` of images) each lane would also choose its piece. Such a kernel runs over the
axes before: at each point it computes all elements along the last axes, each from its own piece, and stores them as a
cell. Owns this decision. Does not own how pieces are found (`jitfuse.plans.pieces`) and cells are stored
(`BodyBuilder.write_cells`).
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from jitfuse.ir.kernels.form import MAX_CELL, MAX_STATIC_EXTENT
from jitfuse.plans.body import BodyBuilder
from jitfuse.plans.form import element_distance, finish
from jitfuse.plans.group import MAX_OPERANDS
from jitfuse.plans.inlining import MAX_STEPS
from jitfuse.plans.launch import Launch
from jitfuse.plans.layout import Layout, of_cells
from jitfuse.plans.nodes import operation_cost
from jitfuse.plans.numbering import live_nodes, used_operands

LEAST_CELLS: Final = 64
"""Fewer cells leave lanes idle too. Such a kernel is better one for all positions along the last axes."""
_MOST_OPERANDS: Final = 2 * MAX_OPERANDS
"""The elements of a cell are read by loads of their own."""

Target = tuple[int, Any, Layout, int]
"""A value that a kernel stores over its whole frame: the buffer, the layout there, and the byte offset."""


def finish_map(body: BodyBuilder, targets: Sequence[Target]) -> Launch:
    """Return the launch of a body that stores values to targets and does nothing else."""
    live = live_nodes(body.stages)
    lead = _lead(body, live)
    if lead and all(of_cells(layout, lead) for _, _, layout, _ in targets):
        made = body.in_cells(lead)
        for target in targets:
            made.write_cells(*target)
        if _is_worth_it(made, body, math.prod(body.frame.shape[lead:])):
            return finish(made)
    return finish(body)


def _is_worth_it(made: BodyBuilder, body: BodyBuilder, cell: int) -> bool:
    """Return whether a kernel with cells is no longer than it may be.

    What is computed of a join is written out for each element. Long cells are for pieces alone: their kernel must not
    be longer than one without cells, which computes this once. It must not read elements that are far apart either:
    each of them takes an instruction of its own.
    """
    if len(made.operands) > _MOST_OPERANDS:
        return False
    if cell <= MAX_STATIC_EXTENT:
        return len(live_nodes(made.stages)) <= MAX_STEPS
    far = any(o.access.classes[-1] == "n" and not element_distance(o, [-1]) for o in made.operands if not o.out)
    return not far and _length(made) <= _length(body)


def _length(body: BodyBuilder) -> int:
    live = live_nodes(body.stages)
    return sum(operation_cost(n.op) for stage in body.stages for n in stage.nodes if id(n) in live)


def _lead(body: BodyBuilder, live: set[int]) -> int:
    """Return how many axes come before the cells of a map; 0 where it has none.

    Cells begin with the first of the short last axes along which positions matter, or which some operand does not walk
    on with the axis before. A map without such an axis is one loop over all of them.
    """
    shape = body.frame.shape
    used = {n.imm for stage in body.stages for n in stage.nodes if n.op == "index" and id(n) in live}
    operands = used_operands(body.stages, live)
    lead = cell = 0
    for axis in range(len(shape) - 1, 0, -1):
        length = math.prod(shape[axis:])
        if not 1 <= length <= MAX_CELL:
            break
        apart = length <= MAX_STATIC_EXTENT and not all(o.access.merges[axis - 1] for o in operands)
        if axis in used or apart:
            lead, cell = axis, length
    return lead if cell > 1 and math.prod(shape[:lead]) >= LEAST_CELLS else 0
