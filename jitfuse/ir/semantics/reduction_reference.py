"""The meaning of composite reductions and normalisations in NumPy; see `jitfuse.ir.semantics.reference`.

NumPy's warnings (empty slices, too few degrees of freedom) are not part of the meaning.
"""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from jitfuse.dtypes import kind
from jitfuse.ir.semantics import reference

Array = Any


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a NumPy function that does not warn."""

    def quiet(x: Array, **attrs: Any) -> Array:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)
            return function(x, **attrs)

    return quiet


def _floats(x: Array) -> Array:
    """Return floats as they are, and integers and bools as float64."""
    x = np.asarray(x)
    if x.dtype.kind == "c":
        raise TypeError("complex numbers have no such function")
    return x if kind(x.dtype.name) == "float" else x.astype("float64")


def prod(x: Array, *, axis: Any, keepdims: bool) -> Array:
    """Multiply the elements."""
    return np.prod(x, axis=axis, keepdims=keepdims)


def argmin(x: Array, *, axis: int | None, keepdims: bool) -> Array:
    """Return the position of the first of the smallest elements, or of the first NaN."""
    return np.argmin(x, axis=axis, keepdims=keepdims)


def argmax(x: Array, *, axis: int | None, keepdims: bool) -> Array:
    """Return the position of the first of the largest elements, or of the first NaN."""
    return np.argmax(x, axis=axis, keepdims=keepdims)


def cumsum(x: Array, *, axis: int) -> Array:
    """Sum from left to right."""
    return np.cumsum(x, axis=axis)


def cumprod(x: Array, *, axis: int) -> Array:
    """Multiply from left to right."""
    return np.cumprod(x, axis=axis)


def cummax(x: Array, *, axis: int) -> Array:
    """Return the largest so far."""
    return np.maximum.accumulate(x, axis=axis)


def cummin(x: Array, *, axis: int) -> Array:
    """Return the smallest so far."""
    return np.minimum.accumulate(x, axis=axis)


def std(x: Array, *, axis: Any, keepdims: bool, correction: float) -> Array:
    """Return the square root of the variance."""
    with np.errstate(all="ignore"):
        return np.sqrt(reference.var(x, axis=axis, keepdims=keepdims, correction=correction))


def count_nonzero(x: Array, *, axis: Any, keepdims: bool) -> Array:
    """Count the elements that are not zero."""
    return np.sum(np.asarray(x).astype(bool), axis=axis, keepdims=keepdims)


def ptp(x: Array, *, axis: Any, keepdims: bool) -> Array:
    """Return the largest less the smallest."""
    return np.max(x, axis=axis, keepdims=keepdims) - np.min(x, axis=axis, keepdims=keepdims)


def logsumexp(x: Array, *, axis: Any, keepdims: bool) -> Array:
    """Return log(sum(exp(x))) without overflow, -inf for no elements; the largest elements are counted, not added."""
    x = _floats(x)
    high = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    top = x == high
    with np.errstate(all="ignore"):
        count = np.sum(top, axis=axis, keepdims=True).astype(x.dtype)
        rest = np.sum(np.where(top, x.dtype.type(0), np.exp(x - high)), axis=axis, keepdims=True)
        result = np.log1p(rest / np.maximum(count, 1)) + (np.log(count) + high)
    return result if keepdims else _dropped(result, axis)


def _dropped(x: Array, axis: Any) -> Array:
    return np.squeeze(x, axis if axis is not None else tuple(range(np.ndim(x))))[()]


def log_softmax(x: Array, *, axis: Any) -> Array:
    """Return x - max - log(sum(exp(x - max)))."""
    x = _floats(x)
    centred = x - np.max(x, axis=axis, keepdims=True)
    return centred - np.log(np.sum(np.exp(centred), axis=axis, keepdims=True))


def layer_norm(x: Array, *, axis: Any, eps: float) -> Array:
    """Return (x - mean) / sqrt(variance + eps)."""
    x = _floats(x)
    centred = x - reference.mean(x, axis=axis, keepdims=True)
    return centred / np.sqrt(reference.mean(centred * centred, axis=axis, keepdims=True) + eps)


def rms_norm(x: Array, *, axis: Any, eps: float) -> Array:
    """Return x / sqrt(mean(x * x) + eps)."""
    x = _floats(x)
    return x / np.sqrt(reference.mean(x * x, axis=axis, keepdims=True) + eps)


nansum = np.nansum
nanprod = np.nanprod
nanmin = _quiet(np.nanmin)
nanmax = _quiet(np.nanmax)
nanargmin = np.nanargmin
nanargmax = np.nanargmax
nanmean = _quiet(np.nanmean)
nanvar = _quiet(np.nanvar)
nanstd = _quiet(np.nanstd)
