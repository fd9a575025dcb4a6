"""sinh, cosh and tanh for float32 and float64.

Owns: tanh as (exp(2x) - 1) / (exp(2x) + 1); sinh and cosh without a division, by the addition theorem of
x = k ln 2 + r from sinh(r) and cosh(r), with sinh(k ln 2) and cosh(k ln 2) sums of two powers of two.
Does not own: the exponential and its reduction, see `exponential`.
"""
from __future__ import annotations

from jitfuse.backends.llvm.math import coefficients as c
from jitfuse.backends.llvm.math.double_double import fast_two_sum, less_product, two_product, two_sum
from jitfuse.backends.llvm.math.exponential import (
    ROUNDER,
    expm1_parts,
    narrow_exp_parts,
    narrow_reduce,
    power_of_two,
    reduce_64,
)
from jitfuse.backends.llvm.math.lockstep import Batch


def tanh_32(x: Batch) -> Batch:
    """Return the hyperbolic tangent of float32 batches."""
    twice = x.at_most(10.0).at_least(-10.0).widened() * 2.0
    scale, p = narrow_exp_parts(twice)
    numerator = scale.fma(p, scale - 1.0)
    return (numerator / (numerator + 2.0)).narrowed().copysign(x)


def tanh_64(x: Batch) -> Batch:
    """Return the hyperbolic tangent of float64 batches.

    With h = (exp(2|x|) - 1)/2 it is h/(1 + h); the quotient is corrected by its own remainder.
    """
    size = abs(x)
    hi, lo = expm1_parts((size * 2.0).at_most(44.0))
    hi, lo = fast_two_sum(hi, lo)
    d, d_low = two_sum(hi.filled(1.0), hi)
    inverse = 1.0 / d
    q = hi * inverse
    remainder = q.fma(-(d_low + lo), less_product(hi, q, d) + lo)
    result = (remainder.fma(inverse, q)).copysign(x)
    return x.where(size.compare("olt", 2.0**-28), result)


def sinh_32(x: Batch) -> Batch:
    """Return the hyperbolic sine of float32 batches."""
    sinh_k, cosh_k, sinh_r, cosh_r = _narrow_parts(x)
    return sinh_k.fma(cosh_r, cosh_k * sinh_r).narrowed().copysign(x)


def cosh_32(x: Batch) -> Batch:
    """Return the hyperbolic cosine of float32 batches."""
    sinh_k, cosh_k, sinh_r, cosh_r = _narrow_parts(x)
    return cosh_k.fma(cosh_r, sinh_k * sinh_r).narrowed()


def _narrow_parts(x: Batch) -> tuple[Batch, Batch, Batch, Batch]:
    """Return (sinh(k ln 2), cosh(k ln 2), sinh(r), cosh(r)) with |x| = k ln 2 + r, in float64."""
    biased, r = narrow_reduce(abs(x).at_most(91.0).widened())
    grown, shrunk = power_of_two(biased) * 0.5, power_of_two(2 * ROUNDER - biased) * 0.5
    t = r * r
    return grown - shrunk, grown + shrunk, r * t.polynomial(c.SINH_32), t.polynomial(c.COSH_32)


def sinh_64(x: Batch) -> Batch:
    """Return the hyperbolic sine of float64 batches.

    sinh(k ln 2) + cosh(k ln 2) r is summed exactly: where it cancels, it is at least 0.35.
    """
    parts = _Parts(abs(x))
    sinh_k, sinh_low = fast_two_sum(parts.grown, -parts.shrunk)
    cosh_k = parts.grown + parts.shrunk
    p, e = two_product(cosh_k, parts.r)
    hi, lo = two_sum(sinh_k, p)
    lo = cosh_k.fma(parts.sinh_tail, (lo + e) + sinh_low)
    result = (hi + sinh_k.fma(parts.cosh_tail, lo)) * 2.0**42
    return x.where(abs(x).compare("olt", 2.0**-28), result.copysign(x))


def cosh_64(x: Batch) -> Batch:
    """Return the hyperbolic cosine of float64 batches."""
    parts = _Parts(abs(x))
    cosh_k, cosh_low = fast_two_sum(parts.grown, parts.shrunk)
    sinh_k = parts.grown - parts.shrunk
    p, e = two_product(sinh_k, parts.r)
    hi, lo = fast_two_sum(cosh_k, p)
    lo = sinh_k.fma(parts.sinh_tail, (lo + e) + cosh_low)
    return (hi + cosh_k.fma(parts.cosh_tail, lo)) * 2.0**42


class _Parts:
    """For x = k ln 2 + r: half powers of two with exponents k and -k, and what sinh(r), cosh(r) are beyond r and 1.

    The powers are 2**(k - 43) and 2**-(k + 43): 2**1024 comes into reach only with the last multiplication.
    """

    def __init__(self, size: Batch) -> None:
        biased, self.r, r_low = reduce_64(size.at_most(711.0))
        self.grown = power_of_two(biased - 43.0)
        self.shrunk = power_of_two(2 * ROUNDER - (biased.at_most(ROUNDER + 100.0) + 43.0))
        t, t_low = two_product(self.r, self.r)
        self.sinh_tail = (self.r * t).fma(t.polynomial(c.SINH_64), r_low)
        square = (t * t).fma(t.polynomial(c.COSH_64), self.r.fma(r_low, t_low * 0.5))
        self.cosh_tail = t.fma(0.5, square)
