"""Finish a map: decide whether it writes out the last axes of its values.

Lanes along two or three elements are idle, and where values come in pieces along such axes (`np.stack([x, y], axis=1)`,
`np.dstack` of images) each lane would also choose its piece. Such a kernel runs over the axes before: at each point it
computes all elements along the last axes, each from its own piece, and stores them as a cell. Owns this decision. Does
not own how pieces are found (`jitfuse.plans.pieces`) and cells are stored (`BodyBuilder.write_cells`).
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from jitfuse.ir.kernels.form import MAX_CELL, MAX_STATIC_EXTENT
from jitfuse.plans.body import BodyBuilder
from jitfuse.plans.form import finish
from jitfuse.plans.inlining import MAX_STEPS
from jitfuse.plans.launch import Launch
from jitfuse.plans.layout import Layout, of_cells
from jitfuse.plans.nodes import operation_cost
from jitfuse.plans.numbering import live_nodes

LEAST_CELLS: Final = 64
"""Fewer cells leave lanes idle too. Such a kernel is better one for all positions along the last axes."""

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
    be longer than one without cells, which computes this once.
    """
    if cell <= MAX_STATIC_EXTENT:
        return len(live_nodes(made.stages)) <= MAX_STEPS
    return _length(made) <= _length(body)


def _length(body: BodyBuilder) -> int:
    live = live_nodes(body.stages)
    return sum(operation_cost(n.op) for stage in body.stages for n in stage.nodes if id(n) in live)


def _lead(body: BodyBuilder, live: set[int]) -> int:
    """Return how many axes come before the cells of a map; 0 where it has none.

    Cells begin with the first of the short last axes along which positions matter. A map without positions there is one
    loop over all of them.
    """
    shape = body.frame.shape
    first = len(shape)
    while first > 1 and 1 <= math.prod(shape[first - 1 :]) <= MAX_CELL:
        first -= 1
    used = {n.imm for stage in body.stages for n in stage.nodes if n.op == "index" and id(n) in live}
    lead = min((axis for axis in used if axis >= first), default=0)
    return lead if math.prod(shape[lead:]) > 1 and math.prod(shape[:lead]) >= LEAST_CELLS else 0
