"""float32 functions computed in float32 alone, for targets with fused multiply-add: twice the lanes of float64.

Owns: reductions whose parts are exact, and results as a float32 plus a small correction, so that the last
operation rounds nearly the exact value. Does not own: the choice between these and the float64 ones.
"""
from __future__ import annotations

from jitfuse.backends.llvm.math import coefficients as c
from jitfuse.backends.llvm.math.lockstep import Batch

_LOG2_E = 1.4426950216293335
# ln 2 in two float32; x less a multiple of the first, fused, is exact where the remainder is below 1/2
_LN2, _LN2_LOW = 0.6931471824645996, -1.9046542121259336e-09
# Adding it rounds a float32 below 2**21 to an integer k; the low bits of the sum are k + 254, in [0, 510) for
# exponents: the shift of half of it makes the bits of a power of two, that of the rest those of another.
_ROUNDER = 12582912.0 + 254.0


def exp(x: Batch) -> Batch:
    """Return exp of float32 batches, within 0.9 ulp."""
    biased, p = _exp_parts(x.at_most(89.0).at_least(-104.0))
    first, second = _halves_of_power(biased)
    return first.fma(p, first) * second


def _exp_parts(x: Batch) -> tuple[Batch, Batch]:
    """Return (k + `_ROUNDER`, exp(r) - 1) with x = k ln 2 + r, |r| <= ln(2)/2."""
    biased = x.fma(_LOG2_E, _ROUNDER)
    k = biased - _ROUNDER
    head, tail = k.fma(-_LN2, x), k * -_LN2_LOW
    r = head + tail
    return biased, head + (r * r).fma(r.polynomial(c.EXP_SINGLE), tail)


def _halves_of_power(biased: Batch) -> tuple[Batch, Batch]:
    """Return two normal numbers whose product is 2**k for k + `_ROUNDER`, -254 < k < 256.

    What is multiplied by them in turn rounds at the second alone, to a denormal or to infinity.
    """
    bits = biased.bits()
    first = (bits >> 1) << 23
    return first.from_bits(), ((bits << 23) - first).from_bits()
