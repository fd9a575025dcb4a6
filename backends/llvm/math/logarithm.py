"""log, log2, log10, log1p for float32 and float64, and the double-double logarithm behind power.

Owns: the decomposition x = 2**k m with sqrt(1/2) <= m < sqrt(2); for float32 a polynomial in m - 1, for
float64 the series of 2 atanh(s), s = (m - 1)/(m + 1) (as in Tang, 1990, without tables), s in double-double.
Does not own: exponentials.
"""
from __future__ import annotations

import struct
from typing import Final

from jitfuse.backends.llvm.math import coefficients as c
from jitfuse.backends.llvm.math import single
from jitfuse.backends.llvm.math.double_double import fast_two_sum, less_product, times, two_product, two_sum
from jitfuse.backends.llvm.math.exponential import LN2, LN2_HEAD, LN2_TAIL
from jitfuse.backends.llvm.math.lockstep import Batch

_INFINITY, _NAN = float("inf"), float("nan")
_MANTISSA = (1 << 52) - 1
_SQRT_HALF_BITS: int = struct.unpack("<q", struct.pack("<d", 0.5**0.5))[0]
_KEEP_POSITIVE = 2048 << 52
_EXPONENT_CARRIER = 4503599627370496.0  # 2**52: or-ing an integer below into its bits adds it
_CARRIER_BITS: int = struct.unpack("<q", struct.pack("<d", _EXPONENT_CARRIER))[0]
INV_LN2, INV_LN2_LOW = 1.4426950408889634, 2.0355273740931033e-17
_INV_LN10, _INV_LN10_LOW = 0.4342944819032518, 1.098319650216765e-17
# log10(2) in two parts of which the first, of 42 bits, times any exponent is exact
_LOG10_2_HEAD, _LOG10_2_TAIL = 0.30102999566383914, 1.42050232272661e-13
_TWO_THIRDS, _TWO_THIRDS_LOW = 0.6666666666666666, 3.700743415417188e-17


def decompose(x: Batch) -> tuple[Batch, Batch]:
    """Return (k, m) as float64 with x = 2**k * m, m in [sqrt(1/2), sqrt(2)), for positive normal x."""
    above = x.bits() - (_SQRT_HALF_BITS - _KEEP_POSITIVE)
    carried = ((above >> 52) | _CARRIER_BITS).from_bits()
    m = ((above & _MANTISSA) + _SQRT_HALF_BITS).from_bits()
    return carried - (_EXPONENT_CARRIER + 2048), m


def finish(x: Batch, result: Batch, zero: float = 0.0) -> Batch:
    """Put in the values at infinity, at `zero` (minus infinity), below it (NaN), and NaN."""
    result = x.where(x.compare("oeq", _INFINITY), result)
    result = result.replace(x.compare("oeq", zero), -_INFINITY)
    return result.replace(x.compare("ult", zero), _NAN)


def log_32(x: Batch) -> Batch:
    """Return the natural logarithm of float32 batches; denormals are normal once widened."""
    if x.context.has_fma:
        return finish(x, single.log(x))
    k, m = decompose(x.widened())
    f = m - 1.0
    return finish(x, k.fma(LN2, f * f.polynomial(c.LOG1P_32)).narrowed())


def log2_32(x: Batch) -> Batch:
    """Return the base-2 logarithm of float32 batches."""
    k, m = decompose(x.widened())
    f = m - 1.0
    return finish(x, f.fma(f.polynomial(c.LOG2_1P_32), k).narrowed())


def log10_32(x: Batch) -> Batch:
    """Return the decimal logarithm of float32 batches."""
    k, m = decompose(x.widened())
    f = m - 1.0
    return finish(x, (k.fma(LN2, f * f.polynomial(c.LOG1P_32)) * _INV_LN10).narrowed())


def log2_for_power_32(x: Batch) -> Batch:
    """Return the base-2 logarithm of positive float64 batches to 4e-13, for power of float32."""
    k, m = decompose(x)
    f = m - 1.0
    return f.fma(f.polynomial(c.LOG2_1P_POWER_32), k)


def narrow_log1p(wide: Batch) -> Batch:
    """Return log(1 + x) of float64 x to float32's needs; where k = 0 the fraction is x itself, not 1 + x - 1."""
    k, m = decompose(wide + 1.0)
    f = wide.where(k.compare("oeq", 0.0), m - 1.0)
    return k.fma(LN2, f * f.polynomial(c.LOG1P_32))


def log1p_32(x: Batch) -> Batch:
    """Return log(1 + x) of float32 batches."""
    if x.context.has_fma:
        return finish(x, single.log1p(x).copysign(x), -1.0)
    return finish(x, narrow_log1p(x.widened()).narrowed().copysign(x), -1.0)


def decompose_64(x: Batch) -> tuple[Batch, Batch]:
    """Return `decompose` of any positive float64 batch, denormals too."""
    denormal = x.compare("olt", 2.0**-1022)
    k, m = decompose((x * 2.0**54).where(denormal, x))
    return (k - 54.0).where(denormal, k), m


def atanh_argument(f: Batch, f_low: Batch | None) -> tuple[Batch, Batch]:
    """Return s + s_low = (f + f_low) / (2 + f + f_low) in double-double.

    The remainder of the division is divided by 2 + f once more, as a product with (1 - s)/2.
    """
    d, d_low = fast_two_sum(2.0, f)
    s = f / d
    remainder = less_product(f, s, d)
    if f_low is not None:
        d_low = d_low + f_low
        remainder = remainder + f_low
    remainder = s.fma(-d_low, remainder)
    return s, remainder * s.fma(-0.5, 0.5)


def log_fraction(f: Batch, f_low: Batch | None) -> tuple[Batch, Batch]:
    """Return (hi, lo) of log(1 + f + f_low), relative error about 2**-60, not normalized."""
    return atanh_sum(*atanh_argument(f, f_low))


def atanh_sum(s: Batch, s_low: Batch) -> tuple[Batch, Batch]:
    """Return (hi, lo) of 2 atanh(s + s_low) for |s| <= 0.172, not normalized."""
    t = s * s
    return s * 2.0, (s * t).fma(t.polynomial(c.LOG_64), s_low * 2.0)


def add_exponent(k: Batch, log_m: tuple[Batch, Batch]) -> tuple[Batch, Batch]:
    """Return (hi, lo) of k ln 2 + log(m)."""
    hi, lo = fast_two_sum(k * LN2_HEAD, log_m[0])
    return hi, k.fma(LN2_TAIL, lo + log_m[1])


def log_power_64(x: Batch) -> tuple[Batch, Batch]:
    """Return (hi, lo) of the logarithm of positive float64 batches, relative error about 2**-65."""
    k, m = decompose_64(x)
    s, s_low = atanh_argument(m - 1.0, None)
    t, t_low = two_product(s, s)
    t_low = (s * 2.0).fma(s_low, t_low)
    a, a_low = fast_two_sum(_TWO_THIRDS, t * t.polynomial(c.LOG_POWER_64))
    a_low = a_low + _TWO_THIRDS_LOW
    cube, cube_low = two_product(s, t)
    cube_low = s.fma(t_low, s_low.fma(t, cube_low))
    p, p_low = two_product(cube, a)
    p_low = cube.fma(a_low, cube_low.fma(a, p_low))
    hi, lo = fast_two_sum(s * 2.0, p)
    lo = lo + (s_low * 2.0 + p_low)
    hi, e = fast_two_sum(k * LN2_HEAD, hi)
    return fast_two_sum(hi, k.fma(LN2_TAIL, lo + e))


def log_64(x: Batch) -> Batch:
    """Return the natural logarithm of float64 batches."""
    k, m = decompose_64(x)
    hi, lo = add_exponent(k, log_fraction(m - 1.0, None))
    return finish(x, hi + lo)


def log2_64(x: Batch) -> Batch:
    """Return the base-2 logarithm of float64 batches; exact at powers of two."""
    k, m = decompose_64(x)
    hi, lo = fast_two_sum(*log_fraction(m - 1.0, None))
    p, e = times(hi, INV_LN2, INV_LN2_LOW)
    e = lo.fma(INV_LN2, e)
    hi, lo = fast_two_sum(k, p)
    return finish(x, hi + (lo + e))


def log10_64(x: Batch) -> Batch:
    """Return the decimal logarithm of float64 batches; exact at powers of ten."""
    k, m = decompose_64(x)
    hi, lo = fast_two_sum(*log_fraction(m - 1.0, None))
    p, e = times(hi, _INV_LN10, _INV_LN10_LOW)
    e = lo.fma(_INV_LN10, e)
    hi, lo = fast_two_sum(k * _LOG10_2_HEAD, p)
    return finish(x, hi + (k.fma(_LOG10_2_TAIL, lo) + e))


def log1p_64(x: Batch) -> Batch:
    """Return log(1 + x) of float64 batches; the rounding error of 1 + x is a second word."""
    u, u_low = two_sum(x.filled(1.0), x)
    k, m = decompose(u)
    near = k.compare("oeq", 0.0)
    f = x.where(near, m - 1.0)
    # 2**(1 - k), the scale of the second word: biased exponent 0, hence 0.0, where k = 1024
    scale = ((m.bits() - u.bits()) + (1024 << 52)).from_bits()
    f_low = ((u_low * 0.5) * scale).replace(near, 0.0)
    hi, lo = add_exponent(k, log_fraction(f, f_low))
    result = (hi + lo).copysign(x)
    return x.where(abs(x).compare("olt", 2.0**-54), finish(x, result, -1.0))


OPERATORS: Final = {
    "log": (log_32, log_64), "log2": (log2_32, log2_64), "log1p": (log1p_32, log1p_64), "log10": (log10_32, log10_64),
}
"""What this file computes: (for float32, for float64) by operator."""
