"""torch's arithmetic, comparisons and logic over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`. Dtypes follow `jitfuse.tracing.torch_like.promotion`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitfuse.dtypes import kind
from jitfuse.errors import ArgumentError, DTypeError, TensorDivisionError
from jitfuse.ir.statuses import INTEGER_DIVISION
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.torch_like.elementwise import delivered
from jitfuse.tracing.torch_like.promotion import (
    cast,
    in_common,
    numbers,
    operand,
    require_float,
    result_dtype,
    strong,
)
from jitfuse.tracing.torch_like.table import implements, in_float32
from jitfuse.tracing.torch_like.tensor import wrap


def _scaled(input: Any, other: Any, alpha: Any) -> Any:
    """Return the second operand times alpha, in the dtype of the result."""
    if isinstance(alpha, int | float) and alpha == 1:
        return other
    common = result_dtype([operand(input), operand(other)])
    factor = operand(alpha)
    if kind(common) in ("bool", "int", "uint") and kind(str(factor.dtype)) == "float":
        raise ArgumentError("For integral input tensors, argument alpha must not be a floating point number, at "
                            f"{user_line()}")
    if kind(common) == "bool":
        return wrap(cast(operand(other), common).call("logical_and", cast(strong(factor), common)))
    return mul(wrap(cast(strong(other), common)), alpha)


@implements("add")
def add(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """Return input + alpha * other."""
    return delivered(in_common("add", input, _scaled(input, other, alpha)), out)


@implements("sub", "subtract")
def sub(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """Return input - alpha * other."""
    if "bool" in (str(operand(input).dtype), str(operand(other).dtype)):
        raise DTypeError(f"Subtraction with a bool tensor is not supported, at {user_line()}. Invert a mask by ~mask.")
    return delivered(in_common("subtract", input, _scaled(input, other, alpha)), out)


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
    """Return the quotient, rounded if `rounding_mode` is "floor" or "trunc"."""
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
    """Return a divisor whose use raises TensorDivisionError where integers are divided by zero, as in torch."""
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
    if number is not None and type(number) in (int, float) and number in (2, 3, 0.5, -1, 1):  # exact in torch
        base = cast(x, common)
        made = {2: lambda: base * base, 3: lambda: base * base * base, 0.5: lambda: base.call("sqrt"),
                -1: lambda: base.call("reciprocal"), 1: base.as_copy}[number]()
        return delivered(made, out)
    if kind(common) == "int" and number is None:
        return delivered(_integer_power(cast(x, common), cast(operand(exponent), common)), out)
    return delivered(in_common("power", input, exponent), out)


def _integer_power(x: Any, exponent: Any) -> Any:
    """Return an integer power; negative exponents give 0, except for the bases 1 and -1."""
    inverse = x.call("equal", 1).call("where", 1, exponent.call("bitwise_and", 1).call("equal", 0).call("where", 1, -1))
    inverse = x.call("abs").call("equal", 1).call("where", inverse, 0)
    power = x.call("power", exponent.call("maximum", 0))
    return exponent.call("less", 0).call("where", cast(inverse, str(power.dtype)), power)


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
    "nextafter": "nextafter", "logaddexp": "logaddexp", "logaddexp2": "logaddexp2",
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


@implements("lerp")
def lerp(input: Any, end: Any, weight: Any, *, out: Any = None) -> Any:
    """Return input + weight * (end - input), computed from the nearer end."""
    a, b, w = operand(input), operand(end), operand(weight)
    if a.dtype != b.dtype or (not w.weak and w.dtype != a.dtype):
        raise DTypeError(f"lerp: expected one dtype, got {a.dtype}, {b.dtype} and {w.dtype}, at {user_line()}")
    w = cast(w, str(a.dtype))
    span = b - a
    near = w.call("abs").call("less", 0.5)
    made = near.call("where", a + w * span, b - span * (1.0 - w))
    return delivered(cast(made, str(a.dtype)), out)


@implements("addcmul")
@in_float32
def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1, out: Any = None) -> Any:
    """Return input + value * tensor1 * tensor2; `value` must be an integer for integer tensors."""
    common = result_dtype([operand(t) for t in (input, tensor1, tensor2)])
    value = int(numbers(value)) if kind(common) in ("int", "uint", "bool") else value
    return add(input, mul(tensor1, tensor2), alpha=value, out=out)


@implements("addcdiv")
@in_float32
def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1, out: Any = None) -> Any:
    """Return input + value * tensor1 / tensor2, for floats only."""
    require_float("addcdiv", input)
    return add(input, div(tensor1, tensor2), alpha=value, out=out)
