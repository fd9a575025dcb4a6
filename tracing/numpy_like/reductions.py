"""NumPy's reductions over traced arrays: sums, extremes, truth, positions, counts.

Their options are in `jitfuse.tracing.numpy_like.reduce`, scans in `jitfuse.tracing.numpy_like.scans`.
"""
from __future__ import annotations

from typing import Any

from jitfuse.errors import DTypeError
from jitfuse.tracing.numpy_like.reduce import reduce
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import implements, lifted, strong

Tensor = Any

@implements("sum")
def sum_(a: Tensor, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **kw: Any) -> Tensor:
    """Return the sum over axes."""
    return reduce("sum", a, axis, dtype, out, keepdims, **kw)


@implements("prod")
def prod(a: Tensor, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **kw: Any) -> Tensor:
    """Return the product over axes."""
    return reduce("prod", a, axis, dtype, out, keepdims, **kw)


@implements("min", "amin")
def min_(a: Tensor, axis: Any = None, out: Any = None, keepdims: Any = False, **kw: Any) -> Tensor:
    """Return the smallest element over axes."""
    return reduce("min", a, axis, None, out, keepdims, **kw)


@implements("max", "amax")
def max_(a: Tensor, axis: Any = None, out: Any = None, keepdims: Any = False, **kw: Any) -> Tensor:
    """Return the largest element over axes."""
    return reduce("max", a, axis, None, out, keepdims, **kw)


@implements("any")
def any_(a: Tensor, axis: Any = None, out: Any = None, keepdims: Any = False, **kw: Any) -> Tensor:
    """Return whether some element is true."""
    return _truth("any", a, axis, out, keepdims, **kw)


@implements("all")
def all_(a: Tensor, axis: Any = None, out: Any = None, keepdims: Any = False, **kw: Any) -> Tensor:
    """Return whether every element is true."""
    return _truth("all", a, axis, out, keepdims, **kw)


def _truth(name: str, a: Tensor, axis: Any, out: Any, keepdims: Any, **kw: Any) -> Tensor:
    return reduce(name, strong(lifted(a)[0]).call("astype", dtype="bool"), axis, None, out, keepdims, **kw)


@implements("argmin")
def argmin(a: Tensor, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Tensor:
    """Return the position of the first of the smallest elements."""
    return _position("argmin", a, axis, out, keepdims)


@implements("argmax")
def argmax(a: Tensor, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Tensor:
    """Return the position of the first of the largest elements."""
    return _position("argmax", a, axis, out, keepdims)


@implements("nanargmin")
def nanargmin(a: Tensor, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Tensor:
    """Return the position of the first of the smallest numbers; raises where all are NaN."""
    return _position("nanargmin", a, axis, out, keepdims)


@implements("nanargmax")
def nanargmax(a: Tensor, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Tensor:
    """Return the position of the first of the largest numbers; raises where all are NaN."""
    return _position("nanargmax", a, axis, out, keepdims)


def _position(name: str, a: Tensor, axis: Any, out: Any, keepdims: Any) -> Tensor:
    if isinstance(axis, list | tuple):
        raise DTypeError(f"np.{name} takes one axis or None, not {axis}, at {user_line()}")
    return reduce(name, a, axis, None, out, bool(keepdims))


@implements("ptp")
def ptp(a: Tensor, axis: Any = None, out: Any = None, keepdims: Any = False) -> Tensor:
    """Return the largest minus the smallest."""
    return reduce("ptp", a, axis, None, out, keepdims)


@implements("count_nonzero")
def count_nonzero(a: Tensor, axis: Any = None, *, keepdims: Any = False) -> Tensor:
    """Count the elements that are not zero."""
    return reduce("count_nonzero", a, axis, None, None, keepdims)
