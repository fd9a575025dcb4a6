"""tanh for float32 and float64: (exp(2x) - 1) / (exp(2x) + 1).

Does not own: the exponential, see `exponential`.
"""
from __future__ import annotations

from jitfuse.backends.llvm.math.double_double import fast_two_sum, two_product, two_sum
from jitfuse.backends.llvm.math.exponential import expm1_parts, narrow_exp_parts
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
    p, e = two_product(q, d)
    remainder = q.fma(-(d_low + lo), ((hi - p) - e) + lo)
    result = (remainder.fma(inverse, q)).copysign(x)
    return x.where(size.compare("olt", 2.0**-28), result)
