"""Emit the loads and stores of one kernel: the operands of its form, and how they are walked.

Owns which operands a kernel has, and where in memory a value is read and stored. Does not own what is computed
(`jitfuse.plans.body`), or who stores what (`jitfuse.plans.kernels`).
"""
from __future__ import annotations

from typing import Any

import numpy as np

from jitfuse.dtypes import COMPONENT, component, itemsize
from jitfuse.ir.program import FusedProgram
from jitfuse.plans.creation import Creation
from jitfuse.plans.frame import Frame, ValueKey
from jitfuse.plans.layout import Flat, IndexMap, Layout, Lin, access, of_cells
from jitfuse.plans.nodes import INNER, POINT, UNIFORM, Node, OperandDraft


class Accesses(Creation):
    """The memory operands of one kernel over the axes of a frame."""

    def __init__(self, program: FusedProgram, frame: Frame, *, in_cells: bool) -> None:
        super().__init__(program, len(frame.grid_axes), in_cells=in_cells)
        self.frame = frame
        self.extents: tuple[int, ...] = frame.extents
        self.operands: list[OperandDraft] = []
        self._operand_of: dict[Any, OperandDraft] = {}

    # ------------------------------------------------------------------ stores
    def store(self, value: int, index: tuple[Lin, ...], buffer: Any, layout: Layout) -> None:
        """Store a value of the frame to memory in the current stage."""
        nodes = self._parts(value, index)
        operand = self._operand(buffer, self.program.meta[value].dtype, layout, index, out=True)
        level = INNER if any(a >= self.n_grid for part in index for a, _ in part.terms) else POINT
        self.node("store", nodes[0].dtype, nodes, (operand, False, False), level)

    def write_cells(self, value: int, buffer: Any, layout: Layout, offset: int) -> None:
        """Store a value over a target whose last axes are not the frame's: a cell at each grid point."""
        meta, shape, lead = self.program.meta[value], layout.shape, self.frame.full_map()
        cells = of_cells(layout, len(lead))
        assert cells is not None
        places = [(*lead, *map(Lin, at)) for at in np.ndindex(shape[len(lead) :])]
        nodes = tuple([n for at in places for n in self._parts(value, self.operand_map(at, shape, meta.shape))])
        operand = self._operand(buffer, meta.dtype, cells, lead, out=True, offset=offset, cell=len(places))
        self.node("store", nodes[0].dtype, nodes, (operand, False, False), POINT)

    def write(self, value: int, index: IndexMap, buffer: Any, layout: Layout, offset: int) -> None:
        """Store a value, read under an index map, over a whole target layout that starts at a byte offset."""
        nodes, dtype = self._parts(value, index), self.program.meta[value].dtype
        operand = self._operand(buffer, dtype, layout, self.frame.full_map(), out=True, offset=offset)
        self.node("store", nodes[0].dtype, nodes, (operand, False, False), POINT)

    def write_at(self, value: int, position: int, buffer: Any, layout: Layout) -> None:
        """Store a block, a value of the frame's shape, at its index among those of a buffer in C order."""
        index, meta = self.frame.full_map(), self.program.meta[value]
        nodes = self._parts(value, index)
        offset = self.times(self.value(ValueKey(position, ())), meta.size * itemsize(meta.dtype))
        operand = self._operand(buffer, meta.dtype, layout, index, out=True)
        self.node("store", nodes[0].dtype, (*nodes, offset), (operand, True, False), POINT)

    def _parts(self, value: int, index: IndexMap) -> tuple[Node, ...]:
        """Return the nodes stored for one element of a value: one, or those of its parts."""
        parts = (0, 1) if self.program.meta[value].dtype in COMPONENT else (None,)
        return tuple(self.value(ValueKey(value, index, part=p)) for p in parts)

    # ------------------------------------------------------------------ loads
    def load(self, key: ValueKey, buffer: Any, layout: Layout) -> Node:
        """Return the load of a value that lies in memory."""
        dtype = self.program.meta[key.value].dtype
        index = key.where
        if isinstance(index, Flat) and not layout.contiguous:
            index = self.unflatten(index, layout.shape)
        operand = self._operand(buffer, dtype, layout, index, out=False, mask=key.mask)
        offset = self._offset(index, layout, dtype)
        args = tuple(n for n in (offset, key.mask) if n is not None)
        moving = [a for a, c in enumerate(operand.access.classes) if c != "0"]
        level = max((INNER if a >= self.n_grid else POINT for a in moving), default=UNIFORM)
        imm = (operand, offset is not None, key.mask is not None)
        if key.part is not None:
            return self.node("load", component(dtype), args, (*imm, key.part), level)
        return self.node("load", dtype, args, imm, level)

    def _offset(self, index: IndexMap, layout: Layout, dtype: str) -> Node | None:
        if isinstance(index, Flat):
            return self.times(index.index, itemsize(dtype)) if isinstance(index.index, Node) else None
        total: Node | None = None
        for part, stride in zip(index, layout.strides, strict=True):
            if isinstance(part, Node):
                term = self.node("multiply", "int64", (part, self.number(stride)))
                total = term if total is None else self.node("add", "int64", (total, term))
        return total

    def _operand(
        self, buffer: Any, dtype: str, layout: Layout, index: IndexMap, *, out: bool, offset: int = 0,
        mask: Node | None = None, cell: int = 1,
    ) -> OperandDraft:
        """Return the operand of an access. Masked ones stay distinct: their addresses may coincide by chance."""
        walk = access(layout, index, self.extents, itemsize(dtype), self.n_grid)
        if offset:
            walk = walk._replace(offset=walk.offset + offset)
        key = (buffer, walk, out, id(mask))
        found = self._operand_of.get(key)
        if found is None:
            found = self._operand_of[key] = OperandDraft(buffer, dtype, walk, out, len(self.operands), cell)
            self.operands.append(found)
        return found
