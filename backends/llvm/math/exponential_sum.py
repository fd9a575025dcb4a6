"""softplus, logaddexp and logaddexp2 for float32 and float64: logarithms of sums of exponentials.

Owns: log(1 + exp(-d)) in two words for d >= 0, down to denormals, and its sum with the larger operand.
Does not own: the exponential and the logarithm, see `exponential` and `logarithm`.
"""
from __future__ import annotations

from jitfuse.backends.llvm.math.double_double import fast_two_sum, times, two_product, two_sum
from jitfuse.backends.llvm.math.exponential import LN2, LN2_LOW, ROUNDER, exp_parts, power_of_two, scaled
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.math.logarithm import INV_LN2, INV_LN2_LOW, log_fraction

_INFINITY = float("inf")


def softplus_32(x: Batch) -> Batch:
    """Return log(1 + exp(x)) of float32 batches."""
    return softplus_64(x.widened()).narrowed()


def softplus_64(x: Batch) -> Batch:
    """Return log(1 + exp(x)) of float64 batches."""
    hi, lo = _log1p_exp(abs(x).at_most(760.0), None, binary=False)
    head, low = two_sum(x.at_least(0.0), hi)
    return x.where(x.compare("ugt", 760.0), head + (low + lo))


def logaddexp_32(a: Batch, b: Batch) -> Batch:
    """Return log(exp(a) + exp(b)) of float32 batches."""
    return logaddexp_64(a.widened(), b.widened()).narrowed()


def logaddexp_64(a: Batch, b: Batch) -> Batch:
    """Return log(exp(a) + exp(b)) of float64 batches."""
    return _log_sum(a, b, binary=False)


def logaddexp2_32(a: Batch, b: Batch) -> Batch:
    """Return log2(2**a + 2**b) of float32 batches."""
    return logaddexp2_64(a.widened(), b.widened()).narrowed()


def logaddexp2_64(a: Batch, b: Batch) -> Batch:
    """Return log2(2**a + 2**b) of float64 batches."""
    return _log_sum(a, b, binary=True)


def _log_sum(a: Batch, b: Batch, *, binary: bool) -> Batch:
    """Return the logarithm of the sum, within 1 ulp of the larger of the result and its 64th part of an operand."""
    first = a.compare("ogt", b)
    larger, smaller = a.where(first, b), b.where(first, a)
    d, d_low = two_sum(larger, -smaller)
    far = d.compare("ugt", 1100.0)
    hi, lo = _log1p_exp(d.replace(far, 1100.0), d_low.replace(far, 0.0), binary=binary)
    head, low = two_sum(larger, hi)
    result = larger.where(abs(larger).compare("oeq", _INFINITY), head + (low + lo))
    return (a + b).where(a.compare("uno", b), result)


def _log1p_exp(d: Batch, d_low: Batch | None, *, binary: bool) -> tuple[Batch, Batch]:
    """Return (hi, lo) of log(1 + exp(-d - d_low)), or log2(1 + 2**(-d - d_low)), for 0 <= d <= 1100."""
    power, power_low = -d, None if d_low is None else -d_low
    if binary:
        power, e = times(-d, LN2, LN2_LOW)
        power_low = e if d_low is None else d_low.fma(-LN2, e)
    biased, head, low = exp_parts(power, power_low)
    scale = power_of_two(biased.at_least(ROUNDER - 1000.0))
    e, e_low = fast_two_sum(head * scale, low * scale)
    # above sqrt(2) the sum 1 + e is halved: f is (1 + e)/2 - 1, and 1 is added to the logarithm to base 2
    upper = e.compare("ogt", 0.4142135623730951)
    less, lost = fast_two_sum(-1.0, e)
    f, f_low = (less * 0.5).where(upper, e), ((lost + e_low) * 0.5).where(upper, e_low)
    hi, lo = fast_two_sum(*log_fraction(f, f_low))
    one = hi.filled(0.0).replace(upper, 1.0)
    tiny, tiny_low = head, low
    if binary:
        hi, lo = _over_ln2(hi, lo)
        tiny, tiny_low = _over_ln2(head, low)
        hi, rest = fast_two_sum(one, hi)
    else:
        hi, rest = fast_two_sum(one * LN2, hi)
        rest = one.fma(LN2_LOW, rest)
    # far from 0 it is exp(-d), which may be denormal
    far = d.compare("ogt", 60.0)
    return scaled(tiny + tiny_low, biased).where(far, hi), (rest + lo).replace(far, 0.0)


def _over_ln2(hi: Batch, lo: Batch) -> tuple[Batch, Batch]:
    p, e = two_product(hi, hi.filled(INV_LN2))
    return p, hi.fma(INV_LN2_LOW, lo.fma(INV_LN2, e))
