"""NumPy's reductions over traced arrays: sums, extremes, truth, statistics, and their variants that leave out NaN.

Owns the options that NumPy gives them (axis, dtype, out, keepdims, initial, where) in terms of operators. Scans are
in `jitfuse.tracing.numpy_scans`; what all NumPy functions share is in `jitfuse.tracing.numpy_functions`.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse import dtypes
from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.ir import rules
from jitfuse.ir.program import Meta
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.dtype_name import dtype_name
from jitfuse.tracing.numpy_functions import NO_VALUE, deliver, implements, lifted, refuse, strong
from jitfuse.tracing.source import user_line

Tensor = Any

_FILLERS: Final[dict[str, float | bool]] = {"sum": 0, "prod": 1, "any": False, "all": True, "nansum": 0, "nanprod": 1}
"""What masked elements count as in reductions that have an identity."""
_COMBINERS: Final = {
    "sum": "add", "prod": "multiply", "min": "minimum", "max": "maximum", "any": "logical_or", "all": "logical_and",
    "nansum": "add", "nanprod": "multiply", "nanmin": "minimum", "nanmax": "maximum",
}
"""The operator that brings an `initial` value in."""
_OVER_SCALARS: Final = frozenset({*_COMBINERS, "argmin", "argmax", "nanargmin", "nanargmax"})
"""Reductions that NumPy lets run along axis 0 of a scalar."""
_SUMMING: Final = frozenset({"sum", "prod"})
"""Reductions that widen small integers."""
_INTO_ANY_OUT: Final = frozenset({"sum", "prod", "min", "max", "any", "all"})
"""Reductions of ufuncs, which cast what they deliver into `out` without asking."""


def given(option: Any) -> bool:
    """Return whether an optional argument was passed."""
    return option is not None and option is not NO_VALUE


def masked(name: str, x: Tensor, where: Any, filler: Any) -> Tensor:
    """Return x with a filler where the mask does not hold; x itself without a mask."""
    if where is True or not given(where):
        return x
    mask = lifted(where, x)[0]
    if rules.broadcast(name, [mask.shape, x.shape]) != x.shape:
        raise ShapeError(f"np.{name}: a mask of {mask.shape} does not broadcast to {x.shape}, at {user_line()}")
    return strong(mask).call("where", x, filler)


def cast(x: Tensor, dtype: Any, name: str) -> Tensor:
    """Return x in a dtype that was asked for; x itself where none was."""
    if not given(dtype) or dtype_name(dtype, name) == x.dtype:
        return x
    return x.call("astype", dtype=dtype_name(dtype, name))


def _scalar_of(x: Tensor, value: Any, dtype: str) -> Tensor:
    """Return an `initial` value in the dtype that is reduced in; Python ints must fit, as in NumPy."""
    if isinstance(value, AbstractTensor):
        number = lifted(value, x)[0].call("astype", dtype=dtype)
        if number.ndim:
            raise ArgumentError(f"initial must be a scalar, not an array of shape {number.shape}, at {user_line()}")
        return number
    return lifted(np.asarray(value, dtypes.numpy_dtype(dtype))[()], x)[0]


def reduce(
    name: str, a: Tensor, axis: Any, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
    where: Any = True, **attrs: Any,
) -> Tensor:
    """Reduce with NumPy's options, and torch's names for two of them."""
    attrs = {k: v for k, v in attrs.items() if v is not None}
    axis = attrs.pop("dim", axis)
    keepdims = attrs.pop("keepdim", False if keepdims is NO_VALUE else keepdims)
    target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    x = _in_dtype_of_sum(name, strong(lifted(a)[0]), dtype, target) if name in _SUMMING else strong(lifted(a)[0])
    x = cast(x, dtype, name)
    axes = tuple(axis) if isinstance(axis, list | tuple) else axis
    if not x.ndim and name in _OVER_SCALARS and axes in (0, -1):
        axes = None
    if where is not True and given(where) and name not in _FILLERS and not given(initial):
        raise ArgumentError(
            f"np.{name} has no identity: to use a where mask one has to specify 'initial', at {user_line()}"
        )
    start = _scalar_of(x, initial, x.dtype) if given(initial) else None
    x = masked(name, x, where, _FILLERS.get(name, start))
    if start is not None and name not in _FILLERS and 0 in x.shape:
        result = _of_initial(x, start, axes, bool(keepdims))
    else:
        result = x.call(name, axis=axes, keepdims=bool(keepdims), **attrs)
        if start is not None:
            result = result.call(_COMBINERS[name], start.call("astype", dtype=result.dtype))
    result = cast(result, dtype, name)
    if name in _INTO_ANY_OUT and isinstance(target, AbstractTensor):
        result = cast(result, target.dtype, name)
    return deliver(name, result, target)


def _in_dtype_of_sum(name: str, x: Tensor, dtype: Any, out: Any) -> Tensor:
    """Return what a sum or product adds up: `out` takes part in the promotion, as in NumPy."""
    if given(dtype):
        return x
    if isinstance(out, AbstractTensor):
        return cast(x, dtypes.result_type(((x.dtype, False), (out.dtype, False)))[0], name)
    return cast(x, rules.sum_dtype(name, Meta((), x.dtype)), name)


def _of_initial(x: Tensor, start: Tensor, axes: Any, keepdims: bool) -> Tensor:
    """Return what a reduction without identity makes of an array without elements: its initial value."""
    reduced = rules.normalize_axes("reduction", axes, x.ndim)
    return start.call("broadcast_to", shape=rules.reduced_shape(x.shape, reduced, keepdims))


# ---------------------------------------------------------------- sums, extremes, truth
@implements("sum")
def sum_(a: Tensor, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **kw: Any) -> Tensor:
    """Add up over axes."""
    return reduce("sum", a, axis, dtype, out, keepdims, **kw)


@implements("prod")
def prod(a: Tensor, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **kw: Any) -> Tensor:
    """Multiply over axes."""
    return reduce("prod", a, axis, dtype, out, keepdims, **kw)


@implements("min", "amin")
def min_(a: Tensor, axis: Any = None, out: Any = None, keepdims: Any = False, **kw: Any) -> Tensor:
    """Return the smallest over axes."""
    return reduce("min", a, axis, None, out, keepdims, **kw)


@implements("max", "amax")
def max_(a: Tensor, axis: Any = None, out: Any = None, keepdims: Any = False, **kw: Any) -> Tensor:
    """Return the largest over axes."""
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
    """Return the position of the first of the smallest numbers; raises where there are only NaN."""
    return _position("nanargmin", a, axis, out, keepdims)


@implements("nanargmax")
def nanargmax(a: Tensor, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Tensor:
    """Return the position of the first of the largest numbers; raises where there are only NaN."""
    return _position("nanargmax", a, axis, out, keepdims)


def _position(name: str, a: Tensor, axis: Any, out: Any, keepdims: Any) -> Tensor:
    if isinstance(axis, list | tuple):
        raise DTypeError(f"np.{name} takes one axis or None, not {axis}, at {user_line()}")
    return reduce(name, a, axis, None, out, keepdims)


@implements("ptp")
def ptp(a: Tensor, axis: Any = None, out: Any = None, keepdims: Any = False) -> Tensor:
    """Return the largest minus the smallest."""
    return reduce("ptp", a, axis, None, out, keepdims)


@implements("count_nonzero")
def count_nonzero(a: Tensor, axis: Any = None, *, keepdims: Any = False) -> Tensor:
    """Count the elements that are not zero."""
    return reduce("count_nonzero", a, axis, None, None, keepdims)


# ---------------------------------------------------------------- statistics
def _count(x: Tensor, where: Any, axis: Any, keepdims: bool) -> Tensor:
    """Count the elements of x that a mask lets through, over axes."""
    mask = lifted(where, x)[0].call("astype", dtype="bool").call("broadcast_to", shape=x.shape)
    return reduce("sum", mask, axis, None, None, keepdims)


def _float_of(x: Tensor, dtype: Any, name: str) -> Tensor:
    if given(dtype):
        return cast(x, dtype, name)
    return x if dtypes.kind(x.dtype) in ("float", "complex") else x.call("astype", dtype="float64")


@implements("mean")
def mean(a: Tensor, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *,
         where: Any = True, **kw: Any) -> Tensor:
    """Return the arithmetic mean over axes."""
    if where is True or not given(where):
        return reduce("mean", a, axis, dtype, out, keepdims, **kw)
    x = _float_of(strong(lifted(a)[0]), dtype, "mean")
    total = reduce("sum", x, axis, None, None, keepdims, where=where, **kw)
    return deliver("mean", cast(total / _count(x, where, axis, keepdims), x.dtype, "mean"), out)


@implements("var")
def var(a: Tensor, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
        where: Any = True, **kw: Any) -> Tensor:
    """Return the variance over axes with divisor n - ddof."""
    return _spread("var", a, axis, dtype, out, ddof, keepdims, where, **kw)


@implements("std")
def std(a: Tensor, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
        where: Any = True, **kw: Any) -> Tensor:
    """Return the square root of the variance."""
    return _spread("std", a, axis, dtype, out, ddof, keepdims, where, **kw)


def _spread(name: str, a: Tensor, axis: Any, dtype: Any, out: Any, ddof: Any, keepdims: Any, where: Any,
            **kw: Any) -> Tensor:
    centre, correction = kw.pop("mean", None), kw.pop("correction", None)
    divisor = correction if given(correction) else ddof
    if not given(centre) and (where is True or not given(where)):
        return reduce(name, a, axis, dtype, out, keepdims, correction=float(divisor), **kw)
    x = _float_of(strong(lifted(a)[0]), dtype, name)
    count = _count(x, where, axis, keepdims)
    if not given(centre):
        total = reduce("sum", x, axis, None, None, True, where=where)
        centre = cast(total / _count(x, where, axis, True), x.dtype, name)
    apart = x - centre
    squares = reduce("sum", apart * apart, axis, None, None, keepdims, where=where)
    result = cast(squares / (count - divisor).call("maximum", 0), x.dtype, name)
    return deliver(name, result.call("sqrt") if name == "std" else result, out)


@implements("average")
def average(a: Tensor, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    """Return the weighted mean over axes; with `returned`, the sum of the weights too."""
    keep = bool(keepdims) and keepdims is not NO_VALUE
    x = strong(lifted(a, *([] if weights is None else [weights]))[0])
    if weights is None:
        result = mean(x, axis, keepdims=keep)
        count = x.size / max(result.size, 1)
        return (result, result.create("full", shape=result.shape, value=count, dtype=result.dtype)) if returned else (
            result
        )
    w = _weights_along(x, strong(lifted(weights, x)[0]), axis)
    scale = reduce("sum", w, axis, None, None, keep)
    product = x * w
    if dtypes.kind(product.dtype) not in ("float", "complex"):
        product = product.call("astype", dtype="float64")
    result = reduce("sum", product, axis, None, None, keep) / scale
    if not returned:
        return result
    return result, strong(scale.call("broadcast_to", shape=result.shape)).call("astype", dtype=result.dtype)


def _weights_along(x: Tensor, w: Tensor, axis: Any) -> Tensor:
    """Return weights over the shape of x, given for every element or for the positions along the axes."""
    if w.shape == x.shape:
        return w
    if axis is None:
        raise ArgumentError(f"np.average: axis must be given where weights and array differ in shape, at {user_line()}")
    axes = [rules.normalize_axis("average", k, x.ndim) for k in (axis if isinstance(axis, tuple | list) else (axis,))]
    if w.shape != tuple(x.shape[k] for k in axes):
        raise ShapeError(
            f"np.average: weights of shape {w.shape} do not fit axis {axis} of {x.shape}, at {user_line()}"
        )
    order = sorted(range(len(axes)), key=axes.__getitem__)
    spread = w.call("transpose", axes=tuple(order)) if w.ndim > 1 else w
    return spread.reshape(tuple(n if k in axes else 1 for k, n in enumerate(x.shape))).call(
        "broadcast_to", shape=x.shape
    )


# ---------------------------------------------------------------- leaving out NaN
def _leaving_out_nan(name: str) -> Callable[..., Tensor]:
    takes_dtype = name not in ("nanmin", "nanmax")
    spreads = name in ("nanvar", "nanstd")

    def function(a: Tensor, axis: Any = None, *positional: Any, keepdims: Any = False, **kw: Any) -> Tensor:
        names = ("dtype", "out", "ddof", "keepdims") if spreads else ("dtype", "out", "keepdims")
        options = {**dict(zip(names if takes_dtype else ("out", "keepdims"), positional, strict=False)), **kw}
        keep = options.pop("keepdims", keepdims)
        dtype, out, where = options.pop("dtype", None), options.pop("out", None), options.pop("where", True)
        if spreads:
            refuse(name, {"mean": options.pop("mean", None)})
            chosen = options.pop("correction", None)
            options["correction"] = float(options.pop("ddof", 0) if not given(chosen) else chosen)
        x = strong(lifted(a)[0])
        if where is not True and given(where) and not given(options.get("initial")) and name not in _FILLERS:
            if not takes_dtype or dtypes.kind(x.dtype) != "float":
                refuse(name, {"where": where}, "Use np.where(mask, x, np.nan) on a float array.")
            x, where = masked(name, x, where, math.nan), True
        return reduce(name, x, axis, dtype, out, keep, where=where, **options)

    function.__name__ = name
    function.__doc__ = f"Return what np.{name} returns."
    return function


for _name in ("nansum", "nanprod", "nanmin", "nanmax", "nanmean", "nanvar", "nanstd"):
    implements(_name)(_leaving_out_nan(_name))


# ---------------------------------------------------------------- norms of vectors
@implements("linalg.norm")
def norm(x: Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return a norm of vectors along one axis, or the Frobenius norm of all elements or of matrices."""
    a = _float_of(strong(lifted(x)[0]), None, "linalg.norm")
    axes = tuple(axis) if isinstance(axis, list | tuple) else axis
    vectors = isinstance(axes, int) or (axes is None and (ord is None or a.ndim == 1)) or (
        isinstance(axes, tuple) and len(axes) == 1
    )
    frobenius = ord in (None, "fro", "f") and not isinstance(axes, int)
    if frobenius or (vectors and ord in (None, 2)):
        squares = a * a
        if dtypes.kind(a.dtype) == "complex":
            real, imag = a.call("real"), a.call("imag")
            squares = real * real + imag * imag
        return squares.call("sum", axis=axes, keepdims=keepdims).call("sqrt")
    if not vectors or isinstance(ord, str):
        refuse("linalg.norm", {"ord": ord}, "Of matrices, only the Frobenius norm is; compute the others outside.")
    size = a.call("abs")
    if ord in (math.inf, -math.inf):
        return size.call("max" if ord > 0 else "min", axis=axes, keepdims=keepdims)
    if ord == 0:
        return a.call("count_nonzero", axis=axes, keepdims=keepdims).call("astype", dtype=size.dtype)
    total = (size if ord == 1 else size ** ord).call("sum", axis=axes, keepdims=keepdims)
    return total if ord == 1 else total ** (1 / ord)
