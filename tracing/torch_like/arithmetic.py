"""torch's arithmetic, comparisons, logic, limits and choices over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`. Dtypes follow `jitfuse.tracing.torch_like.promotion`.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from jitfuse.dtypes import kind
from jitfuse.errors import ArgumentError, DTypeError, TensorDivisionError
from jitfuse.ir.statuses import INTEGER_DIVISION
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.torch_like.elementwise import rows
from jitfuse.tracing.torch_like.promotion import (
    assign,
    cast,
    default_float,
    in_common,
    numbers,
    operand,
    require_float,
    result_dtype,
    strong,
)
from jitfuse.tracing.torch_like.real_tensors import run_of_trace
from jitfuse.tracing.torch_like.table import FUNCTIONS, implements, in_float32, method
from jitfuse.tracing.torch_like.tensor import TracedTorchTensor, wrap


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


# ---------------------------------------------------------------- functions that are one operator
def _common(op_name: str) -> Callable[..., Any]:
    return lambda input, other: wrap(in_common(op_name, input, other))


def _floating(op_name: str) -> Callable[..., Any]:
    return lambda input, other: wrap(in_common(op_name, input, other, to_float=True))


def _dividing(op_name: str) -> Callable[..., Any]:
    return lambda input, other: wrap(in_common(op_name, input, _divisor(input, other)))


def _logical(op_name: str) -> Callable[..., Any]:
    return lambda input, other: wrap(cast(strong(input), "bool").call(op_name, cast(strong(other), "bool")))


rows(_common, "maximum minimum fmax fmin bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd "
     "lcm hypot nextafter logaddexp logaddexp2", multiply="mul multiply", equal="eq", not_equal="ne not_equal",
     less="lt less", less_equal="le less_equal", greater="gt greater", greater_equal="ge greater_equal")
rows(_floating, "xlogy copysign", atan2="atan2 arctan2")
rows(_dividing, "remainder fmod floor_divide")
rows(_logical, "logical_and logical_or logical_xor")
mul: Final = FUNCTIONS["mul"]


# ---------------------------------------------------------------- others
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
def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Return input + alpha * other."""
    return wrap(in_common("add", input, _scaled(input, other, alpha)))


@implements("sub", "subtract")
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Return input - alpha * other."""
    if "bool" in (str(operand(input).dtype), str(operand(other).dtype)):
        raise DTypeError(f"Subtraction with a bool tensor is not supported, at {user_line()}. Invert a mask by ~mask.")
    return wrap(in_common("subtract", input, _scaled(input, other, alpha)))


@implements("div", "divide", "true_divide")
def div(input: Any, other: Any, *, rounding_mode: Any = None) -> Any:
    """Return the quotient, rounded if `rounding_mode` is "floor" or "trunc"."""
    if rounding_mode is None:
        return wrap(in_common("divide", input, other, to_float=True))
    if rounding_mode == "floor":
        return FUNCTIONS["floor_divide"](input, other)
    if rounding_mode != "trunc":
        raise ArgumentError(f"div: rounding_mode is None, 'trunc' or 'floor', not {rounding_mode!r}, at {user_line()}")
    common = result_dtype([operand(input), operand(other)])
    if kind(common) == "float":
        return wrap(in_common("divide", input, other).call("trunc"))
    other = _divisor(input, other)
    quotient, rest = in_common("floor_divide", input, other), in_common("remainder", input, other)
    down = rest.call("not_equal", 0).call("logical_and", quotient.call("less", 0))
    return wrap(quotient + cast(down, str(quotient.dtype)))


@implements("pow")
def pow_(input: Any, exponent: Any) -> Any:
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
        return wrap(made)
    if kind(common) == "int" and number is None:
        return wrap(_integer_power(cast(x, common), cast(operand(exponent), common)))
    return wrap(in_common("power", input, exponent))


def _integer_power(x: Any, exponent: Any) -> Any:
    """Return an integer power; negative exponents give 0, except for the bases 1 and -1."""
    inverse = x.call("equal", 1).call("where", 1, exponent.call("bitwise_and", 1).call("equal", 0).call("where", 1, -1))
    inverse = x.call("abs").call("equal", 1).call("where", inverse, 0)
    power = x.call("power", exponent.call("maximum", 0))
    return exponent.call("less", 0).call("where", cast(inverse, str(power.dtype)), power)


@implements("lerp")
def lerp(input: Any, end: Any, weight: Any) -> Any:
    """Return input + weight * (end - input), computed from the nearer end."""
    a, b, w = operand(input), operand(end), operand(weight)
    if a.dtype != b.dtype or (not w.weak and w.dtype != a.dtype):
        raise DTypeError(f"lerp: expected one dtype, got {a.dtype}, {b.dtype} and {w.dtype}, at {user_line()}")
    w = cast(w, str(a.dtype))
    span = b - a
    near = w.call("abs").call("less", 0.5)
    made = near.call("where", a + w * span, b - span * (1.0 - w))
    return wrap(cast(made, str(a.dtype)))


@implements("addcmul")
@in_float32
def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """Return input + value * tensor1 * tensor2; `value` must be an integer for integer tensors."""
    common = result_dtype([operand(t) for t in (input, tensor1, tensor2)])
    value = int(numbers(value)) if kind(common) in ("int", "uint", "bool") else value
    return add(input, mul(tensor1, tensor2), alpha=value)


@implements("addcdiv")
@in_float32
def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """Return input + value * tensor1 / tensor2, for floats only."""
    require_float("addcdiv", input)
    return add(input, div(tensor1, tensor2), alpha=value)


@implements("xlog1py")
@in_float32
def xlog1py(input: Any, other: Any) -> Any:
    """Return x * log(1 + y); 0 where x is 0, but for NaN: the derivative by x is the logarithm there too."""
    common = result_dtype([operand(input), operand(other)])
    x, y = (cast(operand(t), common if kind(common) == "float" else default_float()) for t in (input, other))
    log, none = y.call("log1p"), x.call("equal", 0)
    missing = none.call("logical_and", log.call("isfinite").call("logical_not")).call(
        "logical_and", y.call("isnan").call("logical_not"))
    made = x * missing.call("where", 0, log)
    return wrap(none.call("where", made - made.call("stop_gradient"), made))  # 0, whatever the signs


# ---------------------------------------------------------------- limits and choices
@implements("clamp", "clip")
def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """Limit the values to [min, max]; either may be None."""
    if min is None and max is None:
        raise ArgumentError(f"torch.clamp: At least one of 'min' or 'max' must not be None, at {user_line()}")
    bounds = [operand(b) for b in (min, max) if b is not None]
    common = result_dtype([operand(input), *bounds])
    x = cast(operand(input), common)
    if run_of_trace().differentiated and kind(common) == "float":  # at a bound, the derivative is the element's
        low, high = (-math.inf if min is None else operand(min)), (math.inf if max is None else operand(max))
        return wrap(cast(x.call("clip", low, high), common))
    for name, bound in (("maximum", min), ("minimum", max)):
        if bound is not None:  # of two zeros the element stays: the second of two equal ones, in float16 the first
            limit = cast(operand(bound), common)
            x = x.call(name, limit) if common == "float16" else limit.call(name, x)
    return wrap(x)


@implements("hardtanh")
def hardtanh(input: Any, min_val: Any = -1.0, max_val: Any = 1.0, inplace: bool = False) -> Any:
    """Limit the values as clamp does, in the input's dtype; at a bound, the derivative is 0 here."""
    if kind(str(operand(input).dtype)) != "float":
        min_val, max_val = int(numbers(min_val)), int(numbers(max_val))
    made = clamp(input, min_val, max_val)
    if run_of_trace().differentiated:
        x, limited = operand(input), operand(made)
        at_bound = x.call("less_equal", min_val).call("logical_or", x.call("greater_equal", max_val))
        made = wrap(at_bound.call("where", limited.call("stop_gradient"), limited))
    return assign(input, made, "hardtanh") if inplace else made


implements("relu6")(lambda input, inplace=False: hardtanh(input, 0, 6, inplace))
implements("clamp_min")(lambda input, min: clamp(input, min))
implements("clamp_max")(lambda input, max: clamp(input, None, max))


@implements("where")
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """Return elements of input where the condition holds, else of other."""
    if input is None:
        from jitfuse.tracing.torch_like.data_dependent import nonzero

        return nonzero(condition, as_tuple=True)
    c, a, b = strong(condition), operand(input), operand(other)
    if str(c.dtype) not in ("bool", "uint8"):
        raise DTypeError(f"where expected condition to be a boolean tensor, but got {c.dtype}, at {user_line()}")
    common = result_dtype([a, b])
    return wrap(cast(c, "bool").call("where", cast(a, common), cast(b, common)))


method("where")(lambda self, condition, other: where(condition, self, other))


@implements("masked_fill")
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """Return the tensor with a value where a mask holds."""
    x = strong(input)
    if str(operand(mask).dtype) != "bool":
        raise DTypeError(f"masked_fill only supports boolean masks, but got {operand(mask).dtype}, at {user_line()}")
    if isinstance(value, float) and not math.isfinite(value) and kind(str(x.dtype)) != "float":
        raise ArgumentError(f"masked_fill: value cannot be converted to type {x.dtype} without overflow, at "
                            f"{user_line()}")
    return wrap(operand(mask).call("where", cast(operand(value), str(x.dtype)), x).as_copy())


@implements("equal")
def equal(input: Any, other: Any) -> bool:
    """Read whether two tensors are equal in shape and elements."""
    a, b = strong(input), strong(other)
    return a.shape == b.shape and bool(a.call("equal", b).call("all"))


# ---------------------------------------------------------------- operators, called as functions of torch.Tensor
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"):
    for _dunder in (f"__{_name}__", f"__r{_name}__"):
        method(_dunder)(vars(TracedTorchTensor)[_dunder])
method("__rdiv__")(vars(TracedTorchTensor)["__rtruediv__"])
method("__getitem__")(vars(TracedTorchTensor)["__getitem__"])
