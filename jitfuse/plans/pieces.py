"""Joins and updates as pieces: at which elements each operand is read.

A piece is read under a mask, computed from positions at run time. Where a kernel writes out the last axes of its
values, their positions are known, and choose the piece. Owns index maps and masks of pieces. Does not own views
(`jitfuse.plans.index_maps`).
"""
from __future__ import annotations

from typing import Any

from jitfuse.ir.program import FusedProgram, OpStep
from jitfuse.plans.frame import ValueKey
from jitfuse.plans.index_maps import IndexMaps
from jitfuse.plans.layout import Lin
from jitfuse.plans.nodes import Node


class Pieces(IndexMaps):
    """The joins and updates of one kernel.

    `in_cells`: the kernel writes out the last axes of its values, so that constant positions choose pieces. In other
    kernels constant positions are parameters, so that kernels that differ in them alone are one.
    """

    def __init__(self, program: FusedProgram, n_grid: int, *, in_cells: bool) -> None:
        super().__init__(program, n_grid)
        self._in_cells = in_cells

    def _known(self, part: Any) -> int | None:
        """Return a position that chooses a piece when the kernel is built."""
        return part.const if self._in_cells and isinstance(part, Lin) and not part.terms else None

    def _in_concat(self, step: OpStep, key: ValueKey) -> list[ValueKey]:
        axis = step.attr("axis")
        parts = self.unflatten(key.where, self.program.meta[key.value].shape)
        axis %= len(parts)
        pieces, start = [], 0
        for i in step.input_ids:
            pieces.append((i, start, start + self.program.meta[i].shape[axis]))
            start = pieces[-1][2]
        known = self._known(parts[axis])
        if known is not None and 0 <= known < start:
            pieces = [p for p in pieces if p[1] <= known < p[2]]
        position, keys = self.index_node(parts[axis]) if len(pieces) > 1 else None, []
        for i, first, stop in pieces:
            inside: Node | None = None
            if position is not None:
                above = self.compare("greater_equal", position, first)
                inside = self.both(above, self.compare("less", position, stop))
            moved = (*parts[:axis], self._affine(parts[axis], 1, -first), *parts[axis + 1 :])
            keys.append(ValueKey(i, moved, key.mask if inside is None else self.both(key.mask, inside)))
        return keys

    def _in_update_at(self, step: OpStep, key: ValueKey) -> list[ValueKey]:
        target, value, at = step.input_ids
        shape, block = self.program.meta[target].shape, self.program.meta[value].shape
        within = self.unflatten(key.where, shape)[len(shape) - len(block) :] if block else ()
        return [ValueKey(target, key.where, key.mask), ValueKey(value, within, key.mask), ValueKey(at, (), key.mask)]

    def _in_update_slice(self, step: OpStep, key: ValueKey) -> list[ValueKey]:
        target, value = step.input_ids
        parts = self.unflatten(key.where, self.program.meta[key.value].shape)
        inside: Node | None = None
        moved: list[Any] = []
        for part, start, stride, count, extent in zip(
            parts, step.attr("starts"), step.attr("steps"), step.attr("counts"),
            self.program.meta[key.value].shape, strict=True,
        ):
            if (start, stride, count) == (0, 1, extent):
                moved.append(part)
                continue
            known = self._known(part)
            if known is not None:
                number, off = divmod(known - start, stride)
                if off or not 0 <= number < count:
                    return [ValueKey(target, key.where, key.mask)]
                moved.append(Lin(number))
                continue
            low, high = sorted((start, start + (count - 1) * stride))
            at = self.index_node(part)
            here = self.both(self.compare("greater_equal", at, low), self.compare("less_equal", at, high))
            if count == 0:
                here = self.node("const", "bool", (), False)
            distance = self._affine(part, 1, -start) if stride > 0 else self._affine(part, -1, start)
            if abs(stride) != 1:
                step_size = self.number(abs(stride))
                d = self.index_node(distance)
                on = self.node("equal", "bool", (self.node("remainder", "int64", (d, step_size)), self.number(0)))
                here = self.both(here, on)
                distance = self.node("floor_divide", "int64", (d, step_size))
            inside = self.both(inside, here)
            moved.append(distance)
        region = tuple(step.attr("counts"))
        source = self.operand_map(tuple(moved), region, self.program.meta[value].shape)
        if inside is None:
            return [ValueKey(value, source, key.mask)]
        # the target exists at every index: only the region needs a mask
        return [ValueKey(value, source, self.both(key.mask, inside)), ValueKey(target, key.where, key.mask)]
