"""Functions of single elements.

At kinks the derivative is the mean of both sides, as in JAX and torch; that of `sqrt` and `abs` at 0 is 0, so that the
gradient of a norm at 0 is 0.
"""
from __future__ import annotations

import math
from typing import Any

from jitfuse.dtypes import kind
from jitfuse.gradients.rule import (
    RULES,
    Bounded,
    Call,
    Over,
    Parts,
    Rule,
    Times,
    composite,
    constant,
    elementwise,
    linear,
)
from jitfuse.gradients.values import Tensor, cast, choose, conjugate, fitted, known_number, scaled, zeros_like


def _sign(x: Tensor) -> Tensor:
    """Return the derivative of the distance from 0: -1, 0 or 1."""
    return x.call("sign")


def _half_at(equal: Tensor, chosen: Tensor, like: Tensor) -> Tensor:
    """Return 1 where an operand is chosen, 1/2 where both are equal, else 0."""
    return choose(equal, 0.5, cast(chosen, str(like.dtype)))


# ---------------------------------------------------------------- of one operand
elementwise("negative", lambda x, y: Times(-1))
elementwise("positive", lambda x, y: Times(1))
elementwise("copy", lambda x, y: Times(1))
elementwise("square", lambda x, y: x.multiply(2))
elementwise("sqrt", lambda x, y: choose(y.equal(0), 0, y.multiply(2).call("reciprocal")))
elementwise("reciprocal", lambda x, y: y.multiply(y).negative(), unbounded=True)
elementwise("cbrt", lambda x, y: choose(y.equal(0), 0, y.multiply(y).multiply(3).call("reciprocal")))
elementwise("exp", lambda x, y: y)
elementwise("exp2", lambda x, y: y.multiply(math.log(2)))
elementwise("expm1", lambda x, y: y.add(1))
elementwise("log", lambda x, y: Over(x), unbounded=True)
elementwise("log2", lambda x, y: Over(x.multiply(math.log(2))), unbounded=True)
elementwise("log10", lambda x, y: Over(x.multiply(math.log(10))), unbounded=True)
elementwise("log1p", lambda x, y: Over(x.add(1)), unbounded=True)
elementwise("sin", lambda x, y: x.call("cos"))
elementwise("cos", lambda x, y: x.call("sin").negative())
elementwise("tan", lambda x, y: y.multiply(y).add(1))
elementwise("asin", lambda x, y: _one_minus_square(x).call("sqrt").call("reciprocal"), unbounded=True)
elementwise("acos", lambda x, y: _one_minus_square(x).call("sqrt").call("reciprocal").negative(), unbounded=True)
elementwise("atan", lambda x, y: Over(x.multiply(x).add(1)))
elementwise("sinh", lambda x, y: x.call("cosh"))
elementwise("cosh", lambda x, y: x.call("sinh"))
elementwise("tanh", lambda x, y: _one_minus_square(y))
elementwise("asinh", lambda x, y: _root_of_square_plus_one(x).call("reciprocal"))
elementwise("acosh", lambda x, y: x.subtract(1).call("sqrt").multiply(x.add(1).call("sqrt")).call("reciprocal"),
            unbounded=True)
elementwise("atanh", lambda x, y: Over(_one_minus_square(x)), unbounded=True)
elementwise("erf", lambda x, y: x.multiply(x).negative().exp().multiply(2 / math.sqrt(math.pi)))
elementwise("erfc", lambda x, y: x.multiply(x).negative().exp().multiply(-2 / math.sqrt(math.pi)))
elementwise("sigmoid", lambda x, y: y.multiply(y.negative().add(1)))
elementwise("softplus", lambda x, y: x.call("sigmoid"))
elementwise("logit", lambda x, y: Over(x.multiply(x.negative().add(1))), unbounded=True)
elementwise("rad2deg", lambda x, y: Times(180 / math.pi))
elementwise("deg2rad", lambda x, y: Times(math.pi / 180))
elementwise("relu", lambda x, y: cast(x.greater(0), str(y.dtype)), masks=True)
elementwise("frexp_mantissa", lambda x, y: choose(x.equal(0), 1, y.divide(x)))
constant(
    "floor", "ceil", "trunc", "isnan", "isinf", "isfinite", "logical_not", "bitwise_invert", "rint", "signbit",
    "spacing", "bitwise_count", "frexp_exponent", "modf_whole", "isposinf", "isneginf", "round", "isclose", "equal",
    "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "floor_divide", "gcd",
    "lcm", "heaviside", "stop_gradient")


def _one_minus_square(x: Tensor) -> Tensor:
    return x.multiply(x).negative().add(1)


def _root_of_square_plus_one(x: Tensor) -> Tensor:
    """Return sqrt(x**2 + 1), without the square of a real number, which may be infinite."""
    return x.multiply(x).add(1).call("sqrt") if kind(str(x.dtype)) == "complex" else x.call("hypot", 1)


def _silu(x: Tensor, y: Tensor) -> Tensor:
    s = x.call("sigmoid")
    return s.multiply(x.multiply(s.negative().add(1)).add(1))


def _gelu(x: Tensor, y: Tensor) -> Tensor:
    density = x.multiply(x).multiply(-0.5).exp().multiply(1 / math.sqrt(2 * math.pi))
    return x.multiply(math.sqrt(0.5)).call("erf").add(1).multiply(0.5).add(x.multiply(density))


def _gelu_tanh(whole: Tensor, y: Tensor) -> Tensor:
    """Return the slope, which is 0 or 1 far from 0, where powers may be infinite."""
    far = whole.call("abs").greater(16)
    x = choose(far, 0, whole)
    square, scale = x.multiply(x), math.sqrt(2 / math.pi)
    t = square.multiply(0.044715).add(1).multiply(x).multiply(scale).call("tanh")
    inner = square.multiply(3 * 0.044715).add(1).multiply(scale)
    slope = t.add(1).multiply(0.5).add(x.multiply(0.5).multiply(_one_minus_square(t)).multiply(inner))
    return choose(far, cast(whole.greater(0), str(y.dtype)), slope)


def _sinc(x: Tensor, y: Tensor) -> Tensor:
    """Return (cos(pi x) - sinc(x)) / x; near 0, where its digits cancel, the first terms of the series in pi x."""
    near, turn = x.call("abs").less(0.01), x.multiply(math.pi)
    slope = turn.call("cos").subtract(y).divide(choose(near, 1, x))
    square = turn.multiply(turn)
    terms = square.multiply(-1 / 840).add(1 / 30).multiply(square).add(-1 / 3)
    return choose(near, terms.multiply(turn).multiply(math.pi), slope)


elementwise("silu", _silu)
elementwise("gelu", _gelu)
elementwise("gelu_tanh", _gelu_tanh)
elementwise("sinc", _sinc)
composite("fabs", "float_power", "nan_to_num", "log_sigmoid", "leaky_relu", "elu", "modf_fraction")


def _abs_forward(call: Call, tangents: Parts) -> Parts:
    (t,) = tangents
    if kind(str(call.x.dtype)) != "complex":
        return [t.multiply(_sign(call.x))]
    return [conjugate(_direction(call)).multiply(t).call("real")]


def _abs_reverse(call: Call, cotangents: Parts) -> Parts:
    (ct,) = cotangents
    return [ct.multiply(_direction(call) if kind(str(call.x.dtype)) == "complex" else _sign(call.x))]


def _direction(call: Call) -> Tensor:
    """Return the complex number of size 1 in an operand's direction, and 0 for 0."""
    return call.x.divide(choose(call.y.equal(0), 1, call.y))


RULES["abs"] = Rule(_abs_forward, _abs_reverse)


def _sign_changes(call: Call, changes: Parts) -> Parts:
    """Return the part of a change across a complex number's direction, over its size; both modes have it."""
    if kind(str(call.x.dtype)) != "complex":
        return [None]
    (t,), y, size = changes, call.y, call.x.call("abs")
    across = t.subtract(y.multiply(conjugate(y).multiply(t).call("real")))
    return [choose(size.equal(0), 0, across.divide(choose(size.equal(0), 1, size)))]


RULES["sign"] = Rule(_sign_changes, _sign_changes)

# ---------------------------------------------------------------- of two operands
elementwise("add", lambda a, b, y: Times(1), lambda a, b, y: Times(1))
elementwise("subtract", lambda a, b, y: Times(1), lambda a, b, y: Times(-1))
elementwise("multiply", lambda a, b, y: b, lambda a, b, y: a)
elementwise("divide", lambda a, b, y: Over(b), lambda a, b, y: y.divide(b).negative(), unbounded=True)
elementwise("maximum", lambda a, b, y: _half_at(a.equal(b), a.greater(b), y),
            lambda a, b, y: _half_at(a.equal(b), b.greater(a), y), masks=True)
elementwise("minimum", lambda a, b, y: _half_at(a.equal(b), a.less(b), y),
            lambda a, b, y: _half_at(a.equal(b), b.less(a), y), masks=True)
elementwise("fmax", lambda a, b, y: _half_at(a.equal(b), _taken(a, b, a.greater(b)), y),
            lambda a, b, y: _half_at(a.equal(b), _taken(b, a, b.greater(a)), y), masks=True)
elementwise("fmin", lambda a, b, y: _half_at(a.equal(b), _taken(a, b, a.less(b)), y),
            lambda a, b, y: _half_at(a.equal(b), _taken(b, a, b.less(a)), y), masks=True)
elementwise("remainder", lambda a, b, y: Times(1), lambda a, b, y: a.call("floor_divide", b).negative())
elementwise("fmod", lambda a, b, y: Times(1), lambda a, b, y: a.divide(b).call("trunc").negative())
elementwise("copysign", lambda a, b, y: _sign(a).multiply(_sign(y)), None)
elementwise("logaddexp", lambda a, b, y: _share(a, b, y, 1), lambda a, b, y: _share(b, a, y, 1))
elementwise("logaddexp2", lambda a, b, y: _share(a, b, y, math.log(2)), lambda a, b, y: _share(b, a, y, math.log(2)))
elementwise("xlogy", lambda a, b, y: choose(b.equal(0), 0, b.call("log")), lambda a, b, y: a.divide(b), unbounded=True)
elementwise("hypot", lambda a, b, y: a.divide(choose(y.equal(0), 1, y)),
            lambda a, b, y: b.divide(choose(y.equal(0), 1, y)))
elementwise("atan2", lambda a, b, y: _over_square_of_length(b, a, b),
            lambda a, b, y: _over_square_of_length(a.negative(), a, b))
elementwise("ldexp", lambda a, b, y: b.call("exp2"), None)
elementwise("nextafter", lambda a, b, y: Times(1), None)


def _taken(a: Tensor, b: Tensor, better: Tensor) -> Tensor:
    """Return where fmax or fmin takes the first operand: where it is better, or the other is NaN."""
    return better.call("logical_or", b.call("isnan").call("logical_and", a.call("isnan").call("logical_not")))


def _share(a: Tensor, b: Tensor, y: Tensor, rate: float) -> Tensor:
    """Return what the first of two summands contributes to the sum of powers; 0 where both are 0.

    It is a function of their distance: y is rounded, and the distance from it is not exact for large operands.
    """
    same = y.call("isinf").call("logical_and", a.equal(b))
    share = scaled(choose(same, 0, a.subtract(b)), rate).call("sigmoid")
    return choose(y.call("isneginf"), 0, share)


def _over_square_of_length(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return x / (a**2 + b**2), 0 at the origin; no square is computed, which may be 0 or infinite."""
    length = a.call("hypot", b)
    length = choose(length.equal(0), 1, length)
    return x.divide(length).divide(length)


def _power_of_base(a: Tensor, b: Tensor, y: Tensor) -> Any:
    """Return b * a**(b - 1); 0 where the power of 0 has no finite slope.

    At b = 0 it is not a constant: it changes by a**-1 with b.
    """
    known = known_number(b)
    if known is not None and known >= 1:
        a = cast(a, str(y.dtype))
        return Bounded(a.multiply(2) if known == 2 else a.call("power", known - 1).multiply(known))
    power = a.call("power", b.subtract(1))
    none = b.equal(0).call("logical_and", power.call("isfinite").call("logical_not"))
    if kind(str(y.dtype)) != "complex":
        none = none.call("logical_or", a.equal(0).call("logical_and", b.less(1)))
    return choose(none, 0, b.multiply(power))


def _power_of_exponent(a: Tensor, b: Tensor, y: Tensor) -> Tensor:
    """Return y * log(a); 0 where a is 0 and the power is 0 or 1."""
    flat = a.equal(0) if kind(str(y.dtype)) == "complex" else a.equal(0).call("logical_and", b.greater_equal(0))
    return choose(flat, 0, y.multiply(choose(flat, 1, cast(a, str(y.dtype))).call("log")))


elementwise("power", _power_of_base, _power_of_exponent, unbounded=True)


# ---------------------------------------------------------------- choices, checks and casts
@linear("where", of=(1, 2), masks=True)
def _(call: Call, ct: Tensor) -> Any:
    condition = call.xs[0]
    return choose(condition, ct, 0), choose(condition, 0, ct)


def _clip_parts(call: Call) -> tuple[Tensor, Tensor, Tensor]:
    x, low, high = call.xs
    under = x.less(low)
    over = x.greater(high).call("logical_or", low.greater(high))
    return under.call("logical_and", over.call("logical_not")), over, under.call("logical_or", over)


def _clip_forward(call: Call, tangents: Parts) -> Parts:
    _, over, outside = _clip_parts(call)
    found = [zeros_like(call.y) if t is None else cast(t, str(call.y.dtype)) for t in tangents]
    return [choose(outside, choose(over, found[2], found[1]), found[0])]


def _clip_reverse(call: Call, cotangents: Parts) -> Parts:
    (ct,), (under, over, outside) = cotangents, _clip_parts(call)
    return [choose(outside, 0, ct), choose(under, ct, 0), choose(over, ct, 0)]


RULES["clip"] = Rule(_clip_forward, _clip_reverse, masks=True)


def _same(call: Call, changes: Parts) -> Parts:
    return [changes[0], *[None] * (len(call.xs) - 1)]


for _name in ("astype", "python_number", "require"):
    RULES[_name] = Rule(lambda call, tangents: [fitted(tangents[0], call.y)], _same)
