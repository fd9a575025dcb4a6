"""hypot and cbrt for float32 and float64, and the square root as two words.

Owns: scaling by powers of two so that squares neither overflow nor vanish; the cube root by an inverse cube root
without any division. Does not own: the square root that targets have, see `rounding`.
"""
from __future__ import annotations

from jitfuse.backends.llvm.math import coefficients as c
from jitfuse.backends.llvm.math.double_double import fast_two_sum, two_product
from jitfuse.backends.llvm.math.exponential import ROUNDER
from jitfuse.backends.llvm.math.lockstep import Batch

_INFINITY = float("inf")
_MANTISSA = (1 << 52) - 1
_EXPONENT_MASK = 2047 << 52
_EXPONENT_CARRIER = 4503599627370496.0  # 2**52: or-ing an integer below into its bits adds it
_CARRIER_BITS = 1075 << 52


def scales(size: Batch) -> tuple[Batch, Batch]:
    """Return (2**-e, 2**(e + 1)), that bring size >= 0 into [2, 4) and half of the result back.

    For denormals e is that of the smallest normal, so that they come to at least 2**-51.
    """
    back = (size.bits() & _EXPONENT_MASK).from_bits().at_least(2.0**-1022)
    return (_EXPONENT_MASK - back.bits()).from_bits(), back


def sqrt_parts(x: Batch, x_low: Batch | None) -> tuple[Batch, Batch]:
    """Return (s, s_low), the square root of x + x_low to about 2**-68, for x = 0 or 2**-100 < x < 2**100.

    Newton's iteration from the inverse root in float32, which is several times as fast as in float64.
    """
    start = 1.0 / x.at_least(2.0**-110).narrowed().sqrt()
    half = start.widened() * 0.5
    if x.context.has_fma:
        s = x * start.widened()
        s = (-s).fma(s, x).fma(half, s)
        remainder = (-s).fma(s, x)
    else:
        s = x.sqrt()
        p, e = two_product(s, s)
        remainder = (x - p) - e
    if x_low is not None:
        remainder = remainder + x_low
    return fast_two_sum(s, remainder * half)


def hypot_32(x: Batch, y: Batch) -> Batch:
    """Return the length of (x, y) of float32 batches, infinite where one is, even if the other is NaN."""
    a, b = x.widened(), y.widened()
    return _infinite_if_one_is(a.fma(a, b * b).sqrt().narrowed(), x, y)


def hypot_64(x: Batch, y: Batch) -> Batch:
    """Return the length of (x, y) of float64 batches, infinite where one is, even if the other is NaN."""
    a, b = abs(x), abs(y)
    more = a.compare("ogt", b)
    a, b = a.where(more, b), b.where(more, a)
    scale, back = scales(a)
    a, b = a * scale, b * scale
    (p, e), (q, d) = two_product(a, a), two_product(b, b)
    s, low = fast_two_sum(p, q)
    root, root_low = sqrt_parts(s, (low + e) + d)
    return _infinite_if_one_is(((root + root_low) * 0.5) * back, x, y)


def _infinite_if_one_is(result: Batch, x: Batch, y: Batch) -> Batch:
    infinite = abs(x).compare("oeq", _INFINITY) | abs(y).compare("oeq", _INFINITY)
    return result.replace(infinite, _INFINITY)


def cbrt_32(x: Batch) -> Batch:
    """Return the cube root of float32 batches."""
    wide = x.widened()
    size = abs(wide)
    root, _, scale, _ = _cube_root(size)
    return (root * scale).copysign(wide).where(_proper(size), wide).narrowed()


def cbrt_64(x: Batch) -> Batch:
    """Return the cube root of float64 batches, corrected once by the exact remainder."""
    size = abs(x)
    denormal = size.compare("olt", 2.0**-1022)
    root, inverse, scale, m = _cube_root((size * 2.0**54).where(denormal, size))
    square, square_low = two_product(root, root)
    p, e = two_product(square, root)
    remainder = ((m - p) - e) - square_low * root
    third = (inverse * inverse) * (1 / 3)
    result = remainder.fma(third, root) * (scale * 2.0**-18).where(denormal, scale)
    return result.copysign(x).where(_proper(size), x)


def _proper(size: Batch) -> Batch:
    """Return where 0 < size < infinity, and no NaN."""
    return (size.bits() - 1).compare("ult", _EXPONENT_MASK - 1)


def _cube_root(x: Batch) -> tuple[Batch, Batch, Batch, Batch]:
    """Return (root, inverse root, 2**k, m) with x = m 8**k, 1/2 <= m < 4, for positive normal x.

    An iteration of third order, y (1 + h/3 + 2 h**2/9) with h = 1 - m y**3, from a polynomial good to 2**-10.
    """
    bits = x.bits()
    exponent = ((bits >> 52) | _CARRIER_BITS).from_bits() - _EXPONENT_CARRIER
    thirds = exponent.fma(1 / 3, ROUNDER).bits()
    m = (bits - ((thirds + (thirds << 1)) << 52) + (1023 << 52)).from_bits()
    y = m.polynomial(c.CBRT)
    h = 1.0 - (m * y) * (y * y)
    y = (y * h).fma(h.fma(2 / 9, 1 / 3), y)
    # thirds is k + 1023/3
    return m * (y * y), y, ((thirds << 52) + ((1023 - 341) << 52)).from_bits(), m
