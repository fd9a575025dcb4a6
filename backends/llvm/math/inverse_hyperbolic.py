"""asinh, acosh and atanh for float32 and float64, as logarithms of 1 + f with f in two words.

Owns: f = |x| + (sqrt(x*x + 1) - 1) and x - 1 + sqrt(x*x - 1), and half the logarithm as k ln(2)/2 + atanh of a quotient
of two words over two words. Does not own: the logarithms of single words, see `logarithm`.
"""
from __future__ import annotations

import struct
from typing import Final

from jitfuse.backends.llvm.math import coefficients as c
from jitfuse.backends.llvm.math.double_double import fast_two_sum, less_product, two_product, two_sum
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.math.logarithm import narrow_log1p
from jitfuse.backends.llvm.math.rare_lanes import unless_rare
from jitfuse.backends.llvm.math.roots import sqrt_parts

_INFINITY, _NAN = float("inf"), float("nan")
_HUGE = 2.0**30
"""From here on asinh(x) and acosh(x) are log(2 x)."""
_HALF_LN2 = 0.34657359027997264
# ln(2)/2 in two parts of which the first, of 42 or 16 bits, times an exponent is exact
_HALF_LN2_PARTS = (0.34657359027994517, 2.7489615093541856e-14)
_HALF_LN2_SINGLE = (0.3465728759765625, 7.143034101547086e-07)
_CARRIER = 4503599627370496.0  # 2**52: or-ing an integer below into its bits adds it
_CARRIER_BITS = 1075 << 52
_SQRT_HALF_BITS: dict[bool, int] = {
    True: struct.unpack("<q", struct.pack("<d", 0.5**0.5))[0],
    False: struct.unpack("<i", struct.pack("<f", 0.5**0.5))[0],
}


def asinh_32(x: Batch) -> Batch:
    """Return the inverse hyperbolic sine of float32 batches."""
    if x.context.has_fma:
        return _asinh(x, 2.0**-13)
    size = abs(x).widened()
    f = size + (size.fma(size, 1.0).sqrt() - 1.0)
    result = narrow_log1p(f).narrowed().copysign(x)
    return result.where(_between(abs(x), 2.0**-13, _INFINITY), x)


def acosh_32(x: Batch) -> Batch:
    """Return the inverse hyperbolic cosine of float32 batches."""
    if x.context.has_fma:
        return _acosh(x)
    wide = x.widened()
    less = wide - 1.0
    result = narrow_log1p(less + (less * (wide + 1.0)).sqrt()).narrowed()
    return _from_one_on(x, result)


def atanh_32(x: Batch) -> Batch:
    """Return the inverse hyperbolic tangent of float32 batches."""
    if x.context.has_fma:
        return _atanh(x, 2.0**-13)
    size = abs(x).widened()
    a, b = 1.0 + size, 1.0 - size
    k, power = _nearest_power(a, b)
    s = (-power).fma(b, a) / power.fma(b, a)
    result = k.fma(_HALF_LN2, s * (s * s).polynomial(c.ATANH_32)).narrowed()
    return _below_one(x, abs(x), result, 2.0**-13)


def asinh_64(x: Batch) -> Batch:
    """Return the inverse hyperbolic sine of float64 batches."""
    return _asinh(x, 2.0**-28)


def _asinh(x: Batch, tiny: float) -> Batch:
    """Return the inverse hyperbolic sine in x's own type; below `tiny` it is x."""
    size = abs(x)
    bounded = size.at_most(_HUGE)
    t, t_low = two_product(bounded, bounded)
    h, h_low = two_sum(t.filled(1.0), t)
    s, s_low = sqrt_parts(h, h_low + t_low)
    f, f_low = fast_two_sum(bounded, s - 1.0)
    result = _log1p_or_log2x(size, f, f_low + s_low)
    return result.copysign(x).where(_between(size, tiny, _INFINITY), x)


def acosh_64(x: Batch) -> Batch:
    """Return the inverse hyperbolic cosine of float64 batches."""
    return _acosh(x)


def _acosh(x: Batch) -> Batch:
    """Return the inverse hyperbolic cosine in x's own type."""
    bounded = x.at_most(_HUGE)
    t, t_low = two_product(bounded, bounded)
    h, h_low = fast_two_sum(t, t.filled(-1.0))
    h, h_low = fast_two_sum(h, h_low + t_low)
    s, s_low = sqrt_parts(h, h_low)
    f, f_low = fast_two_sum(s, bounded - 1.0)
    return _from_one_on(x, _log1p_or_log2x(x, f, f_low + s_low))


def atanh_64(x: Batch) -> Batch:
    """Return the inverse hyperbolic tangent of float64 batches."""
    return _atanh(x, 2.0**-28)


def _atanh(x: Batch, tiny: float) -> Batch:
    """Return the inverse hyperbolic tangent in x's own type; below `tiny` it is x.

    (1 + x)/(1 - x) is 2**k (1 + s)/(1 - s), s the quotient of (1 + x) -+ 2**k (1 - x).
    """
    size = abs(x)
    a, a_low = fast_two_sum(1.0, size)
    b, b_low = fast_two_sum(1.0, -size)
    k, power = _nearest_power(a, b)
    b, b_low = b * power, b_low * power
    d, d_low = fast_two_sum(a, b)
    result = _half_log(k, a - b, a_low - b_low, d, d_low + (a_low + b_low))
    return _below_one(x, size, result, tiny)


def _nearest_power(a: Batch, b: Batch) -> tuple[Batch, Batch]:
    """Return (k, 2**k), nearest to a/b for 1 <= a < 2, 0 < b <= 1, with a/b between 2**(k - 0.59) and 2**(k + 0.59).

    By the difference of the bit patterns, which is the logarithm but for 0.09.
    """
    return _number_and_power(a, ((a.bits() - b.bits()) + (1 << (51 if a.is_double else 22))))


def _number_and_power(like: Batch, bits: Batch) -> tuple[Batch, Batch]:
    """Return (k, 2**k) as floats, k >= 0 the integer where floats have their exponents."""
    if not like.is_double:
        k = bits >> 23
        return k.cast("sitofp", "float"), ((k << 23) + (127 << 23)).from_bits()
    k = bits >> 52
    return (k | _CARRIER_BITS).from_bits() - _CARRIER, ((k << 52) + (1023 << 52)).from_bits()


def _half_log(k: Batch, n: Batch, n_low: Batch, d: Batch, d_low: Batch) -> Batch:
    """Return k ln(2)/2 + atanh((n + n_low)/(d + d_low)) for a quotient of at most 0.201."""
    inverse = 1.0 / d
    s = n * inverse
    remainder = less_product(n, s, d) + s.fma(-d_low, n_low)
    t = s * s
    head, tail = _HALF_LN2_PARTS if s.is_double else _HALF_LN2_SINGLE
    hi, lo = fast_two_sum(k * head, s)
    low = (s * t).fma(t.polynomial(c.ATANH_64 if s.is_double else c.ATANH_SINGLE), remainder * inverse)
    return hi + k.fma(tail, lo + low)


def _log1p_or_log2x(x: Batch, f: Batch, f_low: Batch) -> Batch:
    """Return log(1 + f + f_low) for f >= 0 or, for huge x, log(2 x), which is log(0 + x/2**30) + 31 ln 2.

    With 2**k nearest to u = 1 + f the quotient is (u - 2**k)/(u + 2**k), its terms summed from 1 -+ 2**k and f.
    """
    one = x.filled(1.0)
    huge = x.compare("ogt", _HUGE)
    f, f_low, one, more = unless_rare(
        huge, [f, f_low, one, x.filled(0.0)],
        lambda: [
            (x * (1 / _HUGE)).where(huge, f), f_low.replace(huge, 0.0), one.replace(huge, 0.0),
            x.filled(0.0).replace(huge, 31.0),
        ],
    )
    k, power = _number_and_power(x, (one + f).bits() - _SQRT_HALF_BITS[x.is_double])
    n, n_low = fast_two_sum(one - power, f)
    d, d_low = fast_two_sum(one + power, f)
    return _half_log(k + more, n, n_low + f_low, d, d_low + f_low) * 2.0


def _between(size: Batch, low: float, high: float) -> Batch:
    """Return where low <= size < high."""
    return size.compare("oge", low) & size.compare("olt", high)


def _from_one_on(x: Batch, result: Batch) -> Batch:
    """Return the result where 1 <= x < infinity, NaN below, x beyond."""
    return result.where(x.compare("olt", _INFINITY), x).replace(x.compare("olt", 1.0), _NAN)


def _below_one(x: Batch, size: Batch, result: Batch, tiny: float) -> Batch:
    """Return the result with the sign of x where tiny <= |x| < 1, x below, infinity at 1, NaN beyond."""
    result = result.replace(size.compare("oeq", 1.0), _INFINITY).replace(size.compare("ogt", 1.0), _NAN)
    return result.copysign(x).where(size.compare("oge", tiny), x)


OPERATORS: Final = {
    "asinh": (asinh_32, asinh_64), "acosh": (acosh_32, acosh_64), "atanh": (atanh_32, atanh_64),
}
"""What this file computes: (for float32, for float64) by operator."""
