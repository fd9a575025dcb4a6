"""Decompositions of composite reductions and normalisations; see `jitfuse.ir.decompositions.composites`.

The numerics are NumPy's and SciPy's: a variance subtracts the mean first, sums and counts leave NaN out, and
exponentials are taken of differences from the maximum.
"""
from __future__ import annotations

import math
from typing import Any

from jitfuse.dtypes import kind
from jitfuse.ir.decompositions import composites
from jitfuse.ir.statuses import ALL_NAN

Tensor = Any


def _inexact(x: Tensor) -> bool:
    return kind(x.dtype) in ("float", "complex")


def _as_float(x: Tensor) -> Tensor:
    return x if _inexact(x) else x.astype(dtype="float64")


def _normalised_axes(x: Tensor, axis: Any) -> tuple[int, ...]:
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return tuple(a % x.ndim for a in axes)


def _dropped(x: Tensor, axis: Any) -> Tensor:
    """Return x without its reduced axes, which have extent 1."""
    axes = _normalised_axes(x, axis)
    return x.reshape(shape=tuple(n for k, n in enumerate(x.shape) if k not in axes))


def std(x: Tensor, *, axis: Any, keepdims: bool, correction: float) -> Tensor:
    """Take the square root of the variance."""
    return composites.var(x, axis=axis, keepdims=keepdims, correction=correction).sqrt()


def count_nonzero(x: Tensor, *, axis: Any, keepdims: bool) -> Tensor:
    """Sum the truth values of the elements."""
    return x.astype(dtype="bool").sum(axis=axis, keepdims=keepdims)


def ptp(x: Tensor, *, axis: Any, keepdims: bool) -> Tensor:
    """Subtract the smallest from the largest."""
    return x.max(axis=axis, keepdims=keepdims).subtract(x.min(axis=axis, keepdims=keepdims))


def logsumexp(x: Tensor, *, axis: Any, keepdims: bool) -> Tensor:
    """Add log1p of the other elements' share to the logarithm of the number of largest elements, and the maximum.

    Infinities and NaN need no special case: a largest element is counted, not subtracted from itself.
    """
    x = _as_float(x)
    if math.prod(x.shape[a] for a in _normalised_axes(x, axis)) == 0:
        return x.sum(axis=axis, keepdims=keepdims).log()
    high = x.max(axis=axis, keepdims=True)
    top = x.equal(high)
    count = top.sum(axis=axis, keepdims=True).astype(dtype=x.dtype)
    rest = top.where(x.literal(0.0), x.subtract(high).exp()).sum(axis=axis, keepdims=True)
    result = rest.divide(count.maximum(x.literal(1.0))).log1p().add(count.log().add(high))
    return result if keepdims else _dropped(result, axis)


def log_softmax(x: Tensor, *, axis: Any) -> Tensor:
    """Subtract the maximum, then the logarithm of the sum of exponentials."""
    x = _as_float(x)
    centred = x.subtract(x.max(axis=axis, keepdims=True))
    return centred.subtract(centred.exp().sum(axis=axis, keepdims=True).log())


def layer_norm(x: Tensor, *, axis: Any, eps: float) -> Tensor:
    """Subtract the mean, then scale to unit variance (eps added to it)."""
    x = _as_float(x)
    centred = x.subtract(composites.mean(x, axis=axis, keepdims=True))
    variance = composites.mean(centred.multiply(centred), axis=axis, keepdims=True)
    return centred.divide(variance.add(x.literal(eps)).sqrt())


def rms_norm(x: Tensor, *, axis: Any, eps: float) -> Tensor:
    """Scale to a mean square of one (eps added to it)."""
    x = _as_float(x)
    square = composites.mean(x.multiply(x), axis=axis, keepdims=True)
    return x.divide(square.add(x.literal(eps)).sqrt())


# ---------------------------------------------------------------- leaving out NaN
def _without_nan(x: Tensor, filler: float | complex) -> Tensor:
    return x.isnan().where(x.literal(filler), x)


def _numbers(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """Count the elements that are not NaN."""
    return x.isnan().logical_not().sum(axis=axis, keepdims=keepdims)


def _divided_by_count(total: Tensor, count: Tensor) -> Tensor:
    """Divide in float64 and round to the dtype of the total, as NumPy does."""
    return total.divide(count).astype(dtype=total.dtype)


def nansum(x: Tensor, *, axis: Any, keepdims: bool) -> Tensor:
    """Sum the elements, with NaN as 0."""
    return (_without_nan(x, 0.0) if _inexact(x) else x).sum(axis=axis, keepdims=keepdims)


def nanprod(x: Tensor, *, axis: Any, keepdims: bool) -> Tensor:
    """Multiply the elements, with NaN as 1."""
    return (_without_nan(x, 1.0) if _inexact(x) else x).prod(axis=axis, keepdims=keepdims)


def nanmin(x: Tensor, *, axis: Any, keepdims: bool) -> Tensor:
    """Return the smallest number; NaN if there is none."""
    return _nan_extreme(x, "min", math.inf, axis, keepdims)


def nanmax(x: Tensor, *, axis: Any, keepdims: bool) -> Tensor:
    """Return the largest number; NaN if there is none."""
    return _nan_extreme(x, "max", -math.inf, axis, keepdims)


def _nan_extreme(x: Tensor, name: str, filler: float, axis: Any, keepdims: bool) -> Tensor:
    if not _inexact(x):
        return x.call(name, axis=axis, keepdims=keepdims)
    nothing = x.isnan().all(axis=axis, keepdims=keepdims)
    last = complex(filler, filler) if kind(x.dtype) == "complex" else filler
    found = _without_nan(x, last).call(name, axis=axis, keepdims=keepdims)
    return nothing.where(x.literal(math.nan), found)


def nanargmin(x: Tensor, *, axis: int | None, keepdims: bool) -> Tensor:
    """Take NaN as infinity, and require a number."""
    return _nan_position(x, "argmin", math.inf, axis, keepdims)


def nanargmax(x: Tensor, *, axis: int | None, keepdims: bool) -> Tensor:
    """Take NaN as minus infinity, and require a number."""
    return _nan_position(x, "argmax", -math.inf, axis, keepdims)


def _nan_position(x: Tensor, name: str, filler: float, axis: int | None, keepdims: bool) -> Tensor:
    if not _inexact(x):
        return x.call(name, axis=axis, keepdims=keepdims)
    some = x.isnan().logical_not().any(axis=axis, keepdims=keepdims)
    return _without_nan(x, filler).call(name, axis=axis, keepdims=keepdims).require(some, status=ALL_NAN)


def nanmean(x: Tensor, *, axis: Any, keepdims: bool) -> Tensor:
    """Divide the sum of the elements that are not NaN by their count."""
    if not _inexact(x):
        return composites.mean(x, axis=axis, keepdims=keepdims)
    total = _without_nan(x, 0.0).sum(axis=axis, keepdims=keepdims)
    return _divided_by_count(total, _numbers(x, axis, keepdims))


def nanvar(x: Tensor, *, axis: Any, keepdims: bool, correction: float) -> Tensor:
    """Average the squared distances of non-NaN elements from their mean; NaN if too few are left."""
    if not _inexact(x):
        return composites.var(x, axis=axis, keepdims=keepdims, correction=correction)
    mean = nanmean(x, axis=axis, keepdims=True)
    centred = x.isnan().where(x.literal(0.0), x.subtract(mean))
    total = composites.squared(centred).sum(axis=axis, keepdims=keepdims)
    left = _numbers(x, axis, keepdims).subtract(x.literal(_plain(correction)))
    return left.less_equal(x.literal(0)).where(x.literal(math.nan), _divided_by_count(total, left))


def _plain(number: float) -> float | int:
    return int(number) if float(number).is_integer() else number


def nanstd(x: Tensor, *, axis: Any, keepdims: bool, correction: float) -> Tensor:
    """Take the square root of `nanvar`."""
    return nanvar(x, axis=axis, keepdims=keepdims, correction=correction).sqrt()
