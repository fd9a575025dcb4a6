"""xlogy and logit for float32 and float64: multiples of logarithms, and logarithms of quotients.

Owns: the handling of cancellation and overflow in these. Does not own the logarithm itself, see `logarithm`.
"""
from __future__ import annotations

from typing import Final

from jitfuse.backends.llvm.math import coefficients as c
from jitfuse.backends.llvm.math.double_double import fast_two_sum, less_product, two_product
from jitfuse.backends.llvm.math.exponential import LN2
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.math.logarithm import (
    add_exponent,
    atanh_argument,
    atanh_sum,
    decompose,
    decompose_64,
    finish,
    log_fraction,
)

_INFINITY, _NAN = float("inf"), float("nan")


def xlogy_32(x: Batch, y: Batch) -> Batch:
    """Return x log(y) of float32 batches, 0 where x is 0 and y a number."""
    wide = y.widened()
    k, m = decompose(wide)
    f = m - 1.0
    log = finish(wide, k.fma(LN2, f * f.polynomial(c.LOG1P_32)))
    return _zero_of_zero(x.widened(), wide, x.widened() * log).narrowed()


def xlogy_64(x: Batch, y: Batch) -> Batch:
    """Return x log(y) of float64 batches, 0 where x is 0 and y a number."""
    k, m = decompose_64(y)
    hi, lo = fast_two_sum(*add_exponent(k, log_fraction(m - 1.0, None)))
    # far from where products of two words over- or underflow
    huge, tiny = abs(x).compare("ogt", 2.0**900), abs(x).compare("olt", 2.0**-900)
    scale = x.filled(1.0).replace(huge, 2.0**-100).replace(tiny, 2.0**100)
    back = x.filled(1.0).replace(huge, 2.0**100).replace(tiny, 2.0**-100)
    moved = x * scale
    p, e = two_product(moved, hi)
    # the others are products without a second word: of 0, of infinity, of NaN
    usual = y.compare("ogt", 0.0) & abs(x).compare("olt", _INFINITY)
    usual = usual & y.compare("olt", _INFINITY) & hi.compare("one", 0.0)
    result = ((p + moved.fma(lo, e)) * back).where(usual, x * finish(y, hi))
    return _zero_of_zero(x, y, result)


def _zero_of_zero(x: Batch, y: Batch, result: Batch) -> Batch:
    return result.replace(x.compare("oeq", 0.0) & (y.is_nan() ^ 1), 0.0)


def logit_32(x: Batch) -> Batch:
    """Return log(x / (1 - x)) of float32 batches."""
    wide = x.widened()
    rest = 1.0 - wide
    k, m = decompose(wide / rest)
    # near 1/2 the quotient less 1 is (2x - 1)/(1 - x)
    f = ((wide * 2.0 - 1.0) / rest).where(k.compare("oeq", 0.0), m - 1.0)
    return _finish_logit(wide, k.fma(LN2, f * f.polynomial(c.LOG1P_32))).narrowed()


def logit_64(x: Batch) -> Batch:
    """Return log(x / (1 - x)) of float64 batches.

    With the quotient 2**k m, it is k ln 2 + 2 atanh((m - 1)/(m + 1)), and for k = 0 the argument is 2x - 1.
    """
    tiny = x.compare("olt", 2.0**-200)
    d, d_low = fast_two_sum(1.0, -x)
    moved = (x * 2.0**60).where(tiny, x)
    y = moved / d
    y_low = y.fma(-d_low, less_product(moved, y, d)) / d
    k, m = decompose_64(y)
    scale = ((m.bits() - y.bits()) + (1023 << 52)).from_bits()  # 2**-k
    s, s_low = atanh_argument(m - 1.0, y_low * scale)
    near = k.compare("oeq", 0.0) & (tiny ^ 1)
    s, s_low = (x * 2.0 - 1.0).where(near, s), s_low.replace(near, 0.0)
    hi, lo = add_exponent((k - 60.0).where(tiny, k), atanh_sum(s, s_low))
    return _finish_logit(x, hi + lo)


def _finish_logit(x: Batch, result: Batch) -> Batch:
    """Put in minus infinity at 0, infinity at 1, and NaN outside."""
    result = result.replace(x.compare("oeq", 0.0), -_INFINITY).replace(x.compare("oeq", 1.0), _INFINITY)
    return result.replace(x.compare("ult", 0.0) | x.compare("ugt", 1.0), _NAN)


OPERATORS: Final = {
    "xlogy": (xlogy_32, xlogy_64), "logit": (logit_32, logit_64),
}
"""What this file computes: (for float32, for float64) by operator."""
