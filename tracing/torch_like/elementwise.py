"""torch's functions of single elements over traced tensors: mathematics, signs, roundings.

Owns their entries in `jitfuse.tracing.torch_like.table`. Integers become torch's default dtype where a
function's result is floating.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jitfuse.dtypes import kind
from jitfuse.tracing.torch_like.promotion import (
    assign,
    cast,
    floating,
    in_common,
    numbers,
    strong,
)
from jitfuse.tracing.torch_like.table import implements
from jitfuse.tracing.torch_like.tensor import wrap

_OF_FLOATS: Final = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
    "sqrt": "sqrt", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "arcsin": "asin", "acos": "acos",
    "arccos": "acos", "atan": "atan", "arctan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "asinh": "asinh", "arcsinh": "asinh", "acosh": "acosh", "arccosh": "acosh", "atanh": "atanh", "arctanh": "atanh",
    "erf": "erf", "erfc": "erfc", "sigmoid": "sigmoid", "expit": "sigmoid", "reciprocal": "reciprocal",
    "deg2rad": "deg2rad", "rad2deg": "rad2deg", "sinc": "sinc", "lgamma": "gammaln", "gammaln": "gammaln",
    "digamma": "digamma", "psi": "digamma", "i0": "i0",
}
_KEEPING: Final = {
    "neg": "negative", "negative": "negative", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "fix": "trunc", "isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite", "isposinf": "isposinf",
    "isneginf": "isneginf", "signbit": "signbit", "abs": "abs", "absolute": "abs",
}


def delivered(result: Any, out: Any = None) -> Any:
    """Return a result as torch's tensor; written into `out` if given."""
    made = wrap(result)
    return made if out is None else assign(out, made, "out")


def _of_floats(op_name: str) -> Callable[..., Any]:
    def function(input: Any, *, out: Any = None) -> Any:
        x = floating(input)
        return delivered(cast(x.call(op_name), str(x.dtype)), out)

    function.__name__ = op_name
    return function


def _keeping(op_name: str) -> Callable[..., Any]:
    def function(input: Any, *, out: Any = None) -> Any:
        return delivered(strong(input).call(op_name), out)

    function.__name__ = op_name
    return function


for _name, _op in _OF_FLOATS.items():
    implements(_name)(_of_floats(_op))
for _name, _op in _KEEPING.items():
    implements(_name)(_keeping(_op))


@implements("square")
def square(input: Any, *, out: Any = None) -> Any:
    """Return x times x; bools become int64."""
    x = strong(input)
    return delivered((cast(x, "int64") if str(x.dtype) == "bool" else x).call("square"), out)


@implements("positive")
def positive(input: Any) -> Any:
    """Return the tensor."""
    return wrap(strong(input))


@implements("conj", "conj_physical")
def conj(input: Any) -> Any:
    """Return the conjugate, or a real tensor itself."""
    x = strong(input)
    return wrap(x.call("conj") if kind(str(x.dtype)) == "complex" else x)


@implements("rsqrt")
def rsqrt(input: Any, *, out: Any = None) -> Any:
    """Return 1 / sqrt(x)."""
    return delivered(floating(input).call("sqrt").call("reciprocal"), out)


@implements("logit")
def logit(input: Any, eps: Any = None, *, out: Any = None) -> Any:
    """Return log(x / (1 - x)), x limited to [eps, 1 - eps] where eps is given."""
    x = floating(input)
    dtype = str(x.dtype)
    if eps is not None:
        x = x.call("clip", numbers(eps), 1 - numbers(eps))
    return delivered(cast(x.call("logit"), dtype), out)


@implements("sign", "sgn")
def sign(input: Any, *, out: Any = None) -> Any:
    """Return -1, 0 or 1; 0 for NaN."""
    x = strong(input)
    if kind(str(x.dtype)) == "bool":
        return delivered(x.as_copy(), out)
    made = x.call("sign")
    return delivered(x.call("isnan").call("where", 0, made) if kind(str(x.dtype)) == "float" else made, out)


@implements("round")
def round_(input: Any, *, decimals: Any = 0, out: Any = None) -> Any:
    """Round halves to even, at a number of decimals."""
    x, digits = strong(input), numbers(decimals)
    if not digits or kind(str(x.dtype)) != "float":
        return delivered(x.call("rint") if kind(str(x.dtype)) == "float" else x.as_copy(), out)
    scale = 10.0 ** abs(digits)
    made = in_common("multiply", in_common("multiply" if digits > 0 else "divide", x, scale).call("rint"), 1.0)
    return delivered(in_common("divide" if digits > 0 else "multiply", made, scale), out)


@implements("frac")
def frac(input: Any, *, out: Any = None) -> Any:
    """Return x - trunc(x)."""
    x = strong(input)
    return delivered(x - x.call("trunc"), out)


@implements("logical_not")
def logical_not(input: Any, *, out: Any = None) -> Any:
    """Return where x is zero."""
    return delivered(strong(input).call("logical_not"), out)


@implements("bitwise_not")
def bitwise_not(input: Any, *, out: Any = None) -> Any:
    """Return the inverted bits; of bools, the negation."""
    return delivered(strong(input).call("bitwise_invert"), out)
