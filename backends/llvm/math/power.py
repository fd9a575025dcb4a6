"""power for float32 and float64: exp(y log x), and the special cases of C99 (annex F.9.4.4).

Does not own: the logarithm and the exponential, see `logarithm` and `exponential`.
"""
from __future__ import annotations

from typing import Final

from jitfuse.backends.llvm.math import coefficients as c
from jitfuse.backends.llvm.math.double_double import two_product
from jitfuse.backends.llvm.math.exponential import ROUNDER, exp_of_sum, power_of_two
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.math.logarithm import log2_for_power_32, log_power_64
from jitfuse.backends.llvm.math.rare_lanes import unless_rare
from jitfuse.backends.llvm.math.rounding import trunc

_INFINITY, _NAN = float("inf"), float("nan")


def power_32(x: Batch, y: Batch) -> Batch:
    """Return x**y of float32 batches."""
    bounded = y.at_most(2.0**40).at_least(-(2.0**40))  # beyond, only x = 1 has a finite non-zero result
    z = log2_for_power_32(abs(x).widened()) * bounded.widened()
    z = z.at_most(130.0).at_least(-152.0)
    biased = z + ROUNDER
    r = z - (biased - ROUNDER)
    scale = power_of_two(biased)
    return _finish(x, y, scale.fma(r * r.polynomial(c.EXP2M1_32), scale).narrowed())


def power_64(x: Batch, y: Batch) -> Batch:
    """Return x**y of float64 batches; the logarithm is double-double."""
    bounded = y.at_most(2.0**70).at_least(-(2.0**70))  # as above
    hi, lo = log_power_64(abs(x))
    z, e = two_product(hi, bounded)
    e = bounded.fma(lo, e).replace(abs(z).compare("ogt", 800.0), 0.0)
    return _finish(x, y, exp_of_sum(z, e))


def _finish(x: Batch, y: Batch, result: Batch) -> Batch:
    """Put in the sign and the special cases, given |x|**y for finite x other than 0; none for x > 0."""
    usual = x.compare("ogt", 0.0) & x.compare("olt", _INFINITY) & abs(y).compare("olt", _INFINITY)
    return unless_rare(usual ^ 1, [result], lambda: [_with_special_cases(x, y, result)])[0]


def _with_special_cases(x: Batch, y: Batch, result: Batch) -> Batch:
    """Return the result of C99's annex F.9.4.4, given |x|**y for finite x other than 0."""
    size = abs(x)
    infinite = size.compare("oeq", _INFINITY)
    grows = size.compare("ogt", 1.0) ^ y.compare("olt", 0.0)
    limit = result.filled(0.0).replace(grows, _INFINITY)
    result = limit.where(infinite | size.compare("oeq", 0.0), result)
    whole = trunc(y).compare("oeq", y)
    half = y * 0.5
    odd = whole & trunc(half).compare("une", half)
    negative = x.compare("olt", 0.0)
    result = result.replace(negative & ((whole | infinite) ^ 1), _NAN)
    result = (-result).where(odd & x.bits().compare("slt", 0), result)
    result = (x + y).where(x.compare("uno", y), result)
    return result.replace(x.compare("oeq", 1.0) | y.compare("oeq", 0.0), 1.0)


OPERATORS: Final = {
    "power": (power_32, power_64),
}
"""What this file computes: (for float32, for float64) by operator."""
