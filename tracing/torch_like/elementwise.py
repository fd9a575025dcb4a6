"""torch's functions of elements over traced tensors: arithmetic, mathematics, comparison, choices.

Owns their entries in `jitfuse.tracing.torch_like.table`. Integers become torch's default dtype where a result is a
fraction; dtypes are promoted as `jitfuse.tracing.torch_like.promotion` says.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch

from jitfuse import dtypes
from jitfuse.dtypes import is_narrow, kind
from jitfuse.errors import ArgumentError, DTypeError, TensorDivisionError
from jitfuse.ir.statuses import INTEGER_DIVISION
from jitfuse.tracing.source import user_line
from jitfuse.tracing.torch_like.promotion import (
    cast,
    floating,
    in_common,
    numbers,
    operand,
    require_float,
    result_dtype,
    strong,
)
from jitfuse.tracing.torch_like.table import implements, method
from jitfuse.tracing.torch_like.tensor import assign, wrap

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
    "neg": "negative", "negative": "negative", "square": "square", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "fix": "trunc", "isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite", "isposinf": "isposinf",
    "isneginf": "isneginf", "signbit": "signbit", "abs": "abs", "absolute": "abs",
}


def delivered(result: Any, out: Any = None) -> Any:
    """Return a result as torch's; written into `out` where one is given."""
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


@implements("positive")
def positive(input: Any) -> Any:
    """Return the tensor."""
    return wrap(strong(input))


@implements("conj", "conj_physical")
def conj(input: Any) -> Any:
    """Return the conjugate; a real tensor itself."""
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
    x, places = strong(input), numbers(decimals)
    if not places or kind(str(x.dtype)) != "float":
        return delivered(x.call("rint") if kind(str(x.dtype)) == "float" else x.as_copy(), out)
    scale = 10.0 ** abs(places)
    made = in_common("multiply", in_common("multiply" if places > 0 else "divide", x, scale).call("rint"), 1.0)
    return delivered(in_common("divide" if places > 0 else "multiply", made, scale), out)


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
    """Return the bits inverted; of bools, the opposite."""
    return delivered(strong(input).call("bitwise_invert"), out)


# ---------------------------------------------------------------- arithmetic
def _scaled(other: Any, alpha: Any) -> Any:
    return other if isinstance(alpha, int | float) and alpha == 1 else mul(other, alpha)


@implements("add")
def add(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """Return input + alpha * other."""
    return delivered(in_common("add", input, _scaled(other, alpha)), out)


@implements("sub", "subtract")
def sub(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """Return input - alpha * other."""
    return delivered(in_common("subtract", input, _scaled(other, alpha)), out)


@implements("rsub")
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Return other - alpha * input."""
    return sub(other, input, alpha=alpha)


@implements("mul", "multiply")
def mul(input: Any, other: Any, *, out: Any = None) -> Any:
    """Return input * other."""
    return delivered(in_common("multiply", input, other), out)


@implements("div", "divide", "true_divide")
def div(input: Any, other: Any, *, rounding_mode: Any = None, out: Any = None) -> Any:
    """Return the quotient, a fraction unless `rounding_mode` is "floor" or "trunc"."""
    if rounding_mode is None:
        return delivered(in_common("divide", input, other, to_float=True), out)
    if rounding_mode == "floor":
        return floor_divide(input, other, out=out)
    if rounding_mode != "trunc":
        raise ArgumentError(f"div: rounding_mode is None, 'trunc' or 'floor', not {rounding_mode!r}, at {user_line()}")
    common = result_dtype([operand(input), operand(other)])
    if kind(common) == "float":
        return delivered(in_common("divide", input, other).call("trunc"), out)
    other = _divisor(input, other)
    quotient, rest = in_common("floor_divide", input, other), in_common("remainder", input, other)
    down = rest.call("not_equal", 0).call("logical_and", quotient.call("less", 0))
    return delivered(quotient + cast(down, str(quotient.dtype)), out)


@implements("floor_divide")
def floor_divide(input: Any, other: Any, *, out: Any = None) -> Any:
    """Return the quotient rounded down."""
    return delivered(in_common("floor_divide", input, _divisor(input, other)), out)


def _divisor(input: Any, other: Any) -> Any:
    """Return a divisor, which raises TensorDivisionError where integers are divided by zero, as in torch."""
    x, y = operand(input), operand(other)
    common = result_dtype([x, y])
    if kind(common) not in ("int", "uint"):
        return other
    if isinstance(other, int):
        if other == 0 and x.size:
            raise TensorDivisionError(f"ZeroDivisionError: integers are divided by 0, at {user_line()}")
        return other
    y = cast(y, common)
    return y.call("require", y.call("not_equal", 0), status=INTEGER_DIVISION)


@implements("pow")
def pow_(input: Any, exponent: Any, *, out: Any = None) -> Any:
    """Return input to the power of the exponent."""
    number = exponent if isinstance(exponent, int | float) and not isinstance(exponent, bool) else None
    x = operand(input)
    common = result_dtype([x, operand(exponent)])
    if kind(common) in ("int", "uint") and number is not None and number < 0:
        raise ArgumentError(f"Integers to negative integer powers are not allowed, at {user_line()}")
    if number is not None and type(number) in (int, float) and number in (2, 3, 0.5, -1, 1):  # exact ways of torch's
        base = cast(x, common)
        made = {2: lambda: base * base, 3: lambda: base * base * base, 0.5: lambda: base.call("sqrt"),
                -1: lambda: base.call("reciprocal"), 1: base.as_copy}[number]()
        return delivered(made, out)
    return delivered(in_common("power", input, exponent), out)


def _binary(op_name: str, to_float: bool) -> Callable[..., Any]:
    def function(input: Any, other: Any, *, out: Any = None) -> Any:
        other = _divisor(input, other) if op_name in ("remainder", "fmod") else other
        return delivered(in_common(op_name, input, other, to_float=to_float), out)

    function.__name__ = op_name
    return function


for _name, _op in {
    "remainder": "remainder", "fmod": "fmod", "maximum": "maximum", "minimum": "minimum", "fmax": "fmax",
    "fmin": "fmin", "eq": "equal", "ne": "not_equal", "not_equal": "not_equal", "lt": "less", "less": "less",
    "le": "less_equal", "less_equal": "less_equal", "gt": "greater", "greater": "greater", "ge": "greater_equal",
    "greater_equal": "greater_equal", "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor", "bitwise_left_shift": "bitwise_left_shift",
    "bitwise_right_shift": "bitwise_right_shift", "gcd": "gcd", "lcm": "lcm", "hypot": "hypot",
    "nextafter": "nextafter", "logaddexp": "logaddexp", "logaddexp2": "logaddexp2", "heaviside": "heaviside",
}.items():
    implements(_name)(_binary(_op, to_float=False))
for _name, _op in {"atan2": "atan2", "arctan2": "atan2", "xlogy": "xlogy", "copysign": "copysign"}.items():
    implements(_name)(_binary(_op, to_float=True))


maximum_of, minimum_of = _binary("maximum", to_float=False), _binary("minimum", to_float=False)


def _logical(op_name: str) -> Callable[..., Any]:
    def function(input: Any, other: Any, *, out: Any = None) -> Any:
        a, b = strong(input), strong(other)
        return delivered(cast(a, "bool").call(op_name, cast(b, "bool")), out)

    function.__name__ = op_name
    return function


for _name in ("logical_and", "logical_or", "logical_xor"):
    implements(_name)(_logical(_name))


@implements("float_power")
def float_power(input: Any, exponent: Any, *, out: Any = None) -> Any:
    """Return a power in float64 or complex128."""
    common = result_dtype([operand(input), operand(exponent)])
    dtype = "complex128" if kind(common) == "complex" else "float64"
    return delivered(in_common("power", input, exponent, dtype=dtype), out)


@implements("ldexp")
def ldexp(input: Any, other: Any, *, out: Any = None) -> Any:
    """Return input * 2**other."""
    return mul(input, pow_(2.0, other), out=out)


# ---------------------------------------------------------------- limits and choices
@implements("clamp", "clip")
def clamp(input: Any, min: Any = None, max: Any = None, *, out: Any = None) -> Any:
    """Limit the values to [min, max]; either may be None."""
    if min is None and max is None:
        raise ArgumentError(f"torch.clamp: At least one of 'min' or 'max' must not be None, at {user_line()}")
    bounds = [operand(b) for b in (min, max) if b is not None]
    common = result_dtype([operand(input), *bounds])
    x = cast(operand(input), common)
    if min is not None:
        x = x.call("maximum", cast(operand(min), common))
    if max is not None:
        x = x.call("minimum", cast(operand(max), common))
    return delivered(x, out)


@implements("clamp_min")
def clamp_min(input: Any, min: Any) -> Any:
    """Limit the values from below."""
    return clamp(input, min)


@implements("clamp_max")
def clamp_max(input: Any, max: Any) -> Any:
    """Limit the values from above."""
    return clamp(input, None, max)


@implements("where")
def where(condition: Any, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """Return elements of input where the condition holds, else of other."""
    if input is None:
        from jitfuse.tracing.torch_like.observed import nonzero

        return nonzero(condition, as_tuple=True)
    c, a, b = strong(condition), operand(input), operand(other)
    if str(c.dtype) not in ("bool", "uint8"):
        raise DTypeError(f"where expected condition to be a boolean tensor, but got {c.dtype}, at {user_line()}")
    common = result_dtype([a, b])
    return delivered(cast(c, "bool").call("where", cast(a, common), cast(b, common)), out)


@method("where")
def where_method(self: Any, condition: Any, other: Any) -> Any:
    """Return elements of self where the condition holds, else of other."""
    return where(condition, self, other)


@implements("masked_fill")
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """Return the tensor with a value where a mask holds."""
    x = strong(input)
    if str(operand(mask).dtype) != "bool":
        raise DTypeError(f"masked_fill only supports boolean masks, but got {operand(mask).dtype}, at {user_line()}")
    if isinstance(value, float) and not math.isfinite(value) and kind(str(x.dtype)) != "float":
        raise ArgumentError(f"masked_fill: value cannot be converted to type {x.dtype} without overflow, at "
                            f"{user_line()}")
    return wrap(operand(mask).call("where", cast(operand(value), str(x.dtype)), x))


@implements("nan_to_num")
def nan_to_num(input: Any, nan: Any = None, posinf: Any = None, neginf: Any = None, *, out: Any = None) -> Any:
    """Replace NaN and infinities by numbers."""
    x = strong(input)
    if kind(str(x.dtype)) != "float":
        return delivered(x.as_copy(), out)
    dtype = str(x.dtype)
    largest = dtypes.largest_float(dtype)
    wide = cast(x, "float32") if is_narrow(dtype) else x
    made = wide.call("nan_to_num", 0.0 if nan is None else nan, largest if posinf is None else posinf,
                     -largest if neginf is None else neginf)
    return delivered(cast(made, dtype), out)


@implements("lerp")
def lerp(input: Any, end: Any, weight: Any, *, out: Any = None) -> Any:
    """Return start + weight * (end - start), from the nearer end."""
    a, b, w = operand(input), operand(end), operand(weight)
    if a.dtype != b.dtype or (not w.weak and w.dtype != a.dtype):
        raise DTypeError(f"lerp: expected one dtype, got {a.dtype}, {b.dtype} and {w.dtype}, at {user_line()}")
    w = cast(w, str(a.dtype))
    span = b - a
    near = w.call("abs").call("less", 0.5)
    made = near.call("where", a + w * span, b - span * (1.0 - w))
    return delivered(cast(made, str(a.dtype)), out)


@implements("addcmul")
def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1, out: Any = None) -> Any:
    """Return input + value * tensor1 * tensor2; the value is an integer among integers."""
    common = result_dtype([operand(t) for t in (input, tensor1, tensor2)])
    value = int(numbers(value)) if kind(common) in ("int", "uint", "bool") else value
    return add(input, _scaled(mul(tensor1, tensor2), value), out=out)


@implements("addcdiv")
def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1, out: Any = None) -> Any:
    """Return input + value * tensor1 / tensor2; of floats alone."""
    require_float("addcdiv", input)
    return add(input, _scaled(div(tensor1, tensor2), value), out=out)


# ---------------------------------------------------------------- closeness
@implements("isclose")
def isclose(input: Any, other: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """Return where two tensors are equal within tolerances."""
    a, b = strong(input), strong(other)
    if a.dtype != b.dtype:
        raise DTypeError(f"isclose: {a.dtype} did not match {b.dtype}, at {user_line()}")
    return wrap(a.call("isclose", b, rtol, atol, equal_nan=bool(equal_nan)))


@implements("allclose")
def allclose(input: Any, other: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> bool:
    """Return whether two tensors are equal within tolerances: Python looks at it."""
    return bool(isclose(input, other, rtol, atol, equal_nan).tensor.call("all"))


@implements("equal")
def equal(input: Any, other: Any) -> bool:
    """Return whether two tensors are equal in shape and elements: Python looks at it."""
    a, b = strong(input), strong(other)
    return a.shape == b.shape and bool(a.call("equal", b).call("all"))


@implements("is_floating_point")
def is_floating_point(input: Any) -> bool:
    """Return whether the dtype is one of floats."""
    return kind(str(strong(input).dtype)) == "float"


@implements("is_complex")
def is_complex(input: Any) -> bool:
    """Return whether the dtype is complex."""
    return kind(str(strong(input).dtype)) == "complex"


@implements("result_type")
def result_type(tensor1: Any, tensor2: Any) -> Any:
    """Return the dtype that two operands have in common."""
    return getattr(torch, result_dtype([operand(tensor1), operand(tensor2)]))
