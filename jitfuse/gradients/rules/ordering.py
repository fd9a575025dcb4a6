"""Sorting and order statistics: their results are elements, whose tangents are read at the elements' indices."""
from __future__ import annotations

import math
from typing import Any

from jitfuse.errors import DerivativeError
from jitfuse.gradients.rule import Call, Parts, by_tangents, composite, constant
from jitfuse.gradients.values import Tensor, cast, part

constant("argsort", "argpartition", "topk", "searchsorted")


@by_tangents("sort")
def _(call: Call, tangents: Parts) -> Parts:
    order = call.x.call("argsort", **call.attrs)
    return [tangents[0].call("take_along_axis", order, axis=call.attrs["axis"])]


@by_tangents("partition")
def _(call: Call, tangents: Parts) -> Parts:
    order = call.x.call("argpartition", **call.attrs)
    return [tangents[0].call("take_along_axis", order, axis=call.attrs["axis"])]


def middle(x: Tensor, *, axis: Any, keepdims: bool) -> Tensor:
    """Return the median as the mean of the one or two middle elements."""
    axes = tuple(range(x.ndim)) if axis is None else tuple(sorted(
        a % x.ndim for a in (axis if isinstance(axis, tuple) else (axis,))))
    kept = tuple(a for a in range(x.ndim) if a not in axes)
    count = math.prod(x.shape[a] for a in axes)
    flat = x.call("transpose", axes=(*kept, *axes)).reshape((*(x.shape[a] for a in kept), count)).call("sort", axis=-1)
    made = part(flat, -1, (count - 1) // 2, 2 - count % 2).call("mean", axis=-1, keepdims=False)
    return made.reshape(tuple(1 if a in axes else n for a, n in enumerate(x.shape))) if keepdims else made


def nan_middle(x: Tensor, *, axis: Any, keepdims: bool) -> Tensor:
    """Return the median of what is not NaN."""
    half = x.create("full", shape=(), value=0.5, dtype=str(x.dtype))
    return _interpolated(x, half, axis, keepdims, "linear", of_all=False)


def _interpolated(x: Tensor, q: Tensor, axis: Any, keepdims: bool, method: str, *, of_all: bool) -> Tensor:
    """Return the elements at a fraction of the sorted ones, between two by a method; `of_all`: NaN counts."""
    axes = tuple(range(x.ndim)) if axis is None else tuple(sorted(
        a % x.ndim for a in (axis if isinstance(axis, tuple) else (axis,))))
    kept = tuple(a for a in range(x.ndim) if a not in axes)
    flat = x.call("transpose", axes=(*kept, *axes)).reshape(
        (*(x.shape[a] for a in kept), math.prod(x.shape[a] for a in axes))).call("sort", axis=-1)
    holds = flat.call("isnan").call("logical_not").call("count_nonzero", axis=-1, keepdims=True)
    count = holds.multiply(0).add(flat.shape[-1]) if of_all else holds
    last = cast(count, str(q.dtype)).subtract(1).call("maximum", 0)
    place = last.multiply(q.reshape((-1,)))
    low, high = place.call("floor"), place.call("ceil")
    first, second = (flat.call("take_along_axis", cast(i, "int64"), axis=-1) for i in (low, high))
    share = {"linear": place.subtract(low), "midpoint": high.subtract(low).multiply(0.5),
             "nearest": place.call("rint").subtract(low)}.get(method)
    made = (first if method == "lower" else second) if share is None else first.add(
        second.subtract(first).multiply(share))
    made = made.call("transpose", axes=(made.ndim - 1, *range(made.ndim - 1)))
    shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape)) if keepdims else made.shape[1:]
    return made.reshape((*q.shape, *shape))


def _quantile(name: str, scale: float) -> None:
    def through(x: Tensor, q: Tensor, *, axis: Any, keepdims: bool, method: str, weak: bool) -> Tensor:
        if method not in ("linear", "lower", "higher", "midpoint", "nearest"):
            raise DerivativeError(f"{name} with method={method!r} has no derivative: method='linear' has")
        return _interpolated(x, q if scale == 1 else q.divide(scale), axis, keepdims, method,
                             of_all=not name.startswith("nan"))

    composite(name, through=through)


composite("median", through=middle)
composite("nanmedian", through=nan_middle)
for _name, _scale in (("quantile", 1), ("percentile", 100), ("nanquantile", 1), ("nanpercentile", 100)):
    _quantile(_name, _scale)
