"""torch's sorting and order statistics over traced tensors, as library steps.

Owns their entries in `jitfuse.tracing.torch_like.table`. Sorting is stable, also in descending order.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from jitfuse.errors import ArgumentError, ShapeError
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.numpy_like import shapes, sorting
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.torch_like.dispatcher import missing
from jitfuse.tracing.torch_like.promotion import (
    cast,
    floating,
    kept_order,
    numbers,
    operand,
    require_float,
    result_dtype,
    strong,
)
from jitfuse.tracing.torch_like.real_tensors import run_of_trace
from jitfuse.tracing.torch_like.shapes import axis_of
from jitfuse.tracing.torch_like.table import implements
from jitfuse.tracing.torch_like.tensor import wrap


def _order(x: Tensor, along: int, descending: bool) -> Tensor:
    if not descending:
        return sorting.argsort(x, along, stable=True)
    order = sorting.argsort(shapes.flip(x, along), along, stable=True)
    return x.shape[along] - 1 - shapes.flip(order, along)


def _sorted(x: Tensor, dim: Any, descending: Any) -> tuple[Tensor, Tensor]:
    if not x.ndim:
        return x.as_copy(), x.create("zeros", shape=(), dtype="int64")
    along = shape_rules.normalize_axis("sort", int(numbers(dim)), x.ndim)
    order = _order(x, along, bool(descending))
    return kept_order(x.call("take_along_axis", order, axis=along), x), kept_order(order, x)


@implements("sort")
def sort(input: Any, dim: Any = -1, descending: bool = False, stable: bool = False) -> Any:
    """Return the sorted elements, and their indices."""
    values, order = _sorted(strong(input), dim, descending)
    return torch.return_types.sort((wrap(values), wrap(order)))


@implements("topk")
def topk(input: Any, k: Any, dim: Any = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Return the k largest or smallest elements in order, and their indices."""
    x, count = strong(input), int(numbers(k))
    along = shape_rules.normalize_axis("topk", int(numbers(dim)), x.ndim)
    if not 0 <= count <= x.shape[along]:
        raise ShapeError(f"topk: selected index k={count} out of range of {x.shape[along]}, at {user_line()}")
    if not x.ndim:
        return torch.return_types.topk(tuple(map(wrap, _sorted(x, 0, largest))))
    order = x.call("topk", axis=along, count=count, largest=bool(largest))
    return torch.return_types.topk((wrap(x.call("take_along_axis", order, axis=along)), wrap(order)))


@implements("kthvalue")
def kthvalue(input: Any, k: Any, dim: Any = -1, keepdim: bool = False) -> Any:
    """Return the k-th smallest element, counted from 1, and its index."""
    return torch.return_types.kthvalue(_at(strong(input), int(numbers(k)) - 1, dim, keepdim))


def _at(x: Tensor, k: int, dim: Any, keepdim: bool) -> tuple[Any, Any]:
    along = shape_rules.normalize_axis("kthvalue", int(numbers(dim)), x.ndim)
    if not 0 <= k < x.shape[along]:
        raise ShapeError(f"kthvalue: {k + 1} out of range for an axis of {x.shape[along]}, at {user_line()}")
    values, order = _sorted(x, along, False)
    part = (*(slice(None),) * along, slice(k, k + 1) if keepdim else k)
    return wrap(values[part].as_copy()), wrap(order[part].as_copy())


@implements("median")
def median(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Return the lower of the middle elements, and with an axis its index; NaN if there is one."""
    x = strong(input)
    if dim is None:
        flat = x.ravel()
        found = _of_nan(flat, sorting.sort(flat)[(flat.size - 1) // 2].as_copy(), 0)
        return wrap(_shared(flat, found) if run_of_trace().differentiated else found)
    if not x.ndim:
        return torch.return_types.median((wrap(x.as_copy()), wrap(x.create("zeros", shape=(), dtype="int64"))))
    along = shape_rules.normalize_axis("median", int(numbers(dim)), x.ndim)
    values, indices = _at(x, (x.shape[along] - 1) // 2, along, keepdim)
    wrong = x.call("isnan")
    nan = wrong.call("any", axis=along, keepdims=keepdim)
    first = wrong.call("argmax", axis=along, keepdims=keepdim)
    return torch.return_types.median((
        wrap(_of_nan(x, values.tensor, along, keepdim)), wrap(nan.call("where", first, indices.tensor))))


def _shared(x: Tensor, value: Tensor) -> Tensor:
    """Return a value whose derivative is shared by the elements that are equal to it."""
    value = value.call("stop_gradient")
    equal = x.call("equal", value)
    mean = equal.call("where", x, 0).call("sum", axis=0) / cast(equal.call("sum", axis=0), str(x.dtype))
    return value + (mean - mean.call("stop_gradient"))


@implements("nanmedian")
def nanmedian(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Return the lower of the middle elements, ignoring NaN, and with an axis its index."""
    x = strong(input)
    x, along = (x.ravel(), 0) if dim is None or not x.ndim else (x, axis_of(x, dim))
    count = x.call("isnan").call("logical_not").call("count_nonzero", axis=along, keepdims=True)
    ordered, order = _sorted(x, along, False)
    at = (count - 1).call("maximum", 0).call("floor_divide", 2)
    values, indices = (t.call("take_along_axis", at, axis=along) for t in (ordered, order))
    if dim is not None and strong(input).ndim:
        return torch.return_types.nanmedian(tuple(
            wrap(t if keepdim else t.squeeze(along)) for t in (values, indices)))
    values, index = values.reshape(()), wrap(indices.reshape(()))
    if dim is not None:
        return torch.return_types.nanmedian((wrap(values), index))
    return wrap(_shared(x, values) if run_of_trace().differentiated else values)


@implements("mode")
def mode(input: Any, dim: Any = -1, keepdim: bool = False) -> Any:
    """Return the smallest of the most frequent elements, and its last index."""
    if not run_of_trace().differentiated:
        raise missing("torch.mode")  # it compares all pairs
    x = strong(input)
    if not x.ndim:
        return torch.return_types.mode((wrap(x.as_copy()), wrap(x.create("zeros", shape=(), dtype="int64"))))
    along = axis_of(x, dim)
    equal = x.expand_dims(along + 1).call("equal", x.expand_dims(along))
    counts = equal.call("sum", axis=along + 1)
    most = counts.call("equal", counts.call("max", axis=along, keepdims=True))
    line = x.create("arange", count=x.shape[along], dtype="int64").reshape(
        tuple(-1 if k == along else 1 for k in range(x.ndim)))
    least = most.call("where", x, math.inf).call("min", axis=along, keepdims=True)
    index = x.call("equal", least).call("where", line, -1).call("max", axis=along, keepdims=True)
    values = x.call("take_along_axis", index, axis=along)
    return torch.return_types.mode(tuple(wrap(t if keepdim else t.squeeze(along)) for t in (values, index)))


def _of_nan(x: Tensor, value: Tensor, axis: int, keepdim: bool = False) -> Tensor:
    """Return NaN where there is one along an axis."""
    if not str(x.dtype).startswith(("float", "bfloat")):
        return value
    nan = x.call("isnan").call("any", axis=axis, keepdims=keepdim)
    missing = x.create("full", shape=(), value=float("nan"), dtype=str(x.dtype))
    return nan.call("where", missing, value)


@implements("quantile")
def quantile(input: Any, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear") -> Any:
    """Return quantiles; the axis of q is the first."""
    require_float("quantile", input)
    return _quantile(sorting.quantile, input, q, dim, keepdim, interpolation)


@implements("nanquantile")
def nanquantile(input: Any, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear") -> Any:
    """Return quantiles of what is not NaN; the axis of q is the first."""
    require_float("nanquantile", input)
    return _quantile(sorting.nanquantile, input, q, dim, keepdim, interpolation)


def _quantile(function: Callable[..., Tensor], input: Any, q: Any, dim: Any, keepdim: Any, method: str) -> Any:
    x = floating(input)
    along = None if dim is None or not x.ndim else int(numbers(dim))
    return wrap(function(x, cast(operand(q), str(x.dtype)), along, method=method, keepdims=bool(keepdim)))


@implements("searchsorted")
def searchsorted(sorted_sequence: Any, input: Any, *, out_int32: bool = False, right: bool = False,
                 side: Any = None) -> Any:
    """Return the indices at which to insert values into sorted sequences along the last axis."""
    given = operand(sorted_sequence), operand(input)
    common = result_dtype(list(given))
    x, values = (cast(t, common) for t in given)
    if x.ndim != 1 and (x.ndim != values.ndim or x.shape[:-1] != values.shape[:-1]):
        raise ShapeError(f"searchsorted: sequences of shape {x.shape} and values of shape {values.shape} have the same "
                         f"axes but the last, at {user_line()}")
    if right and side == "left":
        raise ArgumentError(f"searchsorted: side='left' and right=True contradict each other, at {user_line()}")
    made = _insertion_indices(x, values, bool(right) or side == "right")
    return wrap(made.astype("int32") if out_int32 else made)


def _insertion_indices(x: Tensor, values: Tensor, right: bool) -> Tensor:
    """Return insertion indices into sequences by torch's bisection, which treats NaN in them as any other number.

    An iteration is a few operators, all in one kernel: several times as fast as the library's search.
    """
    size = x.shape[-1]
    low = x.create("zeros", shape=values.shape, dtype="int64")
    high = x.create("full", shape=values.shape, value=size, dtype="int64")
    for _ in range(size.bit_length()):
        middle = low + ((high - low) >> 1)
        at = middle.call("minimum", size - 1)
        element = x.call("take", at, axis=0, mode="clip") if x.ndim == 1 else x.call("take_along_axis", at, axis=-1)
        found = element.call("greater" if right else "greater_equal", values)
        is_open = low.call("less", high)
        low = is_open.call("logical_and", found.call("logical_not")).call("where", middle + 1, low)
        high = is_open.call("logical_and", found).call("where", middle, high)
    return low


implements("bucketize")(lambda input, boundaries, **options: searchsorted(boundaries, input, **options))
