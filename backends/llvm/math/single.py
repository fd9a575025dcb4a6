"""float32 functions computed in float32 alone, for targets with fused multiply-add: twice the lanes of float64.

Owns: reductions whose parts are exact, and results as a float32 plus a small correction, so that the last
operation rounds nearly the exact value. Does not own: the choice between these and the float64 ones.
"""
from __future__ import annotations

import struct
from collections.abc import Sequence

from jitfuse.backends.llvm.math import coefficients as c
from jitfuse.backends.llvm.math.double_double import fast_two_sum, two_product, two_sum
from jitfuse.backends.llvm.math.lockstep import Batch

_LOG2_E = 1.4426950216293335
# ln 2 in two float32; x less a multiple of the first, fused, is exact where the remainder is below 1/2
_LN2, _LN2_LOW = 0.6931471824645996, -1.9046542121259336e-09
# of 15 bits and the rest: the product of the first with an exponent is exact
_LN2_SHORT, _LN2_REST = 0.693145751953125, 1.428606765330187e-06
_SQRT_HALF_BITS: int = struct.unpack("<i", struct.pack("<f", 0.5**0.5))[0]
_MANTISSA = (1 << 23) - 1
# Adding it rounds a float32 below 2**21 to an integer k; the low bits of the sum are k + 254, twice the bias of
# exponents
_ROUNDER = 12582912.0 + 254.0
_POWER_BITS = -127 << 23
"""The number to add to the bits of k + `_ROUNDER`, shifted to the exponent's bits, for 2**k."""


def exp(x: Batch) -> Batch:
    """Return exp of float32 batches, within 0.89 ulp."""
    biased, head, tail = _exp_parts(x.at_most(89.0).at_least(-104.0), c.EXP_SINGLE)
    return _scaled(head + tail, biased)


def exp2(x: Batch) -> Batch:
    """Return 2**x of float32 batches, within 0.87 ulp."""
    bounded = x.at_most(129.0).at_least(-151.0)
    biased = bounded + _ROUNDER
    return _scaled(_exp2m1(bounded - (biased - _ROUNDER)), biased)


def erf(x: Batch) -> Batch:
    """Return the error function of float32 batches, within 0.84 ulp.

    Below 0.9 it is x + x P(x*x), above 1 - 2**-(2 x + x Q(x)), which is 1 - 2**k (1 + p) with 1 - 2**k exact.
    """
    size = abs(x).at_most(3.93)
    t = size * size
    small = size.fma(t.horner(c.ERF_SINGLE), size)
    tail = size.horner(c.ERFC_SINGLE)
    twice = size + size
    biased = _ROUNDER - size.fma(tail, twice)
    r = (-size).fma(tail, (_ROUNDER - biased) - twice)
    power = ((biased.bits() << 23) + _POWER_BITS).from_bits()
    large = (-power).fma(_exp2m1(r), 1.0 - power)
    return small.where(size.compare("olt", 0.9), large).copysign(x)


def _exp2m1(r: Batch) -> Batch:
    """Return 2**r - 1 for |r| <= 1/2."""
    return r.fma(_LN2, r * r.fma(r.horner(c.EXP2_SINGLE), _LN2_LOW))


def expm1(x: Batch) -> Batch:
    """Return exp(x) - 1 of float32 batches, within 0.87 ulp, also near 0.

    Half of it is computed so that 2**128 fits.
    """
    biased, head, tail = _exp_parts(x.at_most(89.0).at_least(-18.0), c.EXPM1_SINGLE)
    half = ((biased.bits() << 23) + (_POWER_BITS - (1 << 23))).from_bits()
    less, lost = fast_two_sum(half, half.filled(-0.5))
    hi = half.fma(head, less)
    low = half.fma(head, less - hi)
    result = (hi + half.fma(tail, low + lost)) * 2.0
    return x.where(abs(x).compare("olt", 2.0**-30), result)


def _exp_parts(x: Batch, coefficients: Sequence[float]) -> tuple[Batch, Batch, Batch]:
    """Return (k + `_ROUNDER`, head, tail) with x = k ln 2 + r, exp(r) = 1 + head + tail, |r| <= ln(2)/2."""
    biased = x.fma(_LOG2_E, _ROUNDER)
    k = biased - _ROUNDER
    head, low = k.fma(-_LN2, x), k * -_LN2_LOW
    r = head + low
    return biased, head, (r * r).fma(r.horner(coefficients), low)


def _scaled(p: Batch, biased: Batch) -> Batch:
    """Return (1 + p) * 2**k for k + `_ROUNDER`, -254 < k < 256: also to denormals and infinity.

    The power is a product of two, of which only multiplying by the second can round to a denormal.
    """
    bits = biased.bits()
    half = (bits >> 1) << 23
    first, second = half.from_bits(), ((bits << 23) - half).from_bits()
    return first.fma(p, first) * second


def cbrt(x: Batch) -> Batch:
    """Return the cube root of positive finite float32 batches, as `roots.cbrt_64` does with one iteration less."""
    tiny = x.compare("olt", 2.0**-60)
    scaled = x * x.filled(0.125).replace(tiny, 2.0**90)
    y = scaled.bits().cast("sitofp", "float").fma(-1 / 3, float(0x54A1F400)).cast("fptosi", "i32").from_bits()
    h = 1.0 - (scaled * y) * (y * y)
    y = (y * h).fma(h.horner((1 / 3, 2 / 9, 14 / 81)), y)
    square = y * y
    root = scaled * square
    power, power_low = two_product(root, root)
    remainder = (-power_low).fma(root, (-power).fma(root, scaled))
    return remainder.fma(square * (1 / 3), root) * x.filled(2.0).replace(tiny, 2.0**-30)


def log(x: Batch) -> Batch:
    """Return the natural logarithm of positive finite float32 batches, within 0.85 ulp."""
    k, m = _decompose(x)
    return _log_sum(k, m - 1.0, None)


def log1p(x: Batch) -> Batch:
    """Return log(1 + x) of finite float32 batches above -1, within 0.93 ulp.

    The rounding error of 1 + x is a second word.
    """
    u, u_low = two_sum(x.filled(1.0), x)
    k, m = _decompose_normal(u)
    near = k.compare("oeq", 0.0)
    # 2**(1 - k), the scale of the second word
    scale = ((m.bits() - u.bits()) + (128 << 23)).from_bits()
    f_low = ((u_low * 0.5) * scale).replace(near, 0.0)
    f, f_low = fast_two_sum(x.where(near, m - 1.0), f_low)
    return _log_sum(k, f, f_low)


def _decompose(x: Batch) -> tuple[Batch, Batch]:
    """Return (k, m) with x = 2**k * m, m in [sqrt(1/2), sqrt(2)), for positive x."""
    denormal = x.compare("olt", 2.0**-126)
    k, m = _decompose_normal((x * 2.0**23).where(denormal, x))
    return (k - 23.0).where(denormal, k), m


def _decompose_normal(x: Batch) -> tuple[Batch, Batch]:
    """Return `_decompose` of positive normal numbers."""
    above = x.bits() - _SQRT_HALF_BITS
    exponent = above.shifted_signed(23).cast("sitofp", "float")
    return exponent, ((above & _MANTISSA) + _SQRT_HALF_BITS).from_bits()


def _log_sum(k: Batch, f: Batch, f_low: Batch | None) -> Batch:
    """Return k ln 2 + log(1 + f + f_low): the sum of k ln 2, to 15 bits, and f is exact in two words."""
    high = k.fma(_LN2_SHORT, f)
    low = f - k.fma(-_LN2_SHORT, high)
    if f_low is not None:
        low = low + f_low
    return high + (f * f).fma(f.horner(c.LOG1P_SINGLE), k.fma(_LN2_REST, low))
