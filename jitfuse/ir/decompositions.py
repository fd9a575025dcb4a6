"""How composite operators are written in simpler ones, over AbstractTensor methods.

Each function takes tensors and the operator's attributes, the same as the operator's method. The numerics
are NumPy's: the mean divides the sum by the count in the result's dtype, the variance subtracts the mean
first (two passes), softmax subtracts the maximum.
"""
from __future__ import annotations

import math
from typing import Any

from jitfuse.dtypes import result_type

Tensor = Any


def _extents(x: Tensor, axis: Any) -> int:
    if axis is None:
        return int(x.size)
    axes = axis if isinstance(axis, tuple) else (axis,)
    return math.prod(x.shape[a] for a in axes)


def _as_float(x: Tensor) -> Tensor:
    return x if x.dtype in ("float32", "float64") else x.astype(dtype="float64")


def clip(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Limit x to [low, high]; NaN stays NaN, and low > high gives high, as in NumPy."""
    common, _ = result_type(tuple((t.dtype, t.weak) for t in (x, low, high)))
    x = x if x.dtype == common and not x.weak else x.astype(dtype=common)
    return x.maximum(low).minimum(high)


def mean(x: Tensor, *, axis: Any, keepdims: bool) -> Tensor:
    """Divide the sum by the number of elements."""
    x = _as_float(x)
    return x.sum(axis=axis, keepdims=keepdims).divide(x.extent(value=_extents(x, axis)))


def var(x: Tensor, *, axis: Any, keepdims: bool, correction: float) -> Tensor:
    """Average the squared distances from the mean, with `correction` taken off the divisor."""
    x = _as_float(x)
    n = _extents(x, axis)
    centred = x.subtract(x.sum(axis=axis, keepdims=True).divide(x.extent(value=n)))
    total = centred.multiply(centred).sum(axis=axis, keepdims=keepdims)
    divisor = max(n - correction, 0.0)
    return total.divide(x.extent(value=float(divisor), dtype="float64"))


def softmax(x: Tensor, *, axis: Any) -> Tensor:
    """Normalise exp(x - max) over the axes."""
    x = _as_float(x)
    e = x.subtract(x.max(axis=axis, keepdims=True)).exp()
    return e.divide(e.sum(axis=axis, keepdims=True))


def dropout(x: Tensor, state: Tensor, index: Tensor, *, p: float, training: bool) -> Tensor:
    """Zero each element with probability p in training and scale the rest; x itself in evaluation."""
    if not training or p == 0.0:
        return x
    keep = state.random_uniform(index, shape=x.shape, dtype=x.dtype).greater_equal(x.literal(p))
    return keep.where(x.multiply(x.literal(1.0 / (1.0 - p))), x.literal(0.0))
