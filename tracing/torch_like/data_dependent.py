"""torch's functions whose results have data-dependent shapes: each call is a graph break.

Owns their entries in `jitfuse.tracing.torch_like.table`; Python reads only the number of elements. Does not own
graph breaks (`jitfuse.tracing.numpy_like.data_dependent`, `jitfuse.tracing.record.value_reads`).
"""
from __future__ import annotations

from typing import Any

import numpy as np

from jitfuse.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from jitfuse.tracing.numpy_like import scans, shapes, statistics
from jitfuse.tracing.numpy_like.data_dependent import rows_of_indices, unique_of
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor import gathering
from jitfuse.tracing.tensor.data_extents import indices_by_axis, nonzero_indices_of
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.torch_like.promotion import cast, numbers, operand, strong
from jitfuse.tracing.torch_like.table import implements
from jitfuse.tracing.torch_like.tensor import wrap

_KEEP = "Keep the shape: torch.where(mask, x, 0) with three arguments; x[mask] = value does work."
_OUTSIDE = "Call it outside the fused function."


# ---------------------------------------------------------------- indices
@implements("nonzero")
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """Return the indices of elements that are not zero: one row each, or one tensor for each axis."""
    x = strong(input)
    if as_tuple:
        x = x.reshape((1,)) if not x.ndim else x
        return tuple(map(wrap, indices_by_axis("torch.nonzero", x, _KEEP)))
    return wrap(rows_of_indices("torch.nonzero", x, _KEEP).as_copy())


@implements("masked_select")
def masked_select(input: Any, mask: Any) -> Any:
    """Return the elements where a mask holds, both broadcast."""
    x, m = strong(input), operand(mask)
    if str(m.dtype) != "bool":
        raise DTypeError(f"masked_select: expected BoolTensor for mask, got {m.dtype}, at {user_line()}")
    shape = np.broadcast_shapes(x.shape, m.shape)
    x, m = (t.call("broadcast_to", shape=shape) for t in (x, m))
    return wrap(gathering.take(x.ravel(), nonzero_indices_of("torch.masked_select", m.ravel(), _KEEP)[0], 0))


@implements("masked_scatter")
def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """Return the tensor with the elements of a source written in order where a mask holds."""
    x, m, values = strong(input), operand(mask), operand(source)
    if values.dtype != x.dtype:
        raise DTypeError(f"masked_scatter: expected self and source to have same dtypes but got {x.dtype} and "
                         f"{values.dtype}, at {user_line()}")
    m = m.call("broadcast_to", shape=x.shape)
    count = cast(m.ravel(), "int64").call("cumsum", axis=0)
    at = m.ravel().call("where", count - 1, 0)
    return wrap(m.call("where", gathering.take(values.ravel(), at, 0).reshape(x.shape), x))


# ---------------------------------------------------------------- distinct elements
@implements("unique")
def unique(input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
           dim: Any = None) -> Any:
    """Return the distinct elements in order; on request the number of each element and the counts."""
    x = strong(input)
    axis = None if dim is None else int(numbers(dim))
    attrs = {"return_inverse": True, "return_counts": True, "axis": axis, "equal_nan": False}
    return _asked(unique_of("torch.unique", x, attrs), return_inverse, return_counts)


@implements("unique_consecutive")
def unique_consecutive(input: Any, return_inverse: bool = False, return_counts: bool = False, dim: Any = None) -> Any:
    """Return the elements that differ from their predecessor."""
    x = strong(input)
    if dim is not None and x.ndim > 1:
        raise UnsupportedError(f"unique_consecutive(dim=...) of several axes is not available, at {user_line()}")
    flat = x.ravel()
    new = flat[1:].call("not_equal", flat[:-1])
    new = shapes.concatenate([x.create("full", shape=(min(flat.size, 1),), value=True, dtype="bool"), new])
    indices = nonzero_indices_of("torch.unique_consecutive", new, _OUTSIDE)[0]
    end = x.create("full", shape=(1,), value=flat.size, dtype="int64")
    counts = scans.diff(shapes.concatenate([indices, end]))
    inverse = (cast(new, "int64").call("cumsum", axis=0) - 1).reshape(x.shape)
    return _asked((gathering.take(flat, indices, 0), inverse, counts), return_inverse, return_counts)


def _asked(made: tuple[Tensor, ...], inverse: bool, counts: bool) -> Any:
    kept = [wrap(made[0]), *([wrap(made[1])] if inverse else []), *([wrap(made[2])] if counts else [])]
    return tuple(kept) if len(kept) > 1 else kept[0]


# ---------------------------------------------------------------- counts
@implements("bincount")
def bincount(input: Any, weights: Any = None, minlength: Any = 0) -> Any:
    """Return how often each number occurs, or the sums of its weights."""
    x = strong(input)
    if x.ndim != 1 or not str(x.dtype).startswith(("int", "uint")):
        raise ShapeError(f"bincount only supports 1-d non-negative integral inputs, at {user_line()}")
    made = statistics.bincount(x, None if weights is None else operand(weights), int(numbers(minlength)))
    return wrap(cast(made, str(operand(weights).dtype)) if weights is not None and str(
        operand(weights).dtype) == "float32" else made)


@implements("histc")
def histc(input: Any, bins: Any = 100, min: Any = 0, max: Any = 0) -> Any:
    """Return the number of elements in each of equal bins between two limits."""
    x, low, high = strong(input), numbers(min), numbers(max)
    if not str(x.dtype).startswith("float"):
        raise DTypeError(f"histc is not implemented for {x.dtype}, at {user_line()}. Cast with x.float().")
    if low > high:
        raise ArgumentError(f"histc: max must be larger than min, at {user_line()}")
    if low == high:
        raise UnsupportedError(f"histc without limits reads the smallest and largest elements, at {user_line()}. "
                               "Pass min and max.")
    count, flat = int(numbers(bins)), x.ravel()
    cell = cast(((flat - low) / (high - low) * count).call("clip", 0, count), "int64").call("minimum", count - 1)
    inside = flat.call("greater_equal", low).call("logical_and", flat.call("less_equal", high))
    ones = inside.call("where", x.create("full", shape=(), value=1, dtype=str(x.dtype)), 0.0)
    target = x.create("zeros", shape=(count,), dtype=str(x.dtype)).as_copy()
    gathering.set_item(target, inside.call("where", cell, 0), ones, "add")
    return wrap(target)
