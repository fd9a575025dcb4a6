"""NumPy's cumulative functions and differences over traced arrays.

Owns their options (axis=None flattens, dtype, out, include_initial, prepend, append) in terms of operators, and
`accumulate` of ufuncs. Reductions are in `jitfuse.tracing.numpy_like.reductions`.
"""
from __future__ import annotations

from typing import Any, Final

from jitfuse import dtypes
from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numpy_like.reduce import cast, given
from jitfuse.tracing.numpy_like.shapes import concatenate
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import deliver, implements, lifted, strong

Tensor = Any

ACCUMULATIONS: Final = {
    "add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin", "logical_or": "cummax",
    "logical_and": "cummin",
}
"""Ufunc -> the scan that is its `accumulate`; logical ufuncs take bools."""
_SUMMING: Final = frozenset({"cumsum", "cumprod"})


def scan(name: str, a: Tensor, axis: Any, dtype: Any = None, out: Any = None) -> Tensor:
    """Scan along an axis, or over all elements in row-major order where the axis is None."""
    target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    x = strong(lifted(a)[0])
    if given(dtype):
        x = cast(x, dtype, name)
    elif isinstance(target, AbstractTensor) and name in _SUMMING:
        # the output takes part in the promotion, as in NumPy
        x = cast(x, dtypes.result_type(((x.dtype, False), (target.dtype, False)))[0], name)
    if not x.ndim and axis in (None, 0, -1):
        x, axis = x.reshape((1,)), 0
    if axis is None:
        x, axis = x.reshape((x.size,)), 0
    shape_rules.reject_bools(axis)
    result = x.call(name, axis=shape_rules.normalize_axis(name, axis, x.ndim))
    result = cast(result, dtype if given(dtype) else None, name)
    if isinstance(target, AbstractTensor):
        result = cast(result, target.dtype, name)
    return deliver(name, result, target)


@implements("cumsum")
def cumsum(a: Tensor, axis: Any = None, dtype: Any = None, out: Any = None) -> Tensor:
    """Return the sum of all elements up to each one."""
    return scan("cumsum", a, axis, dtype, out)


@implements("cumprod")
def cumprod(a: Tensor, axis: Any = None, dtype: Any = None, out: Any = None) -> Tensor:
    """Return the product of all elements up to each one."""
    return scan("cumprod", a, axis, dtype, out)


@implements("nancumsum")
def nancumsum(a: Tensor, axis: Any = None, dtype: Any = None, out: Any = None) -> Tensor:
    """Return the sum of all elements up to each one; NaN counts as 0."""
    return scan("cumsum", _without_nan(a, 0.0), axis, dtype, out)


@implements("nancumprod")
def nancumprod(a: Tensor, axis: Any = None, dtype: Any = None, out: Any = None) -> Tensor:
    """Return the product of all elements up to each one; NaN counts as 1."""
    return scan("cumprod", _without_nan(a, 1.0), axis, dtype, out)


def _without_nan(a: Tensor, filler: float) -> Tensor:
    x = strong(lifted(a)[0])
    if dtypes.kind(x.dtype) not in ("float", "complex"):
        return x
    return x.call("isnan").call("where", x.create("full", shape=(), value=filler, dtype=x.dtype), x)


@implements("cumulative_sum")
def cumulative_sum(x: Tensor, /, *, axis: Any = None, dtype: Any = None, out: Any = None,
                   include_initial: bool = False) -> Tensor:
    """Return the sum of all elements up to each one; `include_initial` adds a leading 0."""
    return _cumulative("cumsum", x, axis, dtype, out, 0, include_initial)


@implements("cumulative_prod")
def cumulative_prod(x: Tensor, /, *, axis: Any = None, dtype: Any = None, out: Any = None,
                    include_initial: bool = False) -> Tensor:
    """Return the product of all elements up to each one; `include_initial` adds a leading 1."""
    return _cumulative("cumprod", x, axis, dtype, out, 1, include_initial)


def _cumulative(
    name: str, a: Tensor, axis: Any, dtype: Any, out: Any, initial: int, include_initial: bool
) -> Tensor:
    x = strong(lifted(a)[0])
    if not x.ndim:
        x = x.reshape((1,))
    if axis is None and x.ndim > 1:
        raise ArgumentError(
            f"np.cumulative_{name[3:]}: an axis is required for an array of {x.ndim} dimensions, at {user_line()}"
        )
    shape_rules.reject_bools(axis)
    axis = shape_rules.normalize_axis(name, 0 if axis is None else axis, x.ndim)
    if not include_initial:
        return scan(name, x, axis, dtype, out)
    result = scan(name, x, axis, dtype)
    edge = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    first = result.create("full", shape=edge, value=initial, dtype=result.dtype)
    return deliver(name, concatenate([first, result], axis), out)


def accumulate(ufunc: str, a: Tensor, axis: Any = 0, dtype: Any = None, out: Any = None) -> Tensor:
    """Return a ufunc's `accumulate`."""
    x = strong(lifted(a)[0])
    if not x.ndim:
        raise DTypeError(f"{ufunc}.accumulate: cannot accumulate on a scalar, at {user_line()}")
    if ufunc.startswith("logical"):
        x = x.call("astype", dtype="bool")
    return scan(ACCUMULATIONS[ufunc], x, axis, dtype, out)


# ---------------------------------------------------------------- differences
def _part(x: Tensor, axis: int, start: int | None, stop: int | None) -> Tensor:
    return x[(*(slice(None),) * axis, slice(start, stop))]


@implements("diff")
def diff(a: Tensor, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """Return the n-th differences of neighbours along an axis; for bools, whether they differ."""
    if n == 0:
        return a
    if n < 0:
        raise ArgumentError(f"np.diff: the order must not be negative, but is {n}, at {user_line()}")
    x = strong(lifted(a)[0])
    if not x.ndim:
        raise ShapeError(f"np.diff: the input must have at least one dimension, at {user_line()}")
    at = shape_rules.normalize_axis("diff", axis, x.ndim)
    pieces = [_edge(x, prepend, at), x, _edge(x, append, at)]
    x = concatenate([p for p in pieces if p is not None], at) if given(prepend) or given(append) else x
    for _ in range(n):
        later, earlier = _part(x, at, 1, None), _part(x, at, None, -1)
        x = later.call("not_equal" if x.dtype == "bool" else "subtract", earlier)
    return x


def _edge(x: Tensor, values: Any, axis: int) -> Tensor | None:
    if not given(values):
        return None
    edge = strong(lifted(values, x)[0])
    return edge if edge.ndim else edge.call("broadcast_to", shape=(*x.shape[:axis], 1, *x.shape[axis + 1 :]))


@implements("ediff1d")
def ediff1d(ary: Tensor, to_end: Any = None, to_begin: Any = None) -> Tensor:
    """Return the differences of neighbours in row-major order, with given elements before and after."""
    x = strong(lifted(ary)[0])
    x = x.reshape((x.size,))
    middle = _part(x, 0, 1, None).call("subtract", _part(x, 0, None, -1))
    pieces = [_ending(x, to_begin), middle, _ending(x, to_end)]
    return concatenate([p for p in pieces if p is not None], 0) if given(to_begin) or given(to_end) else middle


def _ending(x: Tensor, values: Any) -> Tensor | None:
    if not given(values):
        return None
    ending = strong(lifted(values, x)[0])
    if not dtypes.can_cast(ending.dtype, x.dtype, "same_kind"):
        raise DTypeError(f"np.ediff1d: {ending.dtype} does not fit into {x.dtype}, at {user_line()}")
    return ending.call("astype", dtype=x.dtype).reshape((ending.size,))


@implements("trapezoid")
def trapezoid(y: Tensor, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """Return the integral along an axis by the trapezoidal rule."""
    values = strong(lifted(y, *([] if x is None else [x]))[0])
    shape_rules.reject_bools(axis)
    at = shape_rules.normalize_axis("trapezoid", axis, values.ndim)
    step = dx
    if x is not None:
        points = strong(lifted(x, values)[0])
        step = diff(points, axis=-1 if points.ndim == 1 else at)
        if points.ndim == 1:
            step = step.reshape((*(1,) * at, points.shape[0] - 1, *(1,) * (values.ndim - at - 1)))
    product = step * (_part(values, at, 1, None) + _part(values, at, None, -1)) / 2.0
    return product.call("sum", axis=at)
