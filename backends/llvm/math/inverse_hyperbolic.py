"""asinh, acosh and atanh for float32 and float64: logarithms of sums that keep what cancels.

Owns: log(1 + (|x| + sqrt(x*x + 1) - 1)), log(1 + (x - 1 + sqrt(x*x - 1))), and the series of atanh around the
power of two nearest to (1 + x)/(1 - x). Does not own: the logarithm, see `logarithm`.
"""
from __future__ import annotations

from jitfuse.backends.llvm.math import coefficients as c
from jitfuse.backends.llvm.math.double_double import fast_two_sum, less_product, two_product, two_sum
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.math.logarithm import log1p_of_sum, narrow_log1p
from jitfuse.backends.llvm.math.roots import sqrt_parts

_INFINITY, _NAN = float("inf"), float("nan")
_HUGE = 2.0**54
"""From here on x*x + 1 and x*x - 1 are x*x, and 1 + 2 x is 2 x."""
_HALF_LN2 = 0.34657359027997264
# ln(2)/2 in two parts of which the first, of 42 bits, times an exponent is exact
_HALF_LN2_HEAD, _HALF_LN2_TAIL = 0.34657359027994517, 2.7489615093541856e-14
_CARRIER = 4503599627370496.0  # 2**52: or-ing an integer below into its bits adds it
_CARRIER_BITS = 1075 << 52
_ONE_BITS = 1023 << 52


def asinh_32(x: Batch) -> Batch:
    """Return the inverse hyperbolic sine of float32 batches."""
    size = abs(x).widened()
    f = size + (size.fma(size, 1.0).sqrt() - 1.0)
    result = narrow_log1p(f).narrowed().copysign(x)
    return result.where(_between(abs(x), 2.0**-13, _INFINITY), x)


def acosh_32(x: Batch) -> Batch:
    """Return the inverse hyperbolic cosine of float32 batches."""
    wide = x.widened()
    less = wide - 1.0
    result = narrow_log1p(less + (less * (wide + 1.0)).sqrt()).narrowed()
    return _from_one_on(x, result)


def atanh_32(x: Batch) -> Batch:
    """Return the inverse hyperbolic tangent of float32 batches."""
    size = abs(x).widened()
    a, b = 1.0 + size, 1.0 - size
    k, power = _nearest_power(a, b)
    s = (-power).fma(b, a) / power.fma(b, a)
    result = k.fma(_HALF_LN2, s * (s * s).polynomial(c.ATANH_32)).narrowed()
    return _below_one(x, abs(x), result, 2.0**-13)


def asinh_64(x: Batch) -> Batch:
    """Return the inverse hyperbolic sine of float64 batches."""
    size = abs(x)
    bounded = size.at_most(_HUGE)
    t, t_low = two_product(bounded, bounded)
    h, h_low = two_sum(t.filled(1.0), t)
    s, s_low = sqrt_parts(h, h_low + t_low)
    f, f_low = fast_two_sum(bounded, s - 1.0)
    result = _log1p_or_log2x(size, f, f_low + s_low)
    return result.copysign(x).where(_between(size, 2.0**-28, _INFINITY), x)


def acosh_64(x: Batch) -> Batch:
    """Return the inverse hyperbolic cosine of float64 batches."""
    bounded = x.at_most(_HUGE)
    t, t_low = two_product(bounded, bounded)
    h, h_low = fast_two_sum(t, t.filled(-1.0))
    h, h_low = fast_two_sum(h, h_low + t_low)
    s, s_low = sqrt_parts(h, h_low)
    f, f_low = fast_two_sum(s, bounded - 1.0)
    return _from_one_on(x, _log1p_or_log2x(x, f, f_low + s_low))


def atanh_64(x: Batch) -> Batch:
    """Return the inverse hyperbolic tangent of float64 batches.

    (1 + x)/(1 - x) is 2**k (1 + s)/(1 - s), s the quotient of (1 + x) -+ 2**k (1 - x).
    """
    size = abs(x)
    a, a_low = fast_two_sum(1.0, size)
    b, b_low = fast_two_sum(1.0, -size)
    k, power = _nearest_power(a, b)
    b, b_low = b * power, b_low * power
    d, d_low = fast_two_sum(a, b)
    d_low = d_low + (a_low + b_low)
    inverse = 1.0 / d
    n, n_low = a - b, a_low - b_low
    s = n * inverse
    remainder = less_product(n, s, d) + s.fma(-d_low, n_low)
    t = s * s
    hi, lo = fast_two_sum(k * _HALF_LN2_HEAD, s)
    low = (s * t).fma(t.polynomial(c.ATANH_64), remainder * inverse)
    return _below_one(x, size, hi + k.fma(_HALF_LN2_TAIL, lo + low), 2.0**-28)


def _nearest_power(a: Batch, b: Batch) -> tuple[Batch, Batch]:
    """Return (k, 2**k), nearest to a/b for 1 <= a < 2, 0 < b <= 1, with a/b between 2**(k - 0.59) and 2**(k + 0.59).

    By the difference of the bit patterns, which is the logarithm but for 0.09.
    """
    k = ((a.bits() - b.bits()) + (1 << 51)) >> 52
    return (k | _CARRIER_BITS).from_bits() - _CARRIER, ((k << 52) + _ONE_BITS).from_bits()


def _log1p_or_log2x(x: Batch, f: Batch, f_low: Batch) -> Batch:
    """Return log(1 + f + f_low) or, for huge x, log(2 x)."""
    huge = x.compare("ogt", _HUGE)
    extra = x.filled(0.0).replace(huge, 1.0)
    return log1p_of_sum(x.where(huge, f), f_low.replace(huge, 0.0), extra)


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
