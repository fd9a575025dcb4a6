"""Inverse trigonometric and hyperbolic functions of complex numbers in real formulas.

asin and acos by Hull, Fairgrieve and Tang (ACM Transactions on Mathematical Software 23, 1997), atanh by a logarithm
and an arc tangent of real arguments that do not cancel; the others by rotation through a right angle. Special cases
are those of C99's Annex G.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from jitfuse.passes.complex.double_words import two_sum
from jitfuse.passes.complex.functions import wide
from jitfuse.passes.complex.real_tensor import choose, is_inf, is_nan, is_zero, signed

Pair = tuple[Any, Any]
_FAR: Final = 2.0**54
"""From here on, a 1 added to the argument changes nothing."""
_TINY: Final = 2.0**-400
"""Squares of smaller numbers underflow."""
_CROSS: Final = 0.6417
_LN4: Final = 1.3862943611198906


class _Crossing:
    """What asin and acos of a point share, from the absolute values of its parts.

    `adjacent` is sqrt(a*a - x*x), where a is the mean distance from -1 and 1; atan2(x, adjacent) is asin's real part.
    `height` is the absolute value of the imaginary part of both.
    """

    def __init__(self, z: Pair, *, single: bool) -> None:
        x, y = abs(z[0]), abs(z[1])
        most = x.call("maximum", y)
        self.far = is_inf(x) | is_inf(y) if single else (most > _FAR) | is_inf(x) | is_inf(y)
        self.x, self.y = x, y
        near_x, near_y = choose(self.far, 0.5, x), choose(self.far, 0.5, y)
        r, s = (near_x + 1.0).call("hypot", near_y), (near_x - 1.0).call("hypot", near_y)
        total, lost = two_sum(r, s)
        a, lost = total * 0.5, lost * 0.5
        inside = near_x <= 1.0
        y2, above = near_y * near_y, r + near_x + 1.0
        sum_ = a + near_x
        first = y2 / above
        gap = s + abs(near_x - 1.0)
        within = (sum_ * 0.5 * (first + gap)).sqrt()
        outside = near_y * ((sum_ / above + sum_ / gap) * 0.5).sqrt()
        plain = (((a - near_x) + lost) * (sum_ + lost)).sqrt()
        self.adjacent = choose(near_x <= a * _CROSS, plain, choose(inside, within, outside))
        strictly = near_x < 1.0
        excess = choose(strictly, (first + y2 / gap) * 0.5, (first + gap) * 0.5)
        low = (excess + (excess * (a + 1.0)).sqrt()).log1p()
        height = choose(a <= 1.5, low, (a + (((a - 1.0) + lost) * (a + 1.0)).sqrt()).log())
        if not single:
            flat = near_y / ((1.0 - near_x) * (near_x + 1.0)).sqrt()
            flat = choose(strictly, flat, choose(near_x == 1.0, near_y.sqrt(), height))
            height = choose(near_y < _TINY, flat, height)
        distant = (x * 0.5).call("hypot", y * 0.5).log() + _LN4
        self.height = choose(self.far, choose(is_inf(x) | is_inf(y), math.inf, distant), height)


def _asin(z: Pair, *, single: bool) -> Pair:
    crossing = _Crossing(z, single=single)
    x, y = crossing.x, crossing.y
    real = choose(crossing.far, x.call("atan2", y), x.call("atan2", crossing.adjacent))
    real = choose(is_nan(y), choose(is_inf(x), math.nan, real), real)
    real = choose(is_zero(x), 0.0, real)
    return signed(real, z[0]), signed(crossing.height, z[1])


def _acos(z: Pair, *, single: bool) -> Pair:
    crossing = _Crossing(z, single=single)
    real = choose(crossing.far, crossing.y.call("atan2", z[0]), crossing.adjacent.call("atan2", z[0]))
    real = choose(is_zero(z[0]) & is_nan(z[1]), math.pi / 2, real)
    imag = signed(crossing.height, z[1])
    return real, -imag


def _acosh(z: Pair, *, single: bool) -> Pair:
    real, imag = _acos(z, single=single)
    return abs(imag), signed(real, z[1])


def _atanh(z: Pair, *, single: bool) -> Pair:
    x, y = abs(z[0]), abs(z[1])
    far = (x > _FAR) | (y > _FAR)
    near_x, near_y = choose(far, 0.0, x), choose(far, 0.0, y)
    distance = 1.0 - near_x
    y2 = near_y * near_y
    real = (near_x * 4.0 / (distance * distance + y2)).log1p() * 0.25
    angle = (near_y * 2.0).call("atan2", distance * (near_x + 1.0) - y2) * 0.5
    if not single:
        close = (near_x == 1.0) & (near_y < _TINY) & ~is_zero(near_y)
        real = choose(close, (math.log(2.0) - near_y.log()) * 0.5, real)
    # x / |z|**2, in an order that does not overflow
    larger, smaller = x.call("maximum", y), x.call("minimum", y)
    ratio = smaller / larger
    inverse = (x / larger) / (larger * (ratio * ratio + 1.0))
    endless = is_inf(x) | is_inf(y)
    real = choose(far, choose(endless, 0.0, inverse), real)
    angle = choose(far, math.pi / 2, angle)
    unknown = is_nan(x) | is_nan(y)
    zero_kept = is_zero(x) | (endless & unknown)
    nan = real.number(math.nan)
    real = choose(unknown, choose(zero_kept, 0.0, nan), real)
    angle = choose(unknown, choose(is_inf(y), math.pi / 2, nan), angle)
    return signed(real, z[0]), signed(angle, z[1])


def _turned(function: Callable[..., Pair]) -> Callable[..., Pair]:
    """Return asinh from asin, or atan from atanh: the function of y + ix, with its parts exchanged."""

    @wide
    def formula(z: Pair, *, single: bool) -> Pair:
        a, b = function((z[1], z[0]), single=single)
        return b, a

    return formula


FORMULAS: Final[dict[str, Callable[..., Any]]] = {
    "asin": wide(_asin), "acos": wide(_acos), "asinh": _turned(_asin), "acosh": wide(_acosh), "atanh": wide(_atanh),
    "atan": _turned(_atanh),
}
