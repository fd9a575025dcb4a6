"""asin, acos, atan and atan2 for float32 and float64.

Owns: for asin and acos the series at 0 below 1/2, and above it asin(x) = pi/2 - 2 asin(sqrt((1 - x)/2)); for the
arctangents the quotient of the smaller and the larger operand, which float64 reduces once more, by pi/4, to at
most tan(pi/8) (as in fdlibm's scheme; Muller, Elementary Functions, chapter 10).
"""
from __future__ import annotations

from typing import Final

from jitfuse.backends.llvm.math import coefficients as c
from jitfuse.backends.llvm.math.double_double import fast_two_sum, less_product
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.math.rare_lanes import unless_rare
from jitfuse.backends.llvm.math.roots import scales, sqrt_parts

_INFINITY, _NAN = float("inf"), float("nan")
_PI = (3.141592653589793, 1.2246467991473532e-16)
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
_HALF_PI_SINGLE = (1.5707963705062866, -4.371139000186241e-08)
# pi/4 to 49 or 20 bits and the rest: small multiples of the first are exact
_QUARTER_PI = (0.7853981633974474, 9.18794589678809e-16)
_QUARTER_PI_SINGLE = (0.78539752960205078, 6.338453979e-07)
_TAN_EIGHTH = 0.41421356237309503


def asin_32(x: Batch) -> Batch:
    """Return the arcsine of float32 batches."""
    if x.context.has_fma:
        return _asin(x)
    wide = x.widened()
    small, angle = _narrow_angle(wide)
    return angle.where(small, angle.fma(-2.0, _HALF_PI[0])).narrowed().copysign(x)


def acos_32(x: Batch) -> Batch:
    """Return the arccosine of float32 batches."""
    if x.context.has_fma:
        return _acos(x)
    wide = x.widened()
    small, angle = _narrow_angle(wide)
    angle = angle.copysign(wide)
    # pi/2 - asin(x), or twice the angle, from 0 or up from -pi
    twice = angle.fma(2.0, wide.filled(0.0).replace(wide.compare("olt", 0.0), _PI[0]))
    return (_HALF_PI[0] - angle).where(small, twice).narrowed()


def _narrow_angle(x: Batch) -> tuple[Batch, Batch]:
    """Return (whether |x| < 1/2, the arcsine of |x|, or elsewhere of the root of (1 - |x|)/2) in float64."""
    size = abs(x)
    small = size.compare("olt", 0.5)
    z = size.fma(-0.5, 0.5)
    t = (x * x).where(small, z)
    return small, size.where(small, z.sqrt()) * t.polynomial(c.ASIN_32)


def asin_64(x: Batch) -> Batch:
    """Return the arcsine of float64 batches."""
    return _asin(x)


def acos_64(x: Batch) -> Batch:
    """Return the arccosine of float64 batches."""
    return _acos(x)


def _asin(x: Batch) -> Batch:
    """Return the arcsine, in x's own type."""
    half_pi = _HALF_PI if x.is_double else _HALF_PI_SINGLE
    small, root, root_low, tail = _parts(x)
    hi, lo = fast_two_sum(half_pi[0], root * -2.0)
    large = hi + (lo + (root_low + tail).fma(-2.0, half_pi[1]))
    result = (x + tail).where(small, large.copysign(x))
    return result.replace(abs(x).compare("ogt", 1.0), _NAN)


def _acos(x: Batch) -> Batch:
    """Return the arccosine, in x's own type.

    It is base + (u + u_low + tail), with u = -x from pi/2, or u twice the root from 0 or down from pi.
    """
    small, root, root_low, tail = _parts(x)
    negative = x.compare("olt", 0.0)
    factor = x.filled(-1.0).where(small, x.filled(2.0).replace(negative, -2.0))
    half_pi = _HALF_PI if x.is_double else _HALF_PI_SINGLE
    base, base_low = (
        x.filled(v).where(small, x.filled(0.0).replace(negative, 2 * v)) for v in half_pi
    )
    hi, lo = fast_two_sum(base, x.where(small, root) * factor)
    low = root_low.replace(small, 0.0) + tail
    result = hi + (lo + low.fma(factor, base_low))
    return result.replace(abs(x).compare("ogt", 1.0), _NAN)


def _parts(x: Batch) -> tuple[Batch, Batch, Batch, Batch]:
    """Return what `_narrow_parts` does, with the root as two words."""
    size = abs(x)
    small = size.compare("olt", 0.5)
    z = size.fma(-0.5, 0.5)
    root, root_low = sqrt_parts(z, None)
    t = (x * x).where(small, z)
    u = x.where(small, root)
    return small, root, root_low, (u * t) * t.polynomial(c.ASIN_64 if x.is_double else c.ASIN_SINGLE)


def atan_32(x: Batch) -> Batch:
    """Return the arctangent of float32 batches: beyond 1 it is pi/2 + atan(-1/x)."""
    if x.context.has_fma:
        return _atan(x)
    wide = x.widened()
    beyond = abs(wide).compare("ogt", 1.0)
    s = wide.filled(-1.0).where(beyond, wide) / wide.where(beyond, 1.0)
    base = wide.filled(0.0).replace(beyond, _HALF_PI[0]).copysign(wide)
    return s.fma((s * s).polynomial(c.ATAN_32), base).narrowed()


def atan2_32(y: Batch, x: Batch) -> Batch:
    """Return the angle of the points (x, y) of float32 batches; in float64 infinities are as huge as no float32 is."""
    if x.context.has_fma:
        return _atan2(y, x)
    height, width = (abs(v).widened().at_most(2.0**1000) for v in (y, x))
    steep = height.compare("ogt", width)
    s = width.where(steep, height) / height.where(steep, width).at_least(2.0**-500)
    sign, base = _quadrant(x, steep, s, _HALF_PI[0])
    s = (s.bits() ^ sign).from_bits()
    return s.fma((s * s).polynomial(c.ATAN_32), base).narrowed().copysign(y)


def _quadrant(x: Batch, steep: Batch, like: Batch, quarter: float) -> tuple[Batch, Batch]:
    """Return (sign, base) of the angle base + sign a: a is that of the nearer half axis, base its own angle.

    The sign is that bit alone, the base in units of which `quarter` make a quarter turn.
    """
    behind = x.bits().compare("slt", 0)
    sign = like.filled(0.0).replace(steep, -0.0).bits() ^ like.filled(0.0).replace(behind, -0.0).bits()
    return sign, like.filled(0.0).replace(behind, 2 * quarter).replace(steep, quarter)


def atan_64(x: Batch) -> Batch:
    """Return the arctangent of float64 batches."""
    return _atan(x)


def _atan(x: Batch) -> Batch:
    """Return the arctangent in x's own type."""
    size = abs(x).at_most(2.0**60)
    beyond = size.compare("ogt", 1.0)
    one = x.filled(1.0)
    sign = x.filled(0.0).replace(beyond, -0.0).bits()
    base = x.filled(0.0).replace(beyond, 2.0)
    return _arctangent(one.where(beyond, size), size.where(beyond, one), sign, base).copysign(x)


def atan2_64(y: Batch, x: Batch) -> Batch:
    """Return the angle of the points (x, y) of float64 batches."""
    return _atan2(y, x)


def _atan2(y: Batch, x: Batch) -> Batch:
    """Return the angle of the points (x, y) in their own type, scaled so that no quotient loses bits."""
    height, width = abs(y), abs(x)
    steep = height.compare("ogt", width)
    down, up = height.where(steep, width), width.where(steep, height)
    sign, base = _quadrant(x, steep, x, 2.0)
    scale, _ = scales(down)
    infinite = down.compare("oeq", _INFINITY)
    up, down = unless_rare(
        infinite, [up * scale, (down * scale).at_least(2.0**-60)],
        lambda: [
            (up * 0.0).replace(up.compare("oeq", _INFINITY), 1.0).where(infinite, up * scale),
            (down * scale).at_least(2.0**-60).replace(infinite, 1.0),
        ],
    )
    return _arctangent(up, down, sign, base).copysign(y)


def _arctangent(up: Batch, down: Batch, sign: Batch, base: Batch) -> Batch:
    """Return base pi/4 + sign atan(up / down) for 0 <= up <= down.

    Beyond tan(pi/8) the quotient becomes (up - down) / (up + down), and pi/4 goes to the base.
    """
    steep = up.compare("ogt", down * _TAN_EIGHTH)
    zero = up.filled(0.0)
    n, n_low = fast_two_sum(-down.where(steep, zero), up)
    d, d_low = fast_two_sum(down, up.where(steep, zero))
    inverse = 1.0 / d
    s = n * inverse
    remainder = s.fma(-d_low, less_product(n, s, d) + n_low)
    t = s * s
    s_low = remainder * inverse
    low = (s * t).fma(t.polynomial(c.ATAN_64 if s.is_double else c.ATAN_SINGLE), t.fma(-s_low, s_low))
    s, low, one = ((v.bits() ^ sign).from_bits() for v in (s, low, zero.replace(steep, 1.0)))
    base = base + one
    quarter, quarter_low = _QUARTER_PI if s.is_double else _QUARTER_PI_SINGLE
    hi, lo = fast_two_sum(base * quarter, s)
    return hi + (lo + base.fma(quarter_low, low))


OPERATORS: Final = {
    "asin": (asin_32, asin_64), "acos": (acos_32, acos_64), "atan": (atan_32, atan_64), "atan2": (atan2_32, atan2_64),
}
"""What this file computes: (for float32, for float64) by operator."""
