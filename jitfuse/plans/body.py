"""Emit the bodies of one kernel: from program values under index maps to SSA nodes in stages.

A value is asked for under an index map; what is not in memory is computed on the spot (fusion is nothing
else), and the same value under the same map is computed once a stage. Owns the meaning of views, joins and
updates as index maps and masks. Does not own which values share a kernel (`jitfuse.plans.groups`) or the
final form (`jitfuse.plans.form`).
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from jitfuse.dtypes import itemsize
from jitfuse.ir import ops
from jitfuse.ir.program import FusedProgram, Meta, OpStep
from jitfuse.plans.layout import (
    ZERO,
    Flat,
    IndexMap,
    Layout,
    Lin,
    access,
    along,
    contiguous,
    flatten_linear,
    reshape_groups,
    row_major,
)
from jitfuse.plans.nodes import INNER, POINT, UNIFORM, Node, Operand

KEEP_COST: Final = 8
"""Inner values that cost at least this much are kept in scratch for later stages, not computed again."""

_SPECIAL_LITERALS: Final = (0, 1, -1, 2)
_COMBINERS: Final = {
    "sum": "add", "min": "minimum", "max": "maximum", "any": "logical_or", "all": "logical_and",
}
_STATIC_SECOND: Final = ("power", "bitwise_left_shift", "bitwise_right_shift")


class MisalignedError(Exception):
    """A reduction's result is needed at another grid point than the one that computes it."""


class Frame(NamedTuple):
    """The index space of a kernel in the axes of the values that sweep it: a shape and its reduced axes."""

    shape: tuple[int, ...]
    reduced: tuple[int, ...]

    @property
    def grid_axes(self) -> tuple[int, ...]:
        """The axes that are not reduced."""
        return tuple(k for k in range(len(self.shape)) if k not in self.reduced)

    @property
    def extents(self) -> tuple[int, ...]:
        """Extents of the kernel's axes: grid first, then inner."""
        return tuple(self.shape[k] for k in self.grid_axes + self.reduced)

    def position(self, axis: int) -> int:
        """Return the kernel axis of an axis of the shape."""
        return (self.grid_axes + self.reduced).index(axis)

    def full_map(self) -> tuple[Lin, ...]:
        """Return the index map of a value that sweeps the whole shape."""
        return tuple(along(self.position(k)) for k in range(len(self.shape)))

    def maps(self, shape: tuple[int, ...]) -> Iterable[tuple[str, tuple[Lin, ...]]]:
        """Yield the ways in which a value of this shape can belong to the frame, by name: see `map_of`."""
        if shape == self.shape:
            yield "whole", self.map_of("whole")
        if self.reduced and shape == tuple(1 if k in self.reduced else n for k, n in enumerate(self.shape)):
            yield "kept", self.map_of("kept")
        if self.reduced and shape == tuple(self.shape[k] for k in self.grid_axes):
            yield "dropped", self.map_of("dropped")

    def map_of(self, placing: str) -> tuple[Lin, ...]:
        """Return the index map of a placing: the whole shape, or one value per grid point (axes kept or dropped)."""
        if placing == "whole":
            return self.full_map()
        if placing == "kept":
            return tuple(ZERO if k in self.reduced else along(self.position(k)) for k in range(len(self.shape)))
        return tuple(along(a) for a in range(len(self.grid_axes)))


class Key(NamedTuple):
    """A value under an index map and a mask."""

    value: int
    where: IndexMap
    mask: Node | None = None


class StageDraft:
    """Nodes of one stage in the order they were made, and its reductions (step, operand, result)."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.reductions: list[tuple[OpStep, Node, Node]] = []


Place = Callable[[int], "tuple[Any, Layout] | None"]


class BodyBuilder:
    """Builds the stages of one kernel. `place(value)` tells what lies in memory, as (buffer, layout)."""

    def __init__(
        self, program: FusedProgram, frame: Frame, place: Place, fused_reductions: frozenset[int],
        unrolled: frozenset[int], *, keep: bool,
    ) -> None:
        self.program = program
        self.frame = frame
        self.extents = frame.extents
        self.n_grid = len(frame.grid_axes)
        self.stages: list[StageDraft] = []
        self.operands: list[Operand] = []
        self.params: list[tuple[str, Any]] = []
        self.keeps: list[Node] = []
        self.results: dict[int, Node] = {}
        self._place = place
        self._fused = fused_reductions
        self._unrolled = unrolled
        self._keep = keep
        self._memo: dict[Key, Node] = {}
        self._past: dict[Key, tuple[int, Node]] = {}
        self._unique: dict[Any, Node] = {}
        self._operand_of: dict[Any, Operand] = {}
        self._literals: dict[Any, Node] = {}
        self._dependencies: dict[Key, list[Key]] = {}

    # ------------------------------------------------------------------ stages
    def open_stage(self) -> StageDraft:
        """Start a stage: inner values of earlier stages are out of reach from here on."""
        number = len(self.stages) - 1
        for key, node in self._memo.items():
            if node.level == INNER:
                self._past[key] = (number, node)
        self._memo = {k: n for k, n in self._memo.items() if n.level < INNER}
        self._dependencies.clear()  # masks and computed indices belong to their stage
        stage = StageDraft()
        self.stages.append(stage)
        return stage

    def node(self, op: str, dtype: str, args: tuple[Node, ...] = (), imm: Any = None, level: int = UNIFORM) -> Node:
        """Return the node of an operation, made once in each stage (once at all below inner level)."""
        new = Node(op, dtype, args, imm, level)
        stage = len(self.stages) if new.level == INNER else -1
        key = (op, dtype, tuple(map(id, args)), repr(imm), stage)
        found = self._unique.get(key)
        if found is None:
            self._unique[key] = found = new
            self.stages[-1].nodes.append(new)
        return found

    def reduce(self, step: OpStep) -> None:
        """Reduce a step's operand over the inner axes in the current stage."""
        operand = self.value(Key(step.input_ids[0], self.frame.full_map()))
        result = Node("result", operand.dtype, (), step.result_id, POINT)
        self.stages[-1].reductions.append((step, operand, result))
        self.results[step.result_id] = result

    def store(self, value: int, index: tuple[Lin, ...], buffer: Any, layout: Layout) -> None:
        """Store a value of the frame to memory in the current stage."""
        node = self.value(Key(value, index))
        operand = self._operand(buffer, node.dtype, layout, index, out=True)
        level = INNER if any(a >= self.n_grid for part in index for a, _ in part.terms) else POINT
        self.node("store", node.dtype, (node,), (operand, False, False), level)

    def write(self, value: int, index: IndexMap, buffer: Any, layout: Layout, offset: int) -> None:
        """Store a value, read under an index map, over a whole target layout that starts at a byte offset."""
        node = self.value(Key(value, index))
        operand = self._operand(buffer, node.dtype, layout, self.frame.full_map(), out=True, offset=offset)
        self.node("store", node.dtype, (node,), (operand, False, False), POINT)

    def broadcast_map(self, index: IndexMap, out: tuple[int, ...], shape: tuple[int, ...]) -> IndexMap:
        """Return the index map of an operand of `shape` that is broadcast to `out`."""
        return self._operand_map(index, out, shape)

    # ------------------------------------------------------------------ values
    def value(self, key: Key) -> Node:
        """Return the node of a value, computing what it needs first (depth first, without recursion)."""
        stack = [key]
        while stack:
            top = stack[-1]
            if top in self._memo:
                stack.pop()
                continue
            past = self._past.get(top)
            if past is not None and self._keep and past[1].cost >= KEEP_COST:
                self._memo[top] = self._kept(*past)
                stack.pop()
                continue
            missing = [d for d in self.dependencies(top) if d not in self._memo]
            if missing:
                stack.extend(reversed(missing))
                continue
            self._memo[top] = self._build(top, [self._memo[d] for d in self.dependencies(top)])
            stack.pop()
        return self._memo[key]

    def dependencies(self, key: Key) -> list[Key]:
        """Return what a value is computed from under its map; nothing for what is in memory or reduced here.

        Raises MisalignedError where a reduction of this kernel is asked for away from its own grid point.
        """
        found = self._dependencies.get(key)
        if found is None:
            found = self._dependencies[key] = self._find_dependencies(key)
        return found

    def _kept(self, stage: int, node: Node) -> Node:
        if node not in self.keeps:
            self.keeps.append(node)
            self.stages[stage].nodes.append(Node("keep", node.dtype, (node,), self.keeps.index(node), INNER))
        return self.node("kept", node.dtype, (), self.keeps.index(node), INNER)

    def _find_dependencies(self, key: Key) -> list[Key]:
        if self._place(key.value) is not None:
            return []
        step = self.program.producers[key.value]
        op = ops.get(step.op_name)
        assert op is not None
        if op.kind == ops.REDUCTION:
            if step.result_id in self._unrolled:
                return self._elements(step, key)
            self._check_aligned(step, key.where)
            return []
        if op.kind == ops.ELEMENTWISE:
            out = self.program.meta[key.value].shape
            shapes = [self.program.meta[i].shape for i in step.input_ids]
            maps = [self._operand_map(key.where, out, shape) for shape in shapes]
            return [Key(i, m, key.mask) for i, m in zip(step.input_ids, maps, strict=True)]
        finder = getattr(self, f"_in_{step.op_name}", None)
        return finder(step, key) if finder is not None else []

    def _check_aligned(self, step: OpStep, index: IndexMap) -> None:
        axes, keepdims = reduced_axes(self.program, step), step.attr("keepdims")
        rank = len(self.program.meta[step.input_ids[0]].shape)
        kept = range(rank) if keepdims else [k for k in range(rank) if k not in axes]
        if step.result_id not in self._fused or isinstance(index, Flat):
            raise MisalignedError
        for part, k in zip(index, kept, strict=True):
            if k not in axes and part != along(self.frame.position(k)):
                raise MisalignedError

    def _elements(self, step: OpStep, key: Key) -> list[Key]:
        """Return the few elements that an unrolled reduction combines, in row-major order."""
        shape, axes = self.program.meta[step.input_ids[0]].shape, reduced_axes(self.program, step)
        parts = list(self.unflatten(key.where, self.program.meta[key.value].shape))
        if not step.attr("keepdims"):
            for a in axes:
                parts.insert(a, ZERO)
        keys = []
        for position in np.ndindex(*(shape[a] for a in axes)):
            element = dict(zip(axes, position, strict=True))
            index = tuple(Lin(element[k]) if k in element else p for k, p in enumerate(parts))
            keys.append(Key(step.input_ids[0], index, key.mask))
        return keys

    def _fold(self, op: str, elements: list[Node]) -> Node:
        """Combine elements by the lane tree of sum_lanes: l with l + width / 2, the width halving."""
        width = 1 << (len(elements) - 1).bit_length()
        while width > 1:
            width //= 2
            elements = [
                self.node(op, a.dtype, (a, elements[k + width])) if k + width < len(elements) else a
                for k, a in enumerate(elements[:width])
            ]
        return elements[0]

    def _operand_map(self, index: IndexMap, out: tuple[int, ...], shape: tuple[int, ...]) -> IndexMap:
        if shape == out:
            return index
        if not shape:
            return ()
        parts = self.unflatten(index, out)[len(out) - len(shape) :]
        aligned = out[len(out) - len(shape) :]
        return tuple(p if n == m else ZERO for p, n, m in zip(parts, shape, aligned, strict=True))

    # ------------------------------------------------------------------ views: from a result's map to the operand's
    def _in_broadcast_to(self, step: OpStep, key: Key) -> list[Key]:
        shape = self.program.meta[step.input_ids[0]].shape
        return [Key(step.input_ids[0], self._operand_map(key.where, step.attr("shape"), shape), key.mask)]

    def _in_transpose(self, step: OpStep, key: Key) -> list[Key]:
        parts = self.unflatten(key.where, self.program.meta[key.value].shape)
        inverse: list[Any] = [ZERO] * len(parts)
        for part, axis in zip(parts, step.attr("axes"), strict=True):
            inverse[axis] = part
        return [Key(step.input_ids[0], tuple(inverse), key.mask)]

    def _in_slice(self, step: OpStep, key: Key) -> list[Key]:
        parts = self.unflatten(key.where, self.program.meta[key.value].shape)
        moved = tuple(
            self._affine(p, step_, start)
            for p, start, step_ in zip(parts, step.attr("starts"), step.attr("steps"), strict=True)
        )
        return [Key(step.input_ids[0], moved, key.mask)]

    def _in_reshape(self, step: OpStep, key: Key) -> list[Key]:
        old, new = self.program.meta[step.input_ids[0]].shape, self.program.meta[key.value].shape
        return [Key(step.input_ids[0], self.reshaped(key.where, new, old), key.mask)]

    def reshaped(self, index: IndexMap, new: tuple[int, ...], old: tuple[int, ...]) -> IndexMap:
        """Return an index into `old` for an index into its reshape `new`: by blocks of axes where they match."""
        if isinstance(index, Flat):
            return index
        if not old:
            return ()
        groups = reshape_groups(old, new)
        if groups is None:
            return (ZERO,) * len(old)
        parts: list[Any] = [ZERO] * len(old)
        for group in groups:
            if not group.old:
                continue
            inner = tuple(new[j] for j in group.new)
            position = flatten_linear(inner, tuple(index[j] for j in group.new))
            if len(group.old) == 1:
                parts[group.old[0]] = position or self._flat_node(inner, [index[j] for j in group.new])
            elif len(group.new) == 1 and group.old and all(old[k] == 1 for k in group.old[:-1]):
                parts[group.old[-1]] = index[group.new[0]]
            else:
                return Flat(self._position(new, index))
        return tuple(parts)

    def _position(self, shape: tuple[int, ...], index: tuple[Any, ...]) -> Any:
        linear = flatten_linear(shape, index)
        return linear if linear is not None else self._flat_node(shape, list(index))

    def _flat_node(self, shape: tuple[int, ...], index: list[Any]) -> Node:
        total: Node | None = None
        for part, weight in zip(index, row_major(shape), strict=True):
            term = self._times(self.index_node(part), weight)
            total = term if total is None else self.node("add", "int64", (total, term))
        return total if total is not None else self._number(0)

    def unflatten(self, index: IndexMap, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """Return one index for each axis of `shape`, by division where only a flat position is known."""
        if not isinstance(index, Flat):
            return index
        linear = self.index_node(index.index)
        parts: list[Any] = []
        for k, weight in enumerate(row_major(shape)):
            part = linear
            if k < len(shape) - 1:
                part = self.node("floor_divide", "int64", (linear, self._number(weight)))
            if k:
                part = self.node("remainder", "int64", (part, self._number(shape[k])))
            parts.append(part)
        return tuple(parts)

    def _affine(self, part: Any, factor: int, shift: int) -> Any:
        if isinstance(part, Lin):
            return part.scaled(factor, shift)
        return self.node("add", "int64", (self._times(part, factor), self._number(shift)))

    def index_node(self, part: Any) -> Node:
        """Return an index as an int64 node; numbers derived from shapes are parameters."""
        if isinstance(part, Node):
            return part
        total: Node | None = None if part.const == 0 and part.terms else self._number(part.const)
        for axis, coefficient in part.terms:
            level = INNER if axis >= self.n_grid else POINT
            term = self._times(self.node("index", "int64", (), axis, level), coefficient)
            total = term if total is None else self.node("add", "int64", (total, term))
        assert total is not None
        return total

    def _times(self, node: Node, factor: int) -> Node:
        return node if factor == 1 else self.node("multiply", "int64", (node, self._number(factor)))

    def _number(self, value: int) -> Node:
        return self._param("int64", value)

    def _param(self, dtype: str, value: Any) -> Node:
        self.params.append((dtype, value))
        return self.node("param", dtype, (), len(self.params) - 1)

    # ------------------------------------------------------------------ joins and updates: masks
    def _in_concat(self, step: OpStep, key: Key) -> list[Key]:
        axis = step.attr("axis")
        parts = self.unflatten(key.where, self.program.meta[key.value].shape)
        axis %= len(parts)
        position, start, keys = self.index_node(parts[axis]), 0, []
        for i in step.input_ids:
            extent = self.program.meta[i].shape[axis]
            above = self._compare("greater_equal", position, start)
            inside = self._both(above, self._compare("less", position, start + extent))
            moved = (*parts[:axis], self._affine(parts[axis], 1, -start), *parts[axis + 1 :])
            keys.append(Key(i, moved, self._both(key.mask, inside)))
            start += extent
        return keys

    def _in_update_slice(self, step: OpStep, key: Key) -> list[Key]:
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
            low, high = sorted((start, start + (count - 1) * stride))
            at = self.index_node(part)
            here = self._both(self._compare("greater_equal", at, low), self._compare("less_equal", at, high))
            if count == 0:
                here = self.node("const", "bool", (), False)
            distance = self._affine(part, 1, -start) if stride > 0 else self._affine(part, -1, start)
            if abs(stride) != 1:
                apart = self._number(abs(stride))
                d = self.index_node(distance)
                on = self.node("equal", "bool", (self.node("remainder", "int64", (d, apart)), self._number(0)))
                here = self._both(here, on)
                distance = self.node("floor_divide", "int64", (d, apart))
            inside = self._both(inside, here)
            moved.append(distance)
        region = tuple(step.attr("counts"))
        source = self._operand_map(tuple(moved), region, self.program.meta[value].shape)
        if inside is None:
            return [Key(value, source, key.mask)]
        outside = self._both(key.mask, self.node("logical_not", "bool", (inside,)))
        return [Key(value, source, self._both(key.mask, inside)), Key(target, key.where, outside)]

    def _compare(self, op: str, a: Node, number: int) -> Node:
        return self.node(op, "bool", (a, self._number(number)))

    def _both(self, a: Node | None, b: Node) -> Node:
        return b if a is None else self.node("logical_and", "bool", (a, b))

    # ------------------------------------------------------------------ nodes of steps
    def _build(self, key: Key, inputs: list[Node]) -> Node:
        placed = self._place(key.value)
        if placed is not None:
            return self._load(key, *placed)
        step = self.program.producers[key.value]
        meta = self.program.meta[key.value]
        op = ops.get(step.op_name)
        assert op is not None
        if op.kind == ops.REDUCTION:
            return self.results[step.result_id] if not inputs else self._fold(_COMBINERS[step.op_name], inputs)
        if op.kind == ops.ELEMENTWISE:
            return self._elementwise(step, meta, inputs)
        if step.op_name in ("concat", "update_slice"):
            keys = self.dependencies(key)
            result = inputs[-1]
            for piece, k in zip(reversed(inputs[:-1]), reversed(keys[:-1]), strict=True):
                assert k.mask is not None
                result = self.node("where", meta.dtype, (k.mask, piece, result))
            return result
        if op.kind == ops.VIEW:
            return inputs[0]
        builder: Callable[[OpStep, Key], Node] = getattr(self, f"_make_{step.op_name}")
        return builder(step, key)

    def _elementwise(self, step: OpStep, meta: Meta, inputs: list[Node]) -> Node:
        if step.op_name == "copy":
            return inputs[0]
        if step.op_name == "astype":
            return inputs[0] if inputs[0].dtype == meta.dtype else self.node("astype", meta.dtype, (inputs[0],))
        if step.op_name in _STATIC_SECOND:
            maker = self.program.producers.get(step.input_ids[1])
            if maker is not None and maker.op_name == "full":
                static = self.node("const", inputs[1].dtype, (), maker.attr("value"))
                inputs = [inputs[0], static]
        return self.node(step.op_name, meta.dtype, tuple(inputs))

    def _load(self, key: Key, buffer: Any, layout: Layout) -> Node:
        dtype = self.program.meta[key.value].dtype
        index = key.where
        if isinstance(index, Flat) and not layout.contiguous:
            index = self.unflatten(index, layout.shape)
        operand = self._operand(buffer, dtype, layout, index, out=False)
        offset = self._offset(index, layout, dtype)
        args = tuple(n for n in (offset, key.mask) if n is not None)
        moving = [a for a, c in enumerate(operand.access.classes) if c != "0"]
        level = max((INNER if a >= self.n_grid else POINT for a in moving), default=UNIFORM)
        return self.node("load", dtype, args, (operand, offset is not None, key.mask is not None), level)

    def _offset(self, index: IndexMap, layout: Layout, dtype: str) -> Node | None:
        if isinstance(index, Flat):
            return self._times(index.index, itemsize(dtype)) if isinstance(index.index, Node) else None
        total: Node | None = None
        for part, stride in zip(index, layout.strides, strict=True):
            if isinstance(part, Node):
                term = self.node("multiply", "int64", (part, self._number(stride)))
                total = term if total is None else self.node("add", "int64", (total, term))
        return total

    def _operand(
        self, buffer: Any, dtype: str, layout: Layout, index: IndexMap, *, out: bool, offset: int = 0
    ) -> Operand:
        walk = access(layout, index, self.extents, itemsize(dtype))
        if offset:
            walk = replace(walk, offset=walk.offset + offset)
        key = (buffer, walk, out)
        found = self._operand_of.get(key)
        if found is None:
            found = self._operand_of[key] = Operand(buffer, dtype, walk, out, len(self.operands))
            self.operands.append(found)
        return found

    # ------------------------------------------------------------------ creation and random numbers
    def _make_full(self, step: OpStep, key: Key) -> Node:
        value, dtype = step.attr("value"), self.program.meta[key.value].dtype
        if isinstance(value, bool) or dtype == "bool":
            return self.node("const", dtype, (), int(bool(value)) if dtype == "bool" else int(value))
        if value in _SPECIAL_LITERALS and str(value)[0:2] != "-0":
            return self.node("const", dtype, (), float(value) if dtype.startswith("float") else int(value))
        found = self._literals.get(step.result_id)
        if found is None:
            found = self._literals[step.result_id] = self._param(dtype, value)
        return found

    def _make_zeros(self, step: OpStep, key: Key) -> Node:
        return self.node("const", self.program.meta[key.value].dtype, (), 0)

    def _make_extent(self, step: OpStep, key: Key) -> Node:
        found = self._literals.get(step.result_id)
        if found is None:
            dtype = self.program.meta[key.value].dtype
            found = self._literals[step.result_id] = self._param(dtype, step.attr("value"))
        return found

    def _make_arange(self, step: OpStep, key: Key) -> Node:
        dtype = self.program.meta[key.value].dtype
        (part,) = self.unflatten(key.where, self.program.meta[key.value].shape)
        at = self.index_node(part)
        if dtype != "int64":
            at = self.node("astype", dtype, (at,))
        start, delta = _arange_terms(step, dtype)
        scaled = self.node("multiply", dtype, (at, self._param(dtype, delta)))
        return self.node("add", dtype, (self._param(dtype, start), scaled))

    def _make_random_uniform(self, step: OpStep, key: Key) -> Node:
        state, call = step.input_ids
        shape = self.program.meta[key.value].shape
        position = key.where.index if isinstance(key.where, Flat) else self._position(shape, key.where)
        seed = self.value(Key(state, (Lin(0),)))
        counter = self.value(Key(state, (Lin(1),)))
        index = self.value(Key(call, ()))
        element = self.index_node(position)
        return self.node("random", self.program.meta[key.value].dtype, (seed, counter, index, element))

    def _make_random_advance(self, step: OpStep, key: Key) -> Node:
        (part,) = self.unflatten(key.where, (2,))
        return self.node("add", "int64", (self.value(Key(step.input_ids[0], (part,))), self.index_node(part)))


def _arange_terms(step: OpStep, dtype: str) -> tuple[Any, Any]:
    """Return (first, delta) as NumPy fills an arange: delta is the second element less the first, rounded."""
    first = np.dtype(dtype).type(step.attr("start"))
    second = np.dtype(dtype).type(step.attr("start") + step.attr("step"))
    return first.item(), (second - first).item()


def reduced_axes(program: FusedProgram, step: OpStep) -> tuple[int, ...]:
    """Return the normalised axes that a reduction step reduces."""
    axis = step.attr("axis")
    rank = len(program.meta[step.input_ids[0]].shape)
    if axis is None:
        return tuple(range(rank))
    axes = axis if isinstance(axis, tuple) else (axis,)
    return tuple(sorted(a % rank for a in axes))


def contiguous_layout(meta: Meta) -> Layout:
    """Return the row-major layout of a value."""
    return contiguous(meta.shape, itemsize(meta.dtype))
