"""torch's joins, repetitions and rearrangements over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitfuse.errors import ArgumentError, ShapeError
from jitfuse.tracing.numpy_like import arrangements, shapes
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.torch_like.promotion import cast, kept_order, numbers, operand, result_dtype, strong
from jitfuse.tracing.torch_like.shapes import axis_of, extents
from jitfuse.tracing.torch_like.table import implements, method
from jitfuse.tracing.torch_like.tensor import wrap


# ---------------------------------------------------------------- joins and repetition
def _joined(tensors: Any) -> list[Tensor]:
    found = [strong(x) for x in tensors]
    if not found:
        raise ArgumentError(f"expected a non-empty list of tensors, at {user_line()}")
    common = result_dtype(found)
    return [cast(x, common) for x in found]


@implements("cat", "concat", "concatenate")
def cat(tensors: Any, dim: Any = 0) -> Any:
    """Join along an axis; empty tensors of one axis are left out."""
    parts = [x for x in _joined(tensors) if x.shape != (0,)] or _joined(tensors)[:1]
    return wrap(shapes.concatenate(parts, int(numbers(dim))))


implements("stack")(lambda tensors, dim=0: wrap(shapes.stack(_joined(tensors), int(numbers(dim)))))


@method("repeat")
def repeat(self: Any, *sizes: Any) -> Any:
    """Repeat the whole tensor along each axis."""
    if len(extents(sizes)) < operand(self).ndim:
        raise ShapeError(f"repeat: the number of sizes {extents(sizes)} is smaller than the number of axes of "
                         f"{operand(self).shape}, at {user_line()}")
    return wrap(arrangements.tile(strong(self), extents(sizes)))


implements("repeat_interleave")(lambda input, repeats, dim=None, *, output_size=None: wrap(arrangements.repeat(
    strong(input), numbers(repeats), None if dim is None else int(numbers(dim)))))


@implements("diagonal_scatter")
def diagonal_scatter(input: Any, src: Any, offset: Any = 0, dim1: Any = 0, dim2: Any = 1) -> Any:
    """Return the tensor with a diagonal replaced."""
    made = wrap(strong(input).as_copy())
    made.diagonal(offset, dim1, dim2).copy_(src)
    return made


# ---------------------------------------------------------------- rearrangements
def _triangle(name: str) -> Callable[..., Any]:
    return lambda input, diagonal=0: wrap(strong(input).call(name, k=int(numbers(diagonal))))


@implements("flip")
def flip(input: Any, *dims: Any, **options: Any) -> Any:
    """Reverse axes; a copy, as in torch."""
    given = extents(dims or (options["dims"],))
    x = strong(input)
    return wrap(kept_order(shapes.flip(x, given).as_copy(), x))


implements("roll")(lambda input, shifts, dims=None: wrap(arrangements.roll(
    strong(input), numbers(shifts), None if dims is None else numbers(dims))))


for _name in ("tril", "triu"):
    implements(_name)(_triangle(_name))


@method("unfold")
def unfold(self: Any, dimension: Any, size: Any, step: Any) -> Any:
    """Return windows along an axis, with their elements as the last axis.

    The result is a view; it may be written into where no two windows share elements.
    """
    x, count, by = operand(self), int(numbers(size)), int(numbers(step))
    along = axis_of(x, dimension)
    extent = x.shape[along] if x.ndim else 1
    if by < 1 or not 0 <= count <= extent:
        raise ShapeError(f"unfold: windows of {count} with step {by} along an axis of {extent}, at {user_line()}")
    if not x.ndim:
        return wrap(x.reshape((1,))[:count])
    windows = (x.shape[along] - count) // by + 1
    by = by if windows > 1 else max(count, 1)
    lead = (slice(None),) * along
    if not count:
        shape = (*x.shape[:along], windows, *x.shape[along + 1 :], 0)
        return wrap(x.create("zeros", shape=shape, dtype=str(x.dtype)))
    if count <= by and windows * by <= x.shape[along]:
        cut = x[(*lead, slice(0, windows * by))].reshape((*x.shape[:along], windows, by, *x.shape[along + 1 :]))
        return wrap(shapes.moveaxis(cut[(*lead, slice(None), slice(0, count))], along + 1, -1))
    last = shapes.moveaxis(x, along, -1).call("windows", sizes=(count,), steps=(by,), dilations=(1,))
    return wrap(shapes.moveaxis(last, -1, along))
