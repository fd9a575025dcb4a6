"""Sorting and order statistics: their results are elements, whose tangents are read at the elements' indices."""
from __future__ import annotations

import math
from typing import Any

from jitfuse.gradients.rule import Call, Parts, Tensor, by_tangents, composite, constant, part, without

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


composite("median", through=middle)
without("write it with np.sort and an index", "nanmedian", "quantile", "percentile", "nanquantile", "nanpercentile")
