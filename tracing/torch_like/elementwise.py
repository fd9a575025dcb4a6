"""torch's functions of single elements over traced tensors: rows of functions that are one operator, and others.

Owns their entries in `jitfuse.tracing.torch_like.table`. Integers become torch's default dtype where a function's
result is floating.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from jitfuse.dtypes import kind
from jitfuse.errors import ArgumentError, DTypeError
from jitfuse.tracing.numpy_like import shapes
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.tensor.traced import freeze
from jitfuse.tracing.torch_like.dispatcher import missing
from jitfuse.tracing.torch_like.promotion import cast, floating, in_common, numbers, operand, strong
from jitfuse.tracing.torch_like.real_tensors import run_of_trace
from jitfuse.tracing.torch_like.table import implements
from jitfuse.tracing.torch_like.tensor import wrap


# ---------------------------------------------------------------- functions that are one operator
def rows(promoting: Callable[[str], Callable[..., Any]], alike: str, **others: str) -> None:
    """Enter functions that are one operator each: those of its name, and by operator those of other names."""
    for op_name, names in {**{name: name for name in alike.split()}, **others}.items():
        implements(*names.split())(promoting(op_name))


def _floating(op_name: str) -> Callable[..., Any]:
    def function(input: Any) -> Any:
        x = floating(input)
        return wrap(cast(x.call(op_name), str(x.dtype)))

    return function


def _keeping(op_name: str) -> Callable[..., Any]:
    return lambda input: wrap(strong(input).call(op_name))


rows(_floating, "exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan sinh cosh tanh erf erfc reciprocal deg2rad "
     "rad2deg sinc i0 i0e i1 i1e erfinv ndtri ndtr log_ndtr", asin="asin arcsin", acos="acos arccos",
     atan="atan arctan", asinh="asinh arcsinh", acosh="acosh arccosh", atanh="atanh arctanh",
     sigmoid="sigmoid expit", gammaln="lgamma gammaln", digamma="digamma psi")
rows(_keeping, "floor ceil isnan isinf isfinite isposinf isneginf signbit logical_not", trunc="trunc fix",
     negative="neg negative", abs="abs absolute", bitwise_invert="bitwise_not")


# ---------------------------------------------------------------- functions of several operators
implements("positive")(lambda input: wrap(strong(input)))
implements("rsqrt")(lambda input: wrap(floating(input).call("sqrt").call("reciprocal")))


@implements("sign", "sgn")
def sign(input: Any) -> Any:
    """Return -1, 0 or 1; 0 for NaN."""
    x = strong(input)
    if kind(str(x.dtype)) == "bool":
        return wrap(x.as_copy())
    made = x.call("sign")
    return wrap(x.call("isnan").call("where", 0, made) if kind(str(x.dtype)) == "float" else made)


@implements("round")
def round_(input: Any, *, decimals: Any = 0) -> Any:
    """Round halves to even, at a number of decimals."""
    x, digits = strong(input), numbers(decimals)
    if not digits or kind(str(x.dtype)) != "float":
        return wrap(x.call("rint") if kind(str(x.dtype)) == "float" else x.as_copy())
    scale = 10.0 ** abs(digits)
    made = in_common("multiply", in_common("multiply" if digits > 0 else "divide", x, scale).call("rint"), 1.0)
    return wrap(in_common("divide" if digits > 0 else "multiply", made, scale))


@implements("polygamma")
def polygamma(n: Any, input: Any) -> Any:
    """Return the n-th derivative of digamma, by Hurwitz' zeta function."""
    (order, x) = (input, n) if isinstance(n, torch.Tensor) else (n, input)  # a method's tensor comes first
    x, order = floating(x), int(numbers(order))
    if order < 0:
        raise ArgumentError(f"polygamma(n, x) does not support negative n, at {user_line()}")
    if not order:
        return wrap(cast(x.call("digamma"), str(x.dtype)))
    made = x.literal(order + 1.0).call("zeta", x) * ((-1.0) ** (order + 1) * math.factorial(order))
    return wrap(cast(made, str(x.dtype)))


@implements("erfcx")
def erfcx(input: Any) -> Any:
    """Return exp(x * x) * erfc(x); of large numbers by the asymptotic series."""
    x = floating(input)
    if str(x.dtype) != "float64" or not run_of_trace().differentiated:
        raise missing("torch.special.erfcx")
    large = x.call("greater", 25)
    small, big = large.call("where", 0, x), large.call("where", x, 1)
    t = (big * big * 2).call("reciprocal")
    series = functools.reduce(lambda total, k: 1 - t * (k * total), (11, 9, 7, 5, 3, 1), t * 0 + 1)
    return wrap(large.call("where", series / (big * math.sqrt(math.pi)),
                           (small * small).call("exp") * small.call("erfc")))


@implements("frexp")
def frexp(input: Any) -> Any:
    """Return mantissas and exponents of two."""
    x = operand(input)
    if kind(str(x.dtype)) != "float":
        raise DTypeError(f"frexp is not implemented for {x.dtype}, at {user_line()}")
    exponent = cast(x.call("frexp_exponent"), "int32")
    return torch.return_types.frexp((wrap(x.call("frexp_mantissa")), wrap(exponent)))


# ---------------------------------------------------------------- complex numbers
@implements("conj", "conj_physical")
def conj(input: Any) -> Any:
    """Return the conjugate, or a real tensor itself."""
    x = strong(input)
    return wrap(x.call("conj") if kind(str(x.dtype)) == "complex" else x)


@implements("angle")
def angle(input: Any) -> Any:
    """Return the angle of complex numbers; 0 or pi for real numbers."""
    x = floating(input)
    if kind(str(x.dtype)) == "complex":
        return wrap(x.imag.call("atan2", x.real))
    made = x.call("less", 0).call("where", math.pi, 0.0)
    return wrap(x.call("isnan").call("where", x, cast(operand(made), str(x.dtype))))


implements("real")(lambda input: wrap(strong(input).real))


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
    return wrap(a.call("make_complex", b))


@implements("polar")
def polar(abs: Any, angle: Any) -> Any:
    """Return complex numbers from magnitudes and angles."""
    size, turn = operand(abs), operand(angle)
    return wrap((size * turn.call("cos")).call("make_complex", size * turn.call("sin")))


@implements("view_as_real")
def view_as_real(input: Any) -> Any:
    """Return complex numbers as pairs along a new last axis."""
    x = operand(input)
    return in_new_memory("torch.view_as_real", x, shapes.stack([x.real, x.imag], -1))


@implements("view_as_complex")
def view_as_complex(input: Any) -> Any:
    """Return pairs along the last axis as complex numbers."""
    x = operand(input)
    return in_new_memory("torch.view_as_complex", x, x[..., 0].call("make_complex", x[..., 1]))


def in_new_memory(name: str, x: Tensor, made: Tensor) -> Any:
    """Return a copy that is a view in torch, and reject later writes to either of the two."""
    result = wrap(made)
    freeze(name, x, result.tensor)
    return result
