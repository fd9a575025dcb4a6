"""Rewrite a program's products: reorder chains, compute diagonals alone, replace vector products by sums.

Each function takes a program and returns an equal one, up to the tolerance of contractions. It returns the same object
if there is nothing to do. Owns these rewritings. Does not own when they pay (`jitfuse.plans.plan`).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jitfuse.ir.program import FusedProgram, Meta, OpStep, make_attrs
from jitfuse.ir.rules.meta_rules import sum_dtype
from jitfuse.passes.array.mode import prune
from jitfuse.plans.contraction import is_contraction
from jitfuse.plans.contraction_cost import size_class
from jitfuse.tracing.program_builder import ProgramBuilder, rewrite

_SUMMED_AS_THEY_ARE: Final = ("float32", "float64", "int32", "int64", "uint32", "uint64")

Order = Any
"""A value, or a pair of orders: the association of a chain of products."""


def regrouped(program: FusedProgram) -> FusedProgram:
    """Form chains of products in their cheapest order. If only a diagonal of a product is read, compute only that."""
    return _associated(_diagonals(program))


def _inner(program: FusedProgram, value: int, op_name: str) -> OpStep | None:
    """Return the step that makes a value, if it is a product and all its readers are of one operator."""
    step = program.producers.get(value)
    delivered = {*program.outputs.values(), *program.writes.values(), *program.state_out.values()}
    if step is None or step.op_name != "matmul" or value in delivered:
        return None
    return step if all(s.op_name == op_name for s in program.consumers.get(value, ())) else None


# ---------------------------------------------------------------------- diagonals
def _diagonals(program: FusedProgram) -> FusedProgram:
    found = {
        s.result_id: product for s in program.steps if s.op_name == "diagonal"
        if (product := _inner(program, s.input_ids[0], "diagonal")) is not None
        and program.meta[product.result_id].dtype in _SUMMED_AS_THEY_ARE
        and all(program.meta[i].ndim >= 2 for i in product.input_ids)
    }
    if not found:
        return program
    new: dict[int, int] = {}

    def visit(builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
        new.update(zip(step.input_ids, inputs, strict=True))
        product = found.get(step.result_id)
        if product is None:
            return None
        a, b = (new[i] for i in product.input_ids)
        offset, count = step.attr("offset"), program.meta[step.result_id].shape[-1]
        rows = _sliced(builder, a, -2, max(-offset, 0), count)
        columns = _sliced(builder, b, -1, max(offset, 0), count)
        rank = builder.meta[columns].ndim
        turned = builder.tensor(columns).transpose(axes=(*range(rank - 2), rank - 1, rank - 2))
        return _summed(builder, builder.tensor(rows), turned, -1)

    return prune(rewrite(program, visit))


def _sliced(builder: ProgramBuilder, value: int, axis: int, start: int, count: int) -> int:
    shape = builder.meta[value].shape
    starts, counts = [0] * len(shape), list(shape)
    starts[axis], counts[axis] = start, count
    attrs = {"starts": tuple(starts), "steps": (1,) * len(shape), "counts": tuple(counts)}
    return value if tuple(counts) == shape else builder.step("slice", (value,), make_attrs(attrs))


def _summed(builder: ProgramBuilder, a: Any, b: Any, axis: int) -> int:
    """Return the sum of products along an axis, in their dtype."""
    product = a.multiply(b)
    wide = sum_dtype("sum", Meta(product.shape, product.dtype))  # kernels sum in the dtype of what they sum
    if wide == product.dtype:
        return int(product.sum(axis=axis, keepdims=False).id)
    return int(product.astype(dtype=wide).sum(axis=axis, keepdims=False).astype(dtype=product.dtype).id)


# ---------------------------------------------------------------------- order of chains
def _associated(program: FusedProgram) -> FusedProgram:
    orders: dict[int, Order] = {}
    for step in program.steps:
        if step.op_name == "matmul" and _is_flat(program, step):
            outer = program.consumers.get(step.result_id, ())
            inside = len(outer) == 1 and _inner(program, step.result_id, "matmul") and _is_flat(program, outer[0])
            written = _written(program, step.result_id, top=True)
            leaves = _leaves(written)
            if inside or len(leaves) < 3:
                continue
            best = _cheapest(program, leaves)
            if _cost(program, best) < _cost(program, written):
                orders[step.result_id] = best
    if not orders:
        return program
    new: dict[int, int] = {}

    def visit(builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
        new.update(zip(step.input_ids, inputs, strict=True))
        order = orders.get(step.result_id)
        return None if order is None else _build(builder, order, new)

    return prune(rewrite(program, visit))


def _is_flat(program: FusedProgram, step: OpStep) -> bool:
    return all(program.meta[i].ndim <= 2 for i in step.input_ids)


def _written(program: FusedProgram, value: int, *, top: bool = False) -> Order:
    """Return the order in which a value is formed. Its leaves are values that are no products or have other readers."""
    step = program.producers.get(value) if top else _inner(program, value, "matmul")
    if step is None or not _is_flat(program, step) or (not top and len(program.consumers[value]) != 1):
        return value
    left, right = (_written(program, i) for i in step.input_ids)
    # the product of a matrix and a vector is a column: it cannot be split up as if it were a row, and vice versa
    if isinstance(left, tuple) and program.meta[_leaves(left)[-1]].ndim < 2:
        left = step.input_ids[0]
    if isinstance(right, tuple) and program.meta[_leaves(right)[0]].ndim < 2:
        right = step.input_ids[1]
    return left, right


def _leaves(order: Order) -> tuple[int, ...]:
    return (*_leaves(order[0]), *_leaves(order[1])) if isinstance(order, tuple) else (order,)


def _extents(program: FusedProgram, leaves: Sequence[int]) -> list[int]:
    """Return the size classes of the extents between the members of a chain: rows, contracted extents, columns."""
    shapes = [program.meta[v].shape for v in leaves]
    first = shapes[0][0] if len(shapes[0]) > 1 else 1
    extents = [first, *(shape[-1] for shape in shapes[:-1])]
    last = shapes[-1]
    return [size_class(n) for n in (*extents, last[-1] if len(last) > 1 else 1)]


def _cheapest(program: FusedProgram, leaves: tuple[int, ...]) -> Order:
    """Return the order of fewest products: matrix chain ordering (Godbole 1973); the earlier split wins ties."""
    extents = _extents(program, leaves)

    best: dict[tuple[int, int], tuple[int, Order]] = {(k, k + 1): (0, leaf) for k, leaf in enumerate(leaves)}
    for length in range(2, len(leaves) + 1):
        for start in range(len(leaves) - length + 1):
            stop = start + length
            options = []
            for split in range(start + 1, stop):
                (a, left), (b, right) = best[start, split], best[split, stop]
                options.append((a + b + extents[start] * extents[split] * extents[stop], split, (left, right)))
            cost, _, order = min(options, key=lambda option: option[:2])
            best[start, stop] = cost, order
    return best[0, len(leaves)][1]


def _cost(program: FusedProgram, order: Order) -> int:
    """Return the number of products that an order forms, over size classes."""
    if not isinstance(order, tuple):
        return 0
    left, right = _leaves(order[0]), _leaves(order[1])
    rows, columns = _extents(program, left)[0], _extents(program, right)[-1]
    contracted = size_class(program.meta[left[-1]].shape[-1])
    return rows * contracted * columns + _cost(program, order[0]) + _cost(program, order[1])


def _build(builder: ProgramBuilder, order: Order, new: dict[int, int]) -> int:
    if not isinstance(order, tuple):
        return new[order]
    return builder.step("matmul", (_build(builder, order[0], new), _build(builder, order[1], new)), ())


# ---------------------------------------------------------------------- vectors
def vectors_summed(program: FusedProgram) -> FusedProgram:
    """Write products with vectors as sums along an axis: such kernels read a matrix once, in its memory order."""

    def is_vector_product(step: OpStep) -> bool:
        metas = [program.meta[i] for i in step.input_ids]
        return (
            is_contraction(step) and step.op_name == "matmul" and any(m.ndim == 1 for m in metas)
            and program.meta[step.result_id].dtype in _SUMMED_AS_THEY_ARE
        )

    if not any(map(is_vector_product, program.steps)):
        return program

    def visit(builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
        if not is_vector_product(step):
            return None
        a, b = (builder.tensor(i) for i in inputs)
        if len(b.shape) == 1:
            return _summed(builder, a, b, -1)
        return _summed(builder, a.reshape(shape=(*a.shape, 1)), b, -2)

    return rewrite(program, visit)
