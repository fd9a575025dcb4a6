"""Decompositions of composite operators into simpler ones, over AbstractTensor methods.

Each function takes tensors and the operator's attributes, like the operator's method. The numerics are NumPy's: the
mean divides the sum by the count in the result's dtype, the variance subtracts the mean first (two passes), softmax
subtracts the maximum.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jitfuse.dtypes import is_narrow, kind, ufunc_type

Tensor = Any


def _extents(x: Tensor, axis: Any) -> int:
    if axis is None:
        return int(x.size)
    axes = axis if isinstance(axis, tuple) else (axis,)
    return math.prod(x.shape[a] for a in axes)


def _as_float(x: Tensor) -> Tensor:
    return x.astype(dtype="float64") if kind(x.dtype) in ("bool", "int", "uint") else x


def rounded_once(decompose: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the decomposition that computes 16-bit floats in float32 throughout, as NumPy's mean does."""

    def decomposition(x: Tensor, **attrs: Any) -> Tensor:
        if not is_narrow(x.dtype):
            return decompose(x, **attrs)
        result = decompose(x.astype(dtype="float32"), **attrs)
        return result.astype(dtype=x.dtype) if result.dtype == "float32" else result

    return decomposition


def clip(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Limit x to [low, high]; NaN stays NaN, and low > high gives high, as in NumPy.

    An element equal to a bound (0.0 and -0.0) keeps its sign if each bound is one number for all elements. If a bound
    is an array, the bound is taken. That decides the order of operands here, because `minimum` and `maximum` take the
    second of two equal ones. In float16 they take the first, and the element keeps its sign beside arrays too.
    """
    common, _ = ufunc_type(tuple((t.dtype, t.weak) for t in (x, low, high)))
    common = "float32" if common == "bfloat16" else common
    x = x if x.dtype == common and not x.weak else x.astype(dtype=common)
    if common != "float16" and all(not bound.shape or (bound.size == 1 and x.size > 1) for bound in (low, high)):
        return high.minimum(low.maximum(x))
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
    total = squared(centred).sum(axis=axis, keepdims=keepdims)
    divisor = max(n - correction, 0.0)
    return total.divide(x.extent(value=float(divisor), dtype="float64"))


def squared(x: Tensor) -> Tensor:
    """Return the square of each element's distance from 0."""
    if kind(x.dtype) != "complex":
        return x.multiply(x)
    real, imag = x.call("real"), x.call("imag")
    return real.multiply(real).add(imag.multiply(imag))


def softmax(x: Tensor, *, axis: Any) -> Tensor:
    """Normalise exp(x - max) over the axes."""
    x = _as_float(x)
    e = x.subtract(x.max(axis=axis, keepdims=True)).exp()
    return e.divide(e.sum(axis=axis, keepdims=True))


def dropout(x: Tensor, state: Tensor, index: Tensor, *, p: float, training: bool) -> Tensor:
    """Zero each element with probability p in training and scale the rest; x itself in evaluation."""
    if not training or p == 0.0:
        return x
    drawn = "float64" if x.dtype == "float64" else "float32"
    keep = state.random_uniform(index, shape=x.shape, dtype=drawn).greater_equal(x.literal(p))
    scale, zero = (x.literal(v).astype(dtype=x.dtype) for v in (1.0 / (1.0 - p), 0.0))
    return keep.where(x.multiply(scale), zero)
