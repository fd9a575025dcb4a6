"""torch's functions that combine tensors or return parts of them, over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`. The basic views are in
`jitfuse.tracing.torch_like.shapes`, joins and rearrangements in `jitfuse.tracing.torch_like.joins`.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitfuse.errors import ShapeError, UnsupportedError
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.numpy_like import arrangements, shapes
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.torch_like.promotion import cast, numbers, operand, strong
from jitfuse.tracing.torch_like.shapes import axis_of, split
from jitfuse.tracing.torch_like.table import implements, method
from jitfuse.tracing.torch_like.tensor import wrap


# ---------------------------------------------------------------- parts
@implements("split_with_sizes", "unsafe_split", "unsafe_split_with_sizes")
def split_with_sizes(input: Any, split_sizes: Any, dim: Any = 0) -> Any:
    """Split an axis into parts of given sizes."""
    return split(input, split_sizes, dim)


# ---------------------------------------------------------------- tensors with a part replaced
def _with_part(input: Any, src: Any, part: tuple[Any, ...]) -> Any:
    x = strong(input).as_copy()
    new = cast(operand(src), str(x.dtype))
    if new.shape != x[part].shape:
        raise ShapeError(f"expected src of shape {x[part].shape}, got {new.shape}, at {user_line()}")
    x[part] = new
    return wrap(x)


@implements("select_scatter")
def select_scatter(input: Any, src: Any, dim: Any, index: Any) -> Any:
    """Return the tensor with the part at one index of an axis replaced."""
    return _with_part(input, src, (*(slice(None),) * axis_of(strong(input), dim), int(numbers(index))))


@implements("slice_scatter")
def slice_scatter(input: Any, src: Any, dim: Any = 0, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    """Return the tensor with a slice of an axis replaced."""
    part = slice(*(None if v is None else int(numbers(v)) for v in (start, end, step)))
    return _with_part(input, src, (*(slice(None),) * axis_of(strong(input), dim), part))


@implements("diagonal_scatter")
def diagonal_scatter(input: Any, src: Any, offset: Any = 0, dim1: Any = 0, dim2: Any = 1) -> Any:
    """Return the tensor with a diagonal replaced."""
    x = strong(input).as_copy()
    k, a, b = int(numbers(offset)), axis_of(x, dim1), axis_of(x, dim2)
    count = max(min(x.shape[a] - max(-k, 0), x.shape[b] - max(k, 0)), 0)
    line = np.arange(count)
    turned = shapes.moveaxis(x, (a, b), (-2, -1))
    turned[..., line + max(-k, 0), line + max(k, 0)] = cast(operand(src), str(x.dtype))
    return wrap(x)


# ---------------------------------------------------------------- diagonals
@implements("diag_embed")
def diag_embed(input: Any, offset: Any = 0, dim1: Any = -2, dim2: Any = -1) -> Any:
    """Return matrices with the last axis on a diagonal."""
    x, k = strong(input), int(numbers(offset))
    rank, n = x.ndim + 1, x.shape[-1] + abs(k)
    a, b = (shape_rules.normalize_axis("diag_embed", int(numbers(d)), rank) for d in (dim1, dim2))
    made = x.create("zeros", shape=(*x.shape[:-1], n, n), dtype=str(x.dtype)).as_copy()
    line = np.arange(x.shape[-1])
    made[..., line + max(-k, 0), line + max(k, 0)] = x
    return wrap(shapes.moveaxis(made, (-2, -1), (a, b)))


@implements("diagflat")
def diagflat(input: Any, offset: Any = 0) -> Any:
    """Return a matrix with all elements on a diagonal."""
    return wrap(arrangements.diagflat(strong(input), int(numbers(offset))))


# ---------------------------------------------------------------- combinations


@method("stride")
def stride(self: Any, dim: Any = None) -> Any:
    """Return the distances between elements along the axes."""
    x = self.tensor
    if x.size:
        strides = tuple(s // self.itemsize for s in x._where().strides)
    else:  # extents of 0 count as 1
        strides = tuple(math.prod(max(n, 1) for n in x.shape[k + 1 :]) for k in range(x.ndim))
    return strides if dim is None else strides[axis_of(x, dim)]


@method("storage_offset")
def storage_offset(self: Any) -> Any:
    """Raise UnsupportedError: the program decides where memory lies."""
    raise UnsupportedError(f"Tensor.storage_offset() is not available inside a fused function, at {user_line()}")


