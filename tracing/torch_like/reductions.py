"""torch's reductions and scans over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`, with torch's parameters: `dim`, `keepdim`, `correction`, and
values together with their indices.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from jitfuse.dtypes import kind
from jitfuse.errors import DTypeError
from jitfuse.tracing.numpy_like import shapes
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.torch_like.dispatcher import settled
from jitfuse.tracing.torch_like.promotion import cast, dtype_named, floating, numbers, strong
from jitfuse.tracing.torch_like.real_tensors import run_of_trace
from jitfuse.tracing.torch_like.shapes import axis_of
from jitfuse.tracing.torch_like.table import FUNCTIONS, implements
from jitfuse.tracing.torch_like.tensor import wrap


def _over(name: str, x: Tensor, dim: Any, keepdim: Any, **attributes: Any) -> Tensor:
    """Reduce axes: None and () are all of them, and a tensor of rank 0 has axis 0 in torch."""
    given = numbers(dim) if x.ndim else None
    made: Tensor = x.call(name, axis=None if given == () else given, keepdims=bool(numbers(keepdim)), **attributes)
    return made


def _wide(x: Tensor, dtype: Any) -> Tensor:
    """Return the operand of a sum or product: in a dtype that is given, else integers and bools as int64."""
    if dtype is not None:
        return cast(x, dtype_named(dtype))
    return x if kind(str(x.dtype)) in ("float", "complex") else cast(x, "int64")


def _fractions(name: str, x: Tensor, dtype: Any) -> Tensor:
    x = x if dtype is None else cast(x, dtype_named(dtype))
    if kind(str(x.dtype)) not in ("float", "complex"):
        raise DTypeError(f"{name}: could not infer output dtype. Input dtype must be either a floating point or "
                         f"complex dtype. Got: {x.dtype}, at {user_line()}")
    return x


# ---------------------------------------------------------------- sums and means
def _summed(name: str) -> Callable[..., Any]:
    def function(input: Any, dim: Any = None, keepdim: Any = False, *, dtype: Any = None) -> Any:
        x = _wide(strong(input), dtype)
        made = _over(name, x, dim, keepdim)
        return wrap(made if dtype is None else cast(made, str(x.dtype)))

    return function


implements("sum")(_summed("sum"))
implements("prod")(_summed("prod"))


@implements("mean")
def mean(input: Any, dim: Any = None, keepdim: Any = False, *, dtype: Any = None) -> Any:
    """Return the mean, for floats only unless a dtype is given."""
    return wrap(_over("mean", _fractions("mean", strong(input), dtype), dim, keepdim))


def _variance(name: str) -> Callable[..., Any]:
    def function(input: Any, dim: Any = None, unbiased: Any = True, keepdim: Any = False, *,
                 correction: Any = None) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        divisor = (1.0 if unbiased else 0.0) if correction is None else float(numbers(correction))
        return wrap(_over(name, _fractions(name, strong(input), None), dim, keepdim, correction=divisor))

    return function


var = implements("var")(_variance("var"))
implements("std")(_variance("std"))


@implements("var_mean")
def var_mean(input: Any, dim: Any = None, unbiased: Any = True, keepdim: Any = False, *,
             correction: Any = None) -> Any:
    """Return the variance and the mean."""
    return var(input, dim, unbiased, keepdim, correction=correction), mean(
        input, None if isinstance(dim, bool) else dim, keepdim)


# ---------------------------------------------------------------- extremes, truth and counts
def _reduced(name: str) -> Callable[..., Any]:
    return lambda input, dim=None, keepdim=False: wrap(_over(name, strong(input), dim, keepdim))


for _torch, _op in {"amax": "max", "amin": "min", "argmax": "argmax", "argmin": "argmin",
                    "count_nonzero": "count_nonzero"}.items():
    implements(_torch)(_reduced(_op))


def _truth(name: str) -> Callable[..., Any]:
    def function(input: Any, dim: Any = None, keepdim: Any = False) -> Any:
        x = strong(input)
        made = _over(name, cast(x, "bool"), dim, keepdim)
        return wrap(cast(made, "uint8") if str(x.dtype) == "uint8" else made)

    return function


implements("any")(_truth("any"))
implements("all")(_truth("all"))


def _extreme(name: str) -> Callable[..., Any]:
    def function(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
        x = strong(input)
        if dim is None:
            return wrap(x.call(name))
        if hasattr(dim, "dtype") and not isinstance(dim, int):
            return FUNCTIONS[f"{name}imum"](input, dim)
        if not x.ndim:
            return _pair(name, x, x.create("zeros", shape=(), dtype="int64"))
        along = int(numbers(dim))
        at = _over(f"arg{name}", x, along, keepdim)
        return _pair(name, _read_at(x, at, along, keepdim) if run_of_trace().differentiated else _over(
            name, x, along, keepdim), at)

    return function


def _read_at(x: Tensor, at: Tensor, axis: int, keepdim: bool) -> Tensor:
    """Return the elements at indices: of equal ones, the derivative is the first one's, as in torch."""
    found = x.call("take_along_axis", at if keepdim else at.expand_dims(axis % x.ndim), axis=axis)
    return found if keepdim else found.squeeze(axis % x.ndim)


def _pair(name: str, values: Tensor, indices: Tensor) -> Any:
    return getattr(torch.return_types, name)((wrap(values), wrap(indices)))


implements("max")(_extreme("max"))
implements("min")(_extreme("min"))


# ---------------------------------------------------------------- with masks
def _with_numbers(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return one of torch.masked's functions, whose own code hands numbers to torch's parser of arguments."""
    return lambda *args, **kwargs: original(*map(settled, args), **{k: settled(v) for k, v in kwargs.items()})


for _masked in torch.masked.__all__:
    if inspect.isfunction(getattr(torch.masked, _masked)):
        implements(f"masked.{_masked}")(_with_numbers(getattr(torch.masked, _masked)))


# ---------------------------------------------------------------- scans
def _scan(name: str) -> Callable[..., Any]:
    def function(input: Any, dim: Any, *, dtype: Any = None) -> Any:
        x = _wide(strong(input), dtype)
        return wrap(cast(x.call(name, axis=int(numbers(dim))), str(x.dtype)) if x.ndim else x.as_copy())

    return function


implements("cumsum")(_scan("cumsum"))
implements("cumprod")(_scan("cumprod"))


def _extremes(name: str) -> Callable[..., Any]:
    def function(input: Any, dim: Any) -> Any:
        x = strong(input)
        along = axis_of(x, dim)
        if not x.ndim:
            return _pair(name, x.as_copy(), x.create("zeros", shape=(), dtype="int64"))
        values = x.call(name, axis=along)
        line = x.create("arange", count=x.shape[along], dtype="int64").reshape(
            tuple(-1 if k == along else 1 for k in range(x.ndim)))
        new = x.call("equal", values)
        new = new.call("logical_or", x.call("isnan")) if kind(str(x.dtype)) == "float" else new
        return _pair(name, values, new.call("where", line, 0).call("cummax", axis=along))

    return function


implements("cummax")(_extremes("cummax"))
implements("cummin")(_extremes("cummin"))


@implements("logcumsumexp")
def logcumsumexp(input: Any, dim: Any) -> Any:
    """Return logarithms of running sums of exponentials, by adding at doubling distances."""
    x = floating(input)
    if not x.ndim:
        return wrap(x.as_copy())
    made, reach = shapes.moveaxis(x, axis_of(x, dim), 0), 1
    while reach < made.shape[0]:
        made = shapes.concatenate([made[:reach], made[reach:].call("logaddexp", made[:-reach])])
        reach *= 2
    return wrap(shapes.moveaxis(made, 0, axis_of(x, dim)).as_copy())
