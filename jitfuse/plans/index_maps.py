"""Views as index maps: where operators read their operands.

Owns the step from the index map of a result to the index maps of its operands. Numbers derived from shapes become
parameters. Does not own joins and updates (`jitfuse.plans.pieces`), or what is computed (`jitfuse.plans.body`).
"""
from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitfuse.ir.kernels.form import MAX_STATIC_EXTENT
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, OpStep
from jitfuse.plans.frame import ValueKey, reduced_axes
from jitfuse.plans.launch import Check
from jitfuse.plans.layout import ZERO, Flat, IndexMap, Lin, flatten_linear, reshape_groups, row_major
from jitfuse.plans.nodes import Node
from jitfuse.plans.stages import NodeTable

GATHERS: Final = frozenset({"gather", "take_along_axis"})
"""Operators that read elements of their first operand at the indices that the other operands hold."""


class IndexMaps(NodeTable):
    """The index maps of one kernel over the values of a program."""

    def __init__(self, program: FusedProgram, n_grid: int) -> None:
        super().__init__(n_grid)
        self.program = program
        self.exists: dict[tuple[int, int], Node] = {}
        self._asked: dict[ValueKey, list[ValueKey]] = {}
        self._gathers = not GATHERS.isdisjoint(program.op_names)

    def forget_indices(self) -> None:
        """Forget the values that gathers use as indices: they belong to the stage that ends."""
        self._asked.clear()

    def operand_keys(self, step: OpStep, key: ValueKey) -> list[ValueKey]:
        """Return the operands of a step, each under the map at which it is read; nothing for creation."""
        op = ops.get(step.op_name)
        assert op is not None
        if op.kind == ops.ELEMENTWISE:
            meta, (value, where, mask, _) = self.program.meta, key
            out = meta[value].shape
            return [ValueKey(i, self.operand_map(where, out, meta[i].shape), mask) for i in step.input_ids]
        finder = getattr(self, f"_in_{step.op_name}", None)
        return finder(step, key) if finder is not None else []

    def elements(self, step: OpStep, key: ValueKey) -> list[ValueKey]:
        """Return the four elements that an unrolled reduction combines, in row-major order.

        There are always four, for extents from 2 to 4, so that kernels differ at most in how far apart lanes read.
        Elements past the extent are read at the first element's index, under a mask that is off.
        """
        shape, axes = self.program.meta[step.input_ids[0]].shape, reduced_axes(self.program, step)
        parts = list(self.unflatten(key.where, self.program.meta[key.value].shape))
        if not step.attr("keepdims"):
            for a in axes:
                parts.insert(a, ZERO)
        positions = list(np.ndindex(*(shape[a] for a in axes)))
        keys = []
        for k in range(MAX_STATIC_EXTENT):
            element = dict(zip(axes, positions[k] if k < len(positions) else positions[0], strict=True))
            index = tuple(Lin(element[a]) if a in element else p for a, p in enumerate(parts))
            mask = key.mask if k < 2 else self.both(key.mask, self._guarded(step.result_id, k, len(positions)))
            keys.append(ValueKey(step.input_ids[0], index, mask))
        return keys

    def _guarded(self, value: int, k: int, count: int) -> Node:
        """Return whether an unrolled reduction has a k-th element, recorded in `exists`."""
        found = self.exists.get((value, k))
        if found is None:
            position = self.node("const", "int64", (), k)
            found = self.exists[value, k] = self.node("less", "bool", (position, self.number(count)))
        return found

    def operand_map(self, index: IndexMap, out: tuple[int, ...], shape: tuple[int, ...]) -> IndexMap:
        """Return the index map of an operand of `shape` that is broadcast to `out`."""
        if shape == out:
            return index
        if not shape:
            return ()
        parts = self.unflatten(index, out)[len(out) - len(shape) :]
        aligned = out[len(out) - len(shape) :]
        return tuple(p if n == m else ZERO for p, n, m in zip(parts, shape, aligned, strict=True))

    def reshaped(self, index: IndexMap, new: tuple[int, ...], old: tuple[int, ...]) -> IndexMap:
        """Return an index into `old` for an index into its reshape `new`, by blocks of axes where these match."""
        if isinstance(index, Flat):
            return index
        if not old:
            return ()
        if not new:
            return (ZERO,) * len(old)
        groups = reshape_groups(old, new)
        if groups is None:
            # nothing is read; a constant map would be read once, before a loop of no iterations
            still, moving = old.index(0), index[new.index(0)]
            return tuple(moving if k == still else ZERO for k in range(len(old)))
        parts: list[Any] = [ZERO] * len(old)
        for group in groups:
            if not group.old:
                continue
            # an inserted axis of extent 1 moves nothing: without it, the map is the same as for a broadcast
            axes = [j for j in group.new if new[j] != 1] or group.new[:1]
            inner = tuple(new[j] for j in axes)
            position = flatten_linear(inner, tuple(index[j] for j in axes))
            if len(group.old) == 1:
                parts[group.old[0]] = position or self._flat_node(inner, [index[j] for j in axes])
            elif len(group.new) == 1 and all(old[k] == 1 for k in group.old[:-1]) and all(g.old for g in groups):
                parts[group.old[-1]] = index[group.new[0]]
            else:
                return Flat(self.position_of(new, index))
        return tuple(parts)

    def position_of(self, shape: tuple[int, ...], index: tuple[Any, ...]) -> Any:
        """Return the row-major position of an index: linear if possible, else a node."""
        linear = flatten_linear(shape, index)
        return linear if linear is not None else self._flat_node(shape, list(index))

    def _flat_node(self, shape: tuple[int, ...], index: list[Any]) -> Node:
        total: Node | None = None
        for part, weight in zip(index, row_major(shape), strict=True):
            term = self.times(self.index_node(part), weight)
            total = term if total is None else self.node("add", "int64", (total, term))
        return total if total is not None else self.number(0)

    def unflatten(self, index: IndexMap, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """Return one index for each axis of `shape`, by division if only a flat position is known."""
        if not isinstance(index, Flat):
            return index
        linear = self.index_node(index.index)
        parts: list[Any] = []
        for k, weight in enumerate(row_major(shape)):
            part = linear
            if k < len(shape) - 1:
                part = self.node("floor_divide", "int64", (linear, self.number(weight)))
            if k:
                part = self.node("remainder", "int64", (part, self.number(shape[k])))
            parts.append(part)
        return tuple(parts)

    def _affine(self, part: Any, factor: int, shift: int) -> Any:
        if isinstance(part, Lin):
            return part.scaled(factor, shift)
        return self.node("add", "int64", (self.times(part, factor), self.number(shift)))

    # ------------------------------------------------------------------ views
    def _in_broadcast_to(self, step: OpStep, key: ValueKey) -> list[ValueKey]:
        shape = self.program.meta[step.input_ids[0]].shape
        return [ValueKey(step.input_ids[0], self.operand_map(key.where, step.attr("shape"), shape), key.mask)]

    def _in_transpose(self, step: OpStep, key: ValueKey) -> list[ValueKey]:
        parts = self.unflatten(key.where, self.program.meta[key.value].shape)
        inverse: list[Any] = [ZERO] * len(parts)
        for part, axis in zip(parts, step.attr("axes"), strict=True):
            inverse[axis] = part
        return [ValueKey(step.input_ids[0], tuple(inverse), key.mask)]

    def _in_slice(self, step: OpStep, key: ValueKey) -> list[ValueKey]:
        parts = self.unflatten(key.where, self.program.meta[key.value].shape)
        moved = tuple(
            self._affine(p, step_, start)
            for p, start, step_ in zip(parts, step.attr("starts"), step.attr("steps"), strict=True)
        )
        return [ValueKey(step.input_ids[0], moved, key.mask)]

    def _in_reshape(self, step: OpStep, key: ValueKey) -> list[ValueKey]:
        old, new = self.program.meta[step.input_ids[0]].shape, self.program.meta[key.value].shape
        return [ValueKey(step.input_ids[0], self.reshaped(key.where, new, old), key.mask)]

    def _in_diagonal(self, step: OpStep, key: ValueKey) -> list[ValueKey]:
        *outer, last = self.unflatten(key.where, self.program.meta[key.value].shape)
        offset = step.attr("offset")
        row, column = self._affine(last, 1, max(-offset, 0)), self._affine(last, 1, max(offset, 0))
        return [ValueKey(step.input_ids[0], (*outer, row, column), key.mask)]

    def _in_windows(self, step: OpStep, key: ValueKey) -> list[ValueKey]:
        parts = self.unflatten(key.where, self.program.meta[key.value].shape)
        steps, dilations = step.attr("steps"), step.attr("dilations")
        lead, rank = len(parts) - 2 * len(steps), len(steps)
        moved = tuple(
            self._sum(self._affine(number, stride, 0), self._affine(position, dilation, 0))
            for position, number, stride, dilation in zip(
                parts[lead : lead + rank], parts[lead + rank :], steps, dilations, strict=True)
        )
        return [ValueKey(step.input_ids[0], (*parts[:lead], *moved), key.mask)]

    def _sum(self, a: Any, b: Any) -> Any:
        if isinstance(a, Lin) and isinstance(b, Lin):
            return a.plus(b)
        return self.node("add", "int64", (self.index_node(a), self.index_node(b)))

    # ------------------------------------------------------------------ indices that are data
    def index_keys(self, key: ValueKey) -> list[ValueKey]:
        """Return the values that a gather needs before it knows where it reads, each under its map.

        The keys are cached: a map that divides a flat position makes new nodes each time.
        """
        if not self._gathers:
            return []
        found = self._asked.get(key)
        if found is None:
            found = self._asked[key] = self._find_index_keys(key)
        return found

    def _find_index_keys(self, key: ValueKey) -> list[ValueKey]:
        step = self.program.producers.get(key.value)
        if step is None or step.op_name not in GATHERS:
            return []
        shape = self.program.meta[key.value].shape
        parts = self.unflatten(key.where, shape)
        indices = step.input_ids[1:]
        if step.op_name == "gather":
            place, common = step.attr("place"), np.broadcast_shapes(*(self.program.meta[i].shape for i in indices))
            parts, shape = parts[place : place + len(common)], common
        return [
            ValueKey(i, self.operand_map(tuple(parts), shape, self.program.meta[i].shape), key.mask) for i in indices
        ]

    def value(self, key: ValueKey) -> Node:
        """Return the node of a value under its map."""
        raise NotImplementedError

    def _in_gather(self, step: OpStep, key: ValueKey) -> list[ValueKey]:
        asked, axes, place = self.index_keys(key), step.attr("axes"), step.attr("place")
        nodes = [self.value(k) for k in asked]
        shape = self.program.meta[step.input_ids[0]].shape
        parts = list(self.unflatten(key.where, self.program.meta[key.value].shape))
        del parts[place : len(parts) - (len(shape) - len(axes) - place)]
        for axis, node in zip(axes, nodes, strict=True):
            parts.insert(axis, self._bounded(step, node, axis, shape[axis], key.mask))
        return [*asked, ValueKey(step.input_ids[0], tuple(parts), key.mask)]

    def _in_take_along_axis(self, step: OpStep, key: ValueKey) -> list[ValueKey]:
        (asked,), axis = self.index_keys(key), step.attr("axis")
        shape, out = self.program.meta[step.input_ids[0]].shape, self.program.meta[key.value].shape
        axis %= len(shape)
        node = self._bounded(step, self.value(asked), axis, shape[axis], key.mask)
        read = tuple(m if k == axis else n for k, (n, m) in enumerate(zip(shape, out, strict=True)))
        parts = list(self.operand_map(self.unflatten(key.where, out), out, read))
        parts[axis] = node
        return [asked, ValueKey(step.input_ids[0], tuple(parts), key.mask)]

    def _bounded(self, step: OpStep, node: Node, axis: int, extent: int, mask: Node | None) -> Node:
        """Return an index, counted from 0, that the kernel checks at run time."""
        check = Check(axis, extent, self.program.sources.get(step.step_id))
        return self.node("bounded", "int64", (node, self.number(extent), *([mask] if mask is not None else [])), check)
