"""Elementary functions of complex numbers in real formulas, with the special cases of C99's Annex G.

complex64 is computed in float64; complex128 in float64 with care for overflow and cancellation. `FORMULAS` maps
operators to functions from a pair (real, imaginary) to a pair. Does not own arithmetic
(`jitfuse.passes.complex.arithmetic`) or the inverse functions (`jitfuse.passes.complex.inverses`).
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

from jitfuse.passes.complex.double_words import exact_sum, quotient, two_square, two_sum
from jitfuse.passes.complex.real_tensor import choose, is_finite, is_inf, is_negative, is_zero, signed

Pair = tuple[Any, Any]
Function = Callable[..., Pair]
_BIG: Final = 709.0
"""Above this, exp may overflow although the result does not."""


def wide(function: Function) -> Callable[..., Pair]:
    """Return a formula for both precisions; `function(pairs, single=)` gets float64 pairs."""

    @functools.wraps(function)
    def formula(*pairs: Pair) -> Pair:
        dtype = pairs[0][0].dtype
        widened = [(a.to("float64"), b.to("float64")) for a, b in pairs]
        real, imag = function(*widened, single=dtype == "float32")
        return real.to(dtype), imag.to(dtype)

    return formula


# ---------------------------------------------------------------- exponential
def _scaled(x: Any, factor: Any, exp: Any, half: Any) -> Any:
    """Return exp(x) * factor; if exp(x) would overflow, multiply by exp(x / 2) twice."""
    plain = exp * factor
    return plain if half is None else choose(x > _BIG, factor * half * half, plain)


@wide
def exp(z: Pair, *, single: bool) -> Pair:
    """Return e**x (cos y + i sin y)."""
    x, y = z
    size, half = x.exp(), None if single else (x * 0.5).exp()
    real, imag = _scaled(x, y.cos(), size, half), _scaled(x, y.sin(), size, half)
    lost, endless, nothing = ~is_finite(y), x == math.inf, x == -math.inf
    real = choose(is_zero(y), size, choose(lost & endless, math.inf, choose(lost & nothing, 0.0, real)))
    return real, choose(is_zero(y), y, choose(lost & nothing, signed(0.0, y), imag))


@wide
def exp2(z: Pair, *, single: bool) -> Pair:
    """Return 2**x (cos(y ln 2) + i sin(y ln 2)); the angle in two words."""
    x, y = z
    angle = y * math.log(2)
    rest = _product_error(y, math.log(2), angle) + y * 2.3190468138462996e-17
    rest = choose(is_finite(rest), rest, 0.0)
    sine, cosine = angle.sin(), angle.cos()
    sine, cosine = sine + rest * cosine, cosine - rest * sine
    size = x.call("exp2")
    half = None if single else (x * 0.5).call("exp2")
    plain = [size * f if half is None else choose(x > 1023.0, f * half * half, size * f) for f in (cosine, sine)]
    lost, endless, nothing = ~is_finite(y), x == math.inf, x == -math.inf
    real = choose(is_zero(y), size, choose(lost & endless, math.inf, choose(lost & nothing, 0.0, plain[0])))
    return real, choose(is_zero(y), y, choose(lost & nothing, signed(0.0, y), plain[1]))


def _product_error(a: Any, b: float, product: Any) -> Any:
    """Return a * b - product exactly, for |a| < 2**900."""
    breaker = 134217729.0
    scaled = a * breaker
    high = scaled - (scaled - a)
    low = a - high
    b_high = b * breaker - (b * breaker - b)
    b_low = b - b_high
    return ((high * b_high - product) + high * b_low + low * b_high) + low * b_low


@wide
def expm1(z: Pair, *, single: bool) -> Pair:
    """Return exp(z) - 1: expm1(x) cos y - 2 sin(y / 2)**2 + i exp(x) sin y."""
    x, y = z
    half = (y * 0.5).sin()
    size = x.exp()
    real = x.expm1() * y.cos() - half * half * 2.0
    real = choose(is_zero(y), x.expm1(), real)
    lost, nothing = ~is_finite(y), x == -math.inf
    real = choose(lost & nothing, -1.0, choose(lost & (x == math.inf), math.inf, real))
    imag = _scaled(x, y.sin(), size, None if single else (x * 0.5).exp())
    return real, choose(is_zero(y), y, choose(lost & nothing, 0.0, imag))


# ---------------------------------------------------------------- logarithms
def log_modulus(x: Any, y: Any, *, single: bool) -> Any:
    """Return log|x + iy|, by log1p of |z|**2 - 1 if |z| is between a half and two."""
    a, b = abs(x).call("maximum", abs(y)), abs(x).call("minimum", abs(y))
    square = a * a + b * b
    near = (square > 0.25) & (square < 4.0)
    if single:
        excess = (a - 1.0) * (a + 1.0) + b * b
        far = square.log() * 0.5
    else:
        (high, low), (high_b, low_b) = two_square(a), two_square(b)
        excess = exact_sum([a.number(-1.0), high, high_b, low, low_b])
        large, small = a > 2.0**1022, a < 2.0**-960
        scale = choose(large, 0.5, choose(small, 2.0**104, a.number(1.0)))
        shift = choose(large, math.log(2), choose(small, -104 * math.log(2), a.number(0.0)))
        far = (a * scale).call("hypot", b * scale).log() + shift
    far = choose(is_inf(x) | is_inf(y), math.inf, far)
    return choose(near, choose(near, excess, 0.0).log1p() * 0.5, far)


@wide
def log(z: Pair, *, single: bool) -> Pair:
    """Return log|z| + i arg z."""
    x, y = z
    return log_modulus(x, y, single=single), y.call("atan2", x)


def _log_to(base: float) -> Callable[..., Pair]:
    @wide
    def function(z: Pair, *, single: bool) -> Pair:
        x, y = z
        return log_modulus(x, y, single=single) * (1 / math.log(base)), y.call("atan2", x) * (1 / math.log(base))

    return function


@wide
def log1p(z: Pair, *, single: bool) -> Pair:
    """Return log|1 + z| + i arg(1 + z), by log1p of |1 + z|**2 - 1 if |1 + z| is between a half and two."""
    x, y = z
    one = x + 1.0
    if single:
        excess = (x * x + y * y) + x * 2.0
    else:
        (high, low), (high_y, low_y) = two_square(x), two_square(y)
        total, error = two_sum(x * 2.0, high)
        excess = exact_sum([total, high_y, error, low + low_y])
    near = (excess > -0.75) & (excess < 3.0) & is_finite(x) & is_finite(y)
    real = choose(near, choose(near, excess, 0.0).log1p() * 0.5, log_modulus(one, y, single=single))
    return real, y.call("atan2", one)


# ---------------------------------------------------------------- square root
@wide
def sqrt(z: Pair, *, single: bool) -> Pair:
    """Return the root in the right half plane: t = sqrt((|x| + |z|) / 2), and y / 2t."""
    x, y = z
    a, b = abs(x), abs(y)
    if single:
        root = ((a + (a * a + b * b).sqrt()) * 0.5).sqrt()
        other = b / (root * 2.0)
    else:
        most = a.call("maximum", b)
        large, small = most > 2.0**1020, most < 2.0**-960
        scale = choose(large, 2.0**-4, choose(small, 2.0**104, x.number(1.0)))
        back = choose(large, 2.0**2, choose(small, 2.0**-52, x.number(1.0)))
        a_, b_ = a * scale, b * scale
        root = ((a_ + a_.call("hypot", b_)) * 0.5).sqrt()
        other = b_ / (root * 2.0) * back
        root = root * back
    left = is_negative(x)
    other = choose(is_zero(x) & is_zero(y), 0.0, other)
    # an infinite part decides
    endless = is_inf(y)
    root, other = choose(endless | is_inf(x), math.inf, root), choose(is_inf(x) & is_finite(y), 0.0, other)
    real = choose(endless, math.inf, choose(left, other, root))
    imag = choose(endless, math.inf, choose(left, root, other))
    return choose(is_zero(x) & is_zero(y), 0.0, real), signed(imag, y)


# ---------------------------------------------------------------- hyperbolic and trigonometric functions
def _sinh_cosh(x: Any, factors: tuple[Any, Any], *, single: bool) -> tuple[Any, Any]:
    """Return sinh(x) times the first factor and cosh(x) times the second, without overflow for large x."""
    sinh, cosh = x.call("sinh") * factors[0], x.call("cosh") * factors[1]
    if single:
        return sinh, cosh
    big, half = abs(x) > _BIG, (abs(x) * 0.5).exp()
    far = [f * half * 0.5 * half for f in factors]
    return choose(big, choose(x < 0.0, -far[0], far[0]), sinh), choose(big, far[1], cosh)


def _sinh(z: Pair, *, single: bool) -> Pair:
    x, y = z
    real, imag = _sinh_cosh(x, (y.cos(), y.sin()), single=single)
    kept = ~is_finite(y) & (is_zero(x) | is_inf(x))
    return choose(kept, choose(is_inf(x), math.inf, x), real), choose(is_zero(y), y, imag)


def _cosh(z: Pair, *, single: bool) -> Pair:
    x, y = z
    imag, real = _sinh_cosh(x, (y.sin(), y.cos()), single=single)
    lost = ~is_finite(y)
    real = choose(lost & is_inf(x), math.inf, real)
    imag = choose(is_zero(y), choose(is_negative(x), -y, y), imag)
    return real, choose(lost & is_zero(x), 0.0, imag)


def _tanh(z: Pair, *, single: bool) -> Pair:
    """Return half of (sinh 2x + i sin 2y) / (sinh(x)**2 + cos(y)**2); for large |x| 1 + i 2 sin 2y exp(-2|x|)."""
    x, y = z
    cosine = y.cos()
    far = abs(x) > 22.0
    near_x = choose(far, 0.0, x)
    s, above_x, above_y = near_x.call("sinh"), (near_x * 2.0).call("sinh") * 0.5, (y * 2.0).sin() * 0.5
    if single:
        below = s * s + cosine * cosine
        real, imag = above_x / below, above_y / below
    else:
        above_y = choose(abs(y) > 2.0**1022, y.sin() * cosine, above_y)
        (high, low), (high_c, low_c) = two_square(s), two_square(cosine)
        total, error = two_sum(high, high_c)
        words = total, error + (low + low_c)
        real, imag = quotient(above_x, words), quotient(above_y, words)
    decay = (-abs(x)).exp()
    tail = above_y * 4.0 * decay * decay
    real, imag = choose(far, signed(1.0, x), real), choose(far, tail, imag)
    lost = ~is_finite(y)
    imag = choose(is_zero(y), y, choose(lost & is_inf(x), signed(0.0, y), choose(lost, math.nan, imag)))
    real = choose(is_zero(y), x.call("tanh"), choose(lost & ~is_inf(x), math.nan, real))
    return choose(lost & is_zero(x), x, real), imag


def _turned(function: Function, back: Callable[[Any, Any], Pair]) -> Callable[..., Pair]:
    """Return the trigonometric function of a hyperbolic one: f(y + ix), with its parts rearranged."""

    @wide
    def formula(z: Pair, *, single: bool) -> Pair:
        x, y = z
        return back(*function((y, x), single=single))

    return formula


FORMULAS: Final[dict[str, Callable[..., Any]]] = {
    "exp": exp, "exp2": exp2, "expm1": expm1, "log": log, "log2": _log_to(2), "log10": _log_to(10), "log1p": log1p,
    "sqrt": sqrt, "sinh": wide(_sinh), "cosh": wide(_cosh), "tanh": wide(_tanh),
    "sin": _turned(_sinh, lambda a, b: (b, a)), "cos": _turned(_cosh, lambda a, b: (a, -b)),
    "tan": _turned(_tanh, lambda a, b: (b, a)),
}
