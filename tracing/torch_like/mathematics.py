"""torch's rarer elementwise functions over traced tensors: torch.special, complex parts, scans of extremes.

Owns their entries in `jitfuse.tracing.torch_like.table`.
"""
from __future__ import annotations

import math
from typing import Any

import torch

from jitfuse.dtypes import kind
from jitfuse.errors import DTypeError
from jitfuse.tracing.numpy_like import shapes
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.tensor.traced import freeze
from jitfuse.tracing.torch_like.elementwise import delivered
from jitfuse.tracing.torch_like.promotion import cast, floating, operand, strong
from jitfuse.tracing.torch_like.shapes import axis_of
from jitfuse.tracing.torch_like.table import implements
from jitfuse.tracing.torch_like.tensor import wrap


# ---------------------------------------------------------------- torch.special
def _library(name: str) -> None:
    @implements(name, f"special.{name}")
    def function(input: Any, *, out: Any = None) -> Any:
        x = floating(input)
        return delivered(cast(x.call(name), str(x.dtype)), out)

    function.__name__ = name


for _name in ("erfinv", "ndtri", "i0e", "i1", "i1e", "ndtr", "log_ndtr"):
    _library(_name)


# ---------------------------------------------------------------- complex numbers
@implements("angle")
def angle(input: Any) -> Any:
    """Return the angle of complex numbers; 0 or pi for real numbers."""
    x = floating(input)
    if kind(str(x.dtype)) == "complex":
        return wrap(x.imag.call("atan2", x.real))
    made = x.call("less", 0).call("where", math.pi, 0.0)
    return wrap(x.call("isnan").call("where", x, cast(operand(made), str(x.dtype))))


@implements("real")
def real(input: Any) -> Any:
    """Return the real part."""
    x = strong(input)
    return wrap(x.real if kind(str(x.dtype)) == "complex" else x)


@implements("imag")
def imag(input: Any) -> Any:
    """Return the imaginary part of complex numbers."""
    x = strong(input)
    if kind(str(x.dtype)) != "complex":
        raise DTypeError(f"imag is not implemented for tensors with non-complex dtypes, at {user_line()}")
    return wrap(x.imag)


@implements("complex")
def complex_(real: Any, imag: Any) -> Any:
    """Return complex numbers from real and imaginary parts."""
    a, b = operand(real), operand(imag)
    if a.dtype != b.dtype or str(a.dtype) not in ("float32", "float64"):
        raise DTypeError(f"complex: expected two float or two double tensors, got {a.dtype} and {b.dtype}, at "
                         f"{user_line()}")
    return wrap(_joined(a, b))


def _joined(a: Tensor, b: Tensor) -> Tensor:
    return a.call("make_complex", b)


@implements("polar")
def polar(abs: Any, angle: Any) -> Any:
    """Return complex numbers from magnitudes and angles."""
    size, turn = operand(abs), operand(angle)
    return wrap(_joined(size * turn.call("cos"), size * turn.call("sin")))


@implements("view_as_real")
def view_as_real(input: Any) -> Any:
    """Return complex numbers as pairs along a new last axis."""
    x = operand(input)
    return _in_new_memory("torch.view_as_real", x, shapes.stack([x.real, x.imag], -1))


@implements("view_as_complex")
def view_as_complex(input: Any) -> Any:
    """Return pairs along the last axis as complex numbers."""
    x = operand(input)
    return _in_new_memory("torch.view_as_complex", x, _joined(x[..., 0], x[..., 1]))


def _in_new_memory(name: str, x: Tensor, made: Tensor) -> Any:
    """Return a copy that is a view in torch, and reject later writes to either of the two."""
    result = wrap(made)
    freeze(name, x, result.tensor)
    return result


# ---------------------------------------------------------------- scans
def _extremes(name: str) -> None:
    @implements(name)
    def function(input: Any, dim: Any) -> Any:
        x = strong(input)
        along = axis_of(x, dim)
        values = x.call(name, axis=along)
        line = x.create("arange", count=x.shape[along], dtype="int64").reshape(
            tuple(-1 if k == along else 1 for k in range(x.ndim)))
        new = x.call("equal", values)
        new = new.call("logical_or", x.call("isnan")) if kind(str(x.dtype)) == "float" else new
        indices = new.call("where", line, 0).call("cummax", axis=along)
        return getattr(torch.return_types, name)((wrap(values), wrap(indices)))

    function.__name__ = name


for _name in ("cummax", "cummin"):
    _extremes(_name)


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

