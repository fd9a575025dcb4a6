"""The options of NumPy's reductions (axis, dtype, out, keepdims, initial, where) in terms of operators.

Does not own the functions: sums and extremes are in `jitfuse.tracing.numpy_like.reductions`, means and variances in
`...moments`, those that ignore NaN in `...nan_reductions`, norms in `...norms`.
"""
from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitfuse import dtypes
from jitfuse.errors import ArgumentError, ShapeError
from jitfuse.ir.program import Meta
from jitfuse.ir.rules import meta_rules, shape_rules
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numbers import weak
from jitfuse.tracing.record.dtype_name import dtype_name
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import NO_VALUE, deliver, lifted, strong

Tensor = Any

FILLERS: Final[dict[str, float | bool]] = {"sum": 0, "prod": 1, "any": False, "all": True, "nansum": 0, "nanprod": 1}
"""The value of masked elements in reductions that have an identity."""
_COMBINERS: Final = {
    "sum": "add", "prod": "multiply", "min": "minimum", "max": "maximum", "any": "logical_or", "all": "logical_and",
    "nansum": "add", "nanprod": "multiply", "nanmin": "minimum", "nanmax": "maximum",
}
"""Reduction -> the operator that combines its result with an `initial` value."""
_ADDING: Final = frozenset({"sum", "nansum"})
_OVER_SCALARS: Final = frozenset({*_COMBINERS, "argmin", "argmax", "nanargmin", "nanargmax"})
"""Reductions that NumPy runs along axis 0 of a scalar."""
_SUMMING: Final = frozenset({"sum", "prod"})
"""Reductions that widen small integers."""
_INTO_ANY_OUT: Final = frozenset({"sum", "prod", "min", "max", "any", "all"})
"""Reductions that are ufuncs: they cast their result into any `out`."""


def given(option: Any) -> bool:
    """Return whether an optional argument was passed."""
    return option is not None and option is not NO_VALUE


def masked(name: str, x: Tensor, where: Any, filler: Any) -> Tensor:
    """Replace x by a filler where the mask does not hold; x itself without a mask."""
    if where is True or not given(where):
        return x
    mask = lifted(where, x)[0]
    if shape_rules.broadcast(name, [mask.shape, x.shape]) != x.shape:
        raise ShapeError(f"np.{name}: a mask of {mask.shape} does not broadcast to {x.shape}, at {user_line()}")
    return strong(mask).call("where", x, filler)


def cast(x: Tensor, dtype: Any, name: str) -> Tensor:
    """Return x in a requested dtype; x itself without one."""
    if not given(dtype) or dtype_name(dtype, name) == x.dtype:
        return x
    return x.call("astype", dtype=dtype_name(dtype, name))


def _scalar_of(x: Tensor, value: Any, dtype: str) -> Tensor:
    """Return an `initial` value in the reduction's dtype; Python ints must fit, as in NumPy."""
    if isinstance(value, AbstractTensor):
        weak.check_filling(value, dtype)
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
    keepdims = bool(shape_rules.whole(attrs.pop("keepdim", False if keepdims is NO_VALUE else keepdims)))
    target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    x = _in_dtype_of_sum(name, strong(lifted(a)[0]), dtype, target) if name in _SUMMING else strong(lifted(a)[0])
    x = cast(x, dtype, name)
    axes = tuple(axis) if isinstance(axis, list | tuple) else axis
    if not x.ndim and name in _OVER_SCALARS and axes in (0, -1):
        axes = None
    if where is not True and given(where) and name not in FILLERS and not given(initial):
        raise ArgumentError(
            f"np.{name} has no identity: to use a where mask one has to specify 'initial', at {user_line()}"
        )
    start = _scalar_of(x, initial, x.dtype) if given(initial) else None
    signed = start is not None and _begins_with_sign(name, x, initial)
    x = masked(name, x, where, -0.0 if signed else FILLERS.get(name, start))
    if start is not None and name not in FILLERS and 0 in x.shape:
        result = _of_initial(x, start.call(_COMBINERS[name], start), axes, keepdims)  # a number, as results are
    else:
        result = x.call(name, axis=axes, keepdims=keepdims, **attrs)
        if start is not None:
            first = start.call("astype", dtype=result.dtype)
            result = first.call(_COMBINERS[name], result)  # in this order: of two zeros the signs differ
            if signed:
                result = _none_but_negative_zeros(x, axes, keepdims).call("where", first, result)
    result = cast(result, dtype, name)
    if name in _INTO_ANY_OUT and isinstance(target, AbstractTensor):
        result = cast(result, target.dtype, name)
    return deliver(name, result, target)


def _begins_with_sign(name: str, x: Tensor, initial: Any) -> bool:
    """Return whether a sum may begin with -0.0."""
    if name not in _ADDING or dtypes.kind(x.dtype) != "float":
        return False
    return isinstance(initial, AbstractTensor) or bool(np.all(initial == 0) and np.all(np.signbit(initial)))


def _none_but_negative_zeros(x: Tensor, axes: Any, keepdims: bool) -> Tensor:
    """Return where a sum adds only negative zeros: there it equals its initial value, -0.0 too."""
    negative = x.call("equal", 0).call("logical_and", x.call("signbit"))
    return negative.call("all", axis=axes, keepdims=keepdims)


def _in_dtype_of_sum(name: str, x: Tensor, dtype: Any, out: Any) -> Tensor:
    """Return the operand of a sum or product; the dtype of `out` takes part in the promotion, as in NumPy."""
    if given(dtype):
        return x
    if isinstance(out, AbstractTensor):
        return cast(x, dtypes.result_type(((x.dtype, False), (out.dtype, False)))[0], name)
    return cast(x, meta_rules.sum_dtype(name, Meta((), x.dtype)), name)


def _of_initial(x: Tensor, start: Tensor, axes: Any, keepdims: bool) -> Tensor:
    """Return the reduction of an array without elements where there is no identity: its initial value."""
    reduced = shape_rules.normalize_axes("reduction", axes, x.ndim)
    shape = shape_rules.reduced_shape(x.shape, reduced, keepdims)
    return start.call("broadcast_to", shape=shape) if shape else start


def float_of(x: Tensor, dtype: Any, name: str) -> Tensor:
    """Return x in a requested dtype; without one, arrays other than float or complex become float64."""
    if given(dtype):
        return cast(x, dtype, name)
    return x if dtypes.kind(x.dtype) in ("float", "complex") else x.call("astype", dtype="float64")
