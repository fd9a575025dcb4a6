"""sinh, cosh and tanh for float32 and float64.

Owns: tanh as (exp(2x) - 1) / (exp(2x) + 1); sinh and cosh without a division, as 2**k exp(r) and 2**-k exp(-r), of
which the even and odd terms are evaluated once.
Does not own: the exponential and its reduction, see `exponential`.
"""
from __future__ import annotations

from typing import Final

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
from jitfuse.base.records import NamedTuple


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
    """Return (2 sinh(k ln 2), 2 cosh(k ln 2), sinh(r)/2, cosh(r)/2) with |x| = k ln 2 + r, in float64."""
    biased, r = narrow_reduce(abs(x).at_most(91.0).widened())
    grown, shrunk = power_of_two(biased), power_of_two(2 * ROUNDER - biased)
    t = r * r
    sinh, cosh = ([v / 2 for v in coefficients] for coefficients in (c.SINH_32, c.COSH_32))
    return grown - shrunk, grown + shrunk, r * t.polynomial(sinh), t.polynomial(cosh)


def sinh_64(x: Batch) -> Batch:
    """Return the hyperbolic sine of float64 batches."""
    parts = _parts(abs(x))
    return x.where(abs(x).compare("olt", 2.0**-28), _sum(parts, -parts.shrunk).copysign(x))


def cosh_64(x: Batch) -> Batch:
    """Return the hyperbolic cosine of float64 batches."""
    parts = _parts(abs(x))
    return _sum(parts, parts.shrunk)


class _ExponentialParts(NamedTuple):
    """For x = k ln 2 + r: 2**(k - 43) and 2**(-k - 43), r, and exp(r) - 1 - r and exp(-r) - 1 + r.

    So 2**1024 comes into reach only with the last multiplication.
    """

    grown: Batch
    shrunk: Batch
    r: Batch
    tail: Batch
    opposite_tail: Batch


def _sum(parts: _ExponentialParts, shrunk: Batch) -> Batch:
    """Return sinh or cosh, with shrunk negative or positive: the terms 1 and r are summed exactly."""
    a, a_low = fast_two_sum(parts.grown, parts.grown * parts.r)
    b, b_low = fast_two_sum(shrunk, -(shrunk * parts.r))
    hi, lo = fast_two_sum(a, b)
    lo = parts.grown.fma(parts.tail, (lo + a_low) + b_low)
    return (hi + shrunk.fma(parts.opposite_tail, lo)) * 2.0**42


def _parts(size: Batch) -> _ExponentialParts:
    """Return the parts of float64 x >= 0."""
    biased, r, r_low = reduce_64(size.at_most(711.0))
    grown = power_of_two(biased - 43.0)
    shrunk = power_of_two(2 * ROUNDER - (biased.at_most(ROUNDER + 100.0) + 43.0))
    t, t_low = two_product(r, r)
    odd = (r * t).fma(t.polynomial(c.SINH_64), r_low)
    even = t.fma(0.5, (t * t).fma(t.polynomial(c.COSH_64), r.fma(r_low, t_low * 0.5)))
    return _ExponentialParts(grown, shrunk, r, even + odd, even - odd)


OPERATORS: Final = {
    "sinh": (sinh_32, sinh_64), "cosh": (cosh_32, cosh_64), "tanh": (tanh_32, tanh_64),
}
"""What this file computes: (for float32, for float64) by operator."""
