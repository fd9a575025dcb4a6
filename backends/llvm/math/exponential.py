"""exp, exp2, expm1 for float32 and float64.

Owns: the reduction x = k ln 2 + r, the polynomials in r (Tang, 1989, without tables; Muller, Handbook of
Floating-Point Arithmetic, chapter 10), scaling by 2**k into the denormal range and to infinity.
Does not own: tanh, erf and power, which call `reduced_exp` and `scaled`.
"""
from __future__ import annotations

from typing import Final

from jitfuse.backends.llvm.math import coefficients as c
from jitfuse.backends.llvm.math import single
from jitfuse.backends.llvm.math.double_double import fast_two_sum, times, two_product, two_sum
from jitfuse.backends.llvm.math.lockstep import Batch

# Adding it rounds a float64 below 2**51 to an integer, which is then in the low bits of the sum.
ROUNDER = 6755399441055744.0  # 1.5 * 2**52
_BIAS = 1023 << 52
_LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
LN2_LOW = 2.3190468138462996e-17
# ln 2 in two parts of which the first, of 42 bits, times any exponent is exact (Cody and Waite, 1980)
LN2_HEAD, LN2_TAIL = 0.6931471805598903, 5.497923018708371e-14


def narrow_exp_parts(x: Batch) -> tuple[Batch, Batch]:
    """Return (2**k, (exp(r) - 1)) of float64 x = k ln 2 + r below 700 in magnitude, to float32's needs."""
    biased, r = narrow_reduce(x)
    return power_of_two(biased), r * r.polynomial(c.EXPM1_32)


def narrow_reduce(x: Batch) -> tuple[Batch, Batch]:
    """Return (k + `ROUNDER`, r) of float64 x = k ln 2 + r, to float32's needs."""
    biased = x.fma(_LOG2_E, ROUNDER)
    return biased, (biased - ROUNDER).fma(-LN2, x)


def power_of_two(biased: Batch) -> Batch:
    """Return 2**k for k + `ROUNDER`, -1023 < k < 1024."""
    return ((biased.bits() << 52) + _BIAS).from_bits()


def exp_32(x: Batch) -> Batch:
    """Return exp of float32 batches; a float64 result rounds once, also to denormals and infinity."""
    if x.context.has_fma:
        return single.exp(x)
    wide = x.at_most(90.0).at_least(-105.0).widened()
    scale, p = narrow_exp_parts(wide)
    return scale.fma(p, scale).narrowed()


def exp2_32(x: Batch) -> Batch:
    """Return 2**x of float32 batches."""
    if x.context.has_fma:
        return single.exp2(x)
    wide = x.at_most(130.0).at_least(-152.0).widened()
    biased = wide + ROUNDER
    r = wide - (biased - ROUNDER)
    scale = power_of_two(biased)
    return scale.fma(r * r.polynomial(c.EXP2M1_32), scale).narrowed()


def expm1_32(x: Batch) -> Batch:
    """Return exp(x) - 1 of float32 batches, also near 0."""
    if x.context.has_fma:
        return single.expm1(x)
    wide = x.at_most(90.0).at_least(-105.0).widened()
    scale, p = narrow_exp_parts(wide)
    return scale.fma(p, scale - 1.0).narrowed().copysign(x)


def reduce_64(x: Batch, x_low: Batch | None = None) -> tuple[Batch, Batch, Batch]:
    """Return (k + `ROUNDER`, r, r_low) with x + x_low = k ln 2 + r + r_low, |x| below 2000."""
    biased = x.fma(_LOG2_E, ROUNDER)
    k = biased - ROUNDER
    exact = k.fma(-LN2_HEAD, x)
    tail = k * -LN2_TAIL
    if x_low is not None:
        tail = tail + x_low
    r = exact + tail
    return biased, r, tail - (r - exact)


def expm1_tail(r: Batch, r_low: Batch) -> Batch:
    """Return exp(r + r_low) - 1 - r for |r| <= ln(2)/2."""
    return (r * r).fma(r.polynomial(c.EXP_64), r_low)


def exp_reduced(r: Batch, r_low: Batch) -> Batch:
    """Return exp(r + r_low) for |r| <= ln(2)/2, within 0.52 ulp."""
    head, low = fast_two_sum(1.0, r)
    return head + (low + expm1_tail(r, r_low))


def exp_parts(x: Batch, x_low: Batch | None) -> tuple[Batch, Batch, Batch]:
    """Return (k + `ROUNDER`, hi, lo) with exp(x + x_low) = (hi + lo) 2**k, |x| below 2000."""
    biased, r, r_low = reduce_64(x, x_low)
    head, low = fast_two_sum(1.0, r)
    return biased, *fast_two_sum(head, low + expm1_tail(r, r_low))


def scaled(p: Batch, biased: Batch) -> Batch:
    """Return p * 2**k for p in [1/2, 2) and k + `ROUNDER`, -1080 < k <= 1024, rounding denormals.

    The part of k below -969 is multiplied in last, where the result may be denormal.
    """
    normal = biased.at_least(ROUNDER - 969.0)
    rest = biased - normal  # 0 or negative, exact
    return (p.bits() + (normal.bits() << 52)).from_bits() * power_of_two(rest + ROUNDER)


def exp_64(x: Batch) -> Batch:
    """Return exp of float64 batches."""
    return exp_of_sum(x, None)


def exp_of_sum(x: Batch, x_low: Batch | None) -> Batch:
    """Return exp(x + x_low) for any x; x_low is small, and finite where x is."""
    biased, r, r_low = reduce_64(x.at_most(710.0).at_least(-746.0), x_low)
    return _finish(x, scaled(exp_reduced(r, r_low), biased))


def _finish(x: Batch, result: Batch) -> Batch:
    """Put in infinity where the exponent overflowed into the pattern of NaN, and NaN where x is."""
    return x.where(x.is_nan(), result.replace(result.is_nan(), float("inf")))


def exp2_64(x: Batch) -> Batch:
    """Return 2**x of float64 batches."""
    bounded = x.at_most(1024.25).at_least(-1080.0)
    biased = bounded + ROUNDER
    fraction = bounded - (biased - ROUNDER)
    p, e = times(fraction, LN2, LN2_LOW)
    return _finish(x, scaled(exp_reduced(p, e), biased))


def expm1_parts(x: Batch) -> tuple[Batch, Batch]:
    """Return (hi, lo), half of exp(x) - 1 as an unevaluated sum, for -700 < x < 710.

    The terms -1/2, r/2 and r*r/4, scaled, are summed exactly; only the cubic term is rounded.
    """
    biased, r, r_low = reduce_64(x)
    half = power_of_two(biased - 1.0)
    t, t_low = two_product(r, r)
    tail = (t * r).fma(r.polynomial(c.EXP_64[1:]), t_low.fma(0.5, r_low))
    head, lost = fast_two_sum(half, half.filled(-0.5))
    hi, lo = two_sum(head, half * r)
    hi, lower = fast_two_sum(hi, half * (t * 0.5))
    return hi, half.fma(tail, (lo + lower) + lost)


def expm1_64(x: Batch) -> Batch:
    """Return exp(x) - 1 of float64 batches, also near 0; half of it is computed so that 2**1024 fits."""
    hi, lo = expm1_parts(x.at_most(710.0).at_least(-40.0))
    return x.where(abs(x).compare("olt", 2.0**-54), (hi + lo) * 2.0)


OPERATORS: Final = {
    "exp": (exp_32, exp_64), "exp2": (exp2_32, exp2_64), "expm1": (expm1_32, expm1_64),
}
"""What this file computes: (for float32, for float64) by operator."""
