"""Finish a kernel: drop dead nodes, merge axes, choose the lane axis, give it a form.

The form holds only classes; everything that belongs to one shape goes into the launch. Owns `Space`, the axes of a
kernel. Does not own bodies (`jitfuse.plans.body`), numbering, or split reductions (`jitfuse.plans.split`).
"""
from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final

from jitfuse.dtypes import itemsize
from jitfuse.ir.kernels.form import MAX_STATIC_EXTENT, KernelAxis, KernelForm
from jitfuse.ir.kernels.form import Operand as FormOperand
from jitfuse.plans.body import BodyBuilder
from jitfuse.plans.launch import Launch, make_launch
from jitfuse.plans.nodes import OperandDraft
from jitfuse.plans.numbering import Numbering, live_nodes, parted, used_operands

TINY_ROWS: Final = range(2, MAX_STATIC_EXTENT + 1)
"""Rows this short leave vector lanes idle: lanes run along the grid instead."""


class Space:
    """The axes of one kernel: grid blocks and inner blocks. A block is a run of the body's axes walked as one axis.

    `lane_axis` counts grid blocks first. `stages` are the body's, with the stores taken out that must not be skipped.
    """

    def __init__(self, body: BodyBuilder) -> None:
        self.body = body
        self.live = live_nodes(body.stages)
        self.stages = [part for stage in body.stages for part in parted(stage, self.live)]
        self.operands = used_operands(body.stages, self.live)
        blocks = self._blocks()
        self.grid = [b for b in blocks if b[-1] < body.n_grid]
        self.inner = [b for b in blocks if body.n_grid <= b[-1] < len(body.frame.shape)]
        self.contracted = [b for b in blocks if b[-1] >= len(body.frame.shape)]
        self.lane_axis = self._choose_lanes()

    @property
    def blocks(self) -> list[list[int]]:
        """Grid blocks, then inner blocks, then contracted ones."""
        return self.grid + self.inner + self.contracted

    def extent(self, block: list[int]) -> int:
        """Return the number of positions along a block."""
        return int(math.prod(self.body.extents[a] for a in block))

    def extents(self, blocks: list[list[int]]) -> tuple[int, ...]:
        """Return the number of positions along each block."""
        return tuple(map(self.extent, blocks))

    def classes(self, o: OperandDraft, blocks: list[list[int]]) -> tuple[str, ...]:
        """Return the stride classes of an operand along blocks."""
        return tuple(self._class(o, b) for b in blocks)

    def _class(self, o: OperandDraft, block: list[int]) -> str:
        """Return one stride class; strides of a few elements along the lanes have classes of their own.

        They come from last axes of small extent, slices, and diagonals of small matrices. They cost a few more kernels,
        for those shapes alone.
        """
        known: str = o.access.classes[block[-1]]
        if known != "n" or o.out or self.contracted or block is not self.blocks[self.lane_axis]:
            return known
        distance = element_distance(o, block)
        return str(distance) if distance else known

    def strides(self, o: OperandDraft, blocks: list[list[int]]) -> tuple[int, ...]:
        """Return the byte strides of an operand along some blocks."""
        return tuple(o.access.strides[b[-1]] for b in blocks)

    def _blocks(self) -> list[list[int]]:
        """Merge neighbouring axes that every operand walks as one and whose position is unused."""
        indexed = {
            n.imm for s in self.body.stages for n in s.nodes if n.op == "index" and id(n) in self.live
        }
        blocks: list[list[int]] = []
        starts = (self.body.n_grid, len(self.body.frame.shape))
        for a in range(len(self.body.extents)):
            joinable = (
                bool(blocks) and a not in starts and a not in indexed and a - 1 not in indexed
                and all(o.access.merges[a - 1] for o in self.operands)
            )
            if joinable:
                blocks[-1].append(a)
            else:
                blocks.append([a])
        return blocks

    def _unit_score(self, block: list[int]) -> int:
        return sum((3 if o.out else 1) for o in self.operands if o.access.classes[block[-1]] == "1")

    def _lanes_far(self, block: list[int]) -> int:
        """Return for how many of the arrays that vary along a row the elements along a block lie far apart."""
        row = self.inner[-1][-1]
        each = [o for o in self.operands if o.access.classes[row] != "0"]
        return sum(o.access.classes[block[-1]] == "n" and not element_distance(o, block) for o in each)

    def _choose_lanes(self) -> int:
        """Put the best grid axis last and return the lane axis among the merged axes.

        Lanes along an axis of extent 1 would be idle, so such shapes are a size class of their own. Lanes of a
        contraction run along the last axis of its result: an inner axis, or the last grid axis. Lanes along the rows of
        one array may have to gather the columns of another: the axis is chosen for which fewer arrays are gathered.
        """
        if self.contracted:
            return len(self.grid) - (len(self.body.frame.shape) - 1 not in self.body.frame.reduced)
        if self.grid:
            def merit(k: int) -> tuple[bool, int, int]:
                return self.extent(self.grid[k]) != 1, self._unit_score(self.grid[k]), k

            self.grid.append(self.grid.pop(max(range(len(self.grid)), key=merit)))
        last_grid = max(len(self.grid) - 1, 0)
        if not self.inner:
            return last_grid
        if self.grid:
            if math.prod(self.extents(self.inner)) in TINY_ROWS:
                return last_grid
            row, column = self.inner[-1], self.grid[-1]
            if self._unit_score(row) == 0 and self._unit_score(column) > 0:
                return last_grid
            if self._lanes_far(column) < self._lanes_far(row):
                return last_grid
        return len(self.grid) + len(self.inner) - 1


def element_distance(o: OperandDraft, block: list[int]) -> int:
    """Return the distance in elements along a block if it is small, else 0."""
    distance, rest = divmod(o.access.strides[block[-1]], itemsize(o.dtype))
    return distance if not rest and 2 <= distance <= MAX_STATIC_EXTENT else 0


def finish(body: BodyBuilder) -> Launch:
    """Return the launch or launches of a kernel."""
    return whole_launch(Space(body))


@lru_cache(maxsize=64)
def _form(literals: tuple[str, ...], *fields: Any) -> KernelForm:
    """Return the form of these fields, one object for equal ones: many launches of a program share a form."""
    return KernelForm(*fields)


def whole_launch(space: Space) -> Launch:
    """Return the kernel of a space as one launch."""
    body, blocks = space.body, space.blocks
    axis_of = {a: k for k, b in enumerate(blocks) for a in b}
    numbering = Numbering(space.operands, axis_of, space.live, body.params)
    stages = numbering.stages(space.stages, looping=bool(space.inner))
    operands = tuple(FormOperand(o.dtype, space.classes(o, blocks) or ("0",), o.out, o.cell) for o in space.operands)
    form = _form(
        tuple(numbering.literals),
        (KernelAxis(),) * len(space.grid) if blocks else (KernelAxis(1),), (KernelAxis(),) * len(space.inner),
        space.lane_axis, operands,
        tuple(d for d, _ in numbering.params), stages, tuple(n.dtype for n in body.keeps),
        (KernelAxis(),) * len(space.contracted),
    )
    buffers = [(o.buffer, o.access.offset) for o in space.operands]
    strides = [space.strides(o, blocks) for o in space.operands]
    return make_launch(form, buffers, strides, space.extents(blocks) or (1,), numbering.params, numbering.checks)
