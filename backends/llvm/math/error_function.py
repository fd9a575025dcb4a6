"""erf for float32 and float64.

Owns: for float32 one polynomial over the whole range up to where erf rounds to 1; for float64 a polynomial
below 1 and 1 - exp(-x*x) R(x) above, as W. J. Cody (1969) splits it, with R fitted as a polynomial.
"""
from __future__ import annotations

from typing import Final

from jitfuse.backends.llvm.math import coefficients as c
from jitfuse.backends.llvm.math import single
from jitfuse.backends.llvm.math.double_double import fast_two_sum, times, two_product
from jitfuse.backends.llvm.math.exponential import exp_reduced, power_of_two, reduce_64
from jitfuse.backends.llvm.math.lockstep import Batch

_TWO_OVER_SQRT_PI, _TWO_OVER_SQRT_PI_LOW = 1.1283791670955126, 1.533545961316588e-17


def erf_32(x: Batch) -> Batch:
    """Return the error function of float32 batches."""
    if x.context.has_fma:
        return single.erf(x)
    wide = x.at_most(3.93).at_least(-3.93).widened()
    return (wide * (wide.fma(wide, -c.ERF_32_CENTER)).polynomial(c.ERF_32)).narrowed()


def erf_64(x: Batch) -> Batch:
    """Return the error function of float64 batches."""
    size = abs(x).at_most(5.95)
    t, t_low = two_product(size, size)
    head, low = near_zero(size, None, t, t_low)
    small = head + low
    biased, r, r_low = reduce_64(-t, -t_low)
    tail = (size - c.ERFC_64_CENTER).polynomial(c.ERFC_64)
    large = (-tail).fma(exp_reduced(r, r_low) * power_of_two(biased), 1.0)
    return small.where(size.compare("olt", 1.0), large).copysign(x)


def near_zero(x: Batch, x_low: Batch | None, t: Batch, t_low: Batch) -> tuple[Batch, Batch]:
    """Return (hi, lo) of erf(x + x_low) = x (2/sqrt(pi) + c t + t*t Q(t)) for |x| < 1, t + t_low the square.

    The first two terms are summed exactly, because their rounding errors would show in the result.
    """
    first, *rest = c.ERF_64
    linear, linear_low = times(t, first, 0.0)
    linear_low = t_low.fma(first, linear_low)
    p, p_low = fast_two_sum(_TWO_OVER_SQRT_PI, linear)
    p, low = fast_two_sum(p, t * (t * t.polynomial(rest)))
    p_low = (p_low + low) + (linear_low + _TWO_OVER_SQRT_PI_LOW)
    head, low = two_product(x, p)
    return head, x.fma(p_low, low if x_low is None else x_low.fma(p, low))


OPERATORS: Final = {
    "erf": (erf_32, erf_64),
}
"""What this file computes: (for float32, for float64) by operator."""
