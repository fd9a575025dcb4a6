"""torch's reductions and scans over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`, with torch's parameters: `dim`, `keepdim`, `correction`, and
values together with their indices.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from jitfuse.dtypes import kind
from jitfuse.errors import DTypeError
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.torch_like.arithmetic import maximum_of, minimum_of
from jitfuse.tracing.torch_like.elementwise import delivered
from jitfuse.tracing.torch_like.promotion import cast, dtype_named, numbers, strong
from jitfuse.tracing.torch_like.table import implements, in_float32
from jitfuse.tracing.torch_like.tensor import wrap


def axes(x: Tensor, dim: Any) -> Any:
    """Return axes as operators take them: None and () are all axes; a tensor of rank 0 has axis 0 in torch."""
    given = numbers(dim)
    if given is None or given == ():
        return None
    if not x.ndim:
        return None
    return given


def _in(x: Tensor, dtype: Any) -> Tensor:
    return x if dtype is None else cast(x, dtype_named(dtype))


def _fractions(name: str, x: Tensor, dtype: Any) -> Tensor:
    x = _in(x, dtype)
    if kind(str(x.dtype)) not in ("float", "complex"):
        raise DTypeError(f"{name}: could not infer output dtype. Input dtype must be either a floating point or "
                         f"complex dtype. Got: {x.dtype}, at {user_line()}")
    return x


def _summed(name: str) -> Callable[..., Any]:
    def function(input: Any, dim: Any = None, keepdim: Any = False, *, dtype: Any = None, axis: Any = None,
                 keepdims: Any = None, out: Any = None) -> Any:
        x = strong(input)
        x = _in(x, dtype) if dtype is not None or kind(str(x.dtype)) in ("float", "complex") else cast(x, "int64")
        made = x.call(name, axis=axes(x, dim if axis is None else axis), keepdims=bool(numbers(keepdims or keepdim)))
        return delivered(made if dtype is None else cast(made, dtype_named(dtype)), out)

    function.__name__ = name
    return function


sum_ = implements("sum")(_summed("sum"))
prod = implements("prod")(_summed("prod"))


@implements("mean")
def mean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None,
         axis: Any = None) -> Any:
    """Return the mean, for floats only unless a dtype is given."""
    x = _fractions("mean", strong(input), dtype)
    return delivered(x.call("mean", axis=axes(x, dim if axis is None else axis), keepdims=bool(keepdim)), out)


def _variance(name: str) -> Callable[..., Any]:
    def function(input: Any, dim: Any = None, unbiased: Any = True, keepdim: bool = False, *, correction: Any = None,
                 out: Any = None, axis: Any = None) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        x = _fractions(name, strong(input), None)
        divisor = (1.0 if unbiased else 0.0) if correction is None else float(numbers(correction))
        made = x.call(name, axis=axes(x, dim if axis is None else axis), keepdims=bool(keepdim), correction=divisor)
        return delivered(made, out)

    function.__name__ = name
    return function


var = implements("var")(_variance("var"))
std = implements("std")(_variance("std"))


@implements("var_mean")
def var_mean(input: Any, dim: Any = None, unbiased: Any = True, keepdim: bool = False, *,
             correction: Any = None) -> Any:
    """Return the variance and the mean."""
    return var(input, dim, unbiased, keepdim, correction=correction), mean(
        input, None if isinstance(dim, bool) else dim, keepdim)


# ---------------------------------------------------------------- extremes
def _extreme(name: str) -> Callable[..., Any]:
    def function(input: Any, dim: Any = None, keepdim: bool = False, *, out: Any = None, axis: Any = None) -> Any:
        dim = dim if axis is None else axis
        x = strong(input)
        if dim is None:
            return wrap(x.call(name))
        if hasattr(dim, "dtype") and not isinstance(dim, int):
            return (maximum_of if name == "max" else minimum_of)(input, dim)
        along = int(numbers(dim))
        if not x.ndim:
            return _pair(name, x, x.create("zeros", shape=(), dtype="int64"))
        kept = bool(keepdim)
        values = x.call(name, axis=along, keepdims=kept)
        return _pair(name, values, x.call(f"arg{name}", axis=along, keepdims=kept))

    function.__name__ = name
    return function


def _pair(name: str, values: Tensor, indices: Tensor) -> Any:
    return getattr(torch.return_types, name)((wrap(values), wrap(indices)))


max_ = implements("max")(_extreme("max"))
min_ = implements("min")(_extreme("min"))


def _reduced(torch_name: str, name: str) -> None:
    @implements(torch_name)
    def function(input: Any, dim: Any = None, keepdim: bool = False, *, out: Any = None, axis: Any = None) -> Any:
        x = strong(input)
        over, is_byte = axes(x, dim if axis is None else axis), str(x.dtype) == "uint8"
        truth = name in ("any", "all")
        made = (cast(x, "bool") if truth else x).call(name, axis=over, keepdims=bool(keepdim))
        return delivered(cast(made, "uint8") if truth and is_byte else made, out)

    function.__name__ = torch_name


for _torch, _op in {"amax": "max", "amin": "min", "argmax": "argmax", "argmin": "argmin", "any": "any", "all": "all",
                    "count_nonzero": "count_nonzero"}.items():
    _reduced(_torch, _op)


# ---------------------------------------------------------------- scans
def _scan(name: str) -> None:
    @implements(name)
    def function(input: Any, dim: Any, *, dtype: Any = None, out: Any = None) -> Any:
        x = strong(input)
        x = _in(x, dtype) if dtype is not None or kind(str(x.dtype)) in ("float", "complex") else cast(x, "int64")
        if not x.ndim:
            return delivered(x.as_copy(), out)
        return delivered(cast(x.call(name, axis=int(numbers(dim))), str(x.dtype)), out)

    function.__name__ = name


for _name in ("cumsum", "cumprod"):
    _scan(_name)


# ---------------------------------------------------------------- norms
@implements("norm", "linalg.vector_norm")
@in_float32
def norm(input: Any, p: Any = None, dim: Any = None, keepdim: bool = False, *, ord: Any = None, dtype: Any = None,
         out: Any = None) -> Any:
    """Return the norm of order p of all elements, or of those along axes."""
    x = _fractions("norm", strong(input), dtype)
    order = numbers(ord if p is None else p)
    order = 2 if order in (None, "fro") else order
    size, over, kept = x.call("abs"), axes(x, dim), bool(keepdim)
    if order in (math.inf, -math.inf):
        made = size.call("max" if order > 0 else "min", axis=over, keepdims=kept)
    elif order == 0:
        made = cast(size.call("count_nonzero", axis=over, keepdims=kept), str(size.dtype))
    elif order == 2:
        made = (size * size).call("sum", axis=over, keepdims=kept).call("sqrt")
    elif order == 1:
        made = size.call("sum", axis=over, keepdims=kept)
    else:
        made = (size ** float(order)).call("sum", axis=over, keepdims=kept) ** (1.0 / order)
    return delivered(cast(made, str(size.dtype)), out)
