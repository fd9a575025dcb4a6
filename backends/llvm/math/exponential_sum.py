"""softplus, logaddexp and logaddexp2 for float32 and float64: logarithms of sums of exponentials.

Owns: log(1 + exp(-d)) in two words for d >= 0, down to denormals, and its sum with the larger operand; where that
cancels, in rare lanes, the logarithm of the sum of exponentials of two words each.
Does not own: the exponential and the logarithm, see `exponential` and `logarithm`.
"""
from __future__ import annotations

from typing import Final

from jitfuse.backends.llvm.math.double_double import fast_two_sum, less_product, times, two_product, two_sum
from jitfuse.backends.llvm.math.exponential import (
    LN2,
    LN2_HEAD,
    LN2_LOW,
    LN2_TAIL,
    ROUNDER,
    exp_parts,
    power_of_two,
    scaled,
)
from jitfuse.backends.llvm.math.lockstep import Batch, Context
from jitfuse.backends.llvm.math.logarithm import INV_LN2, INV_LN2_LOW, log_fraction
from jitfuse.backends.llvm.math.rare_lanes import LaneBody, lane_function, patch_lanes
from jitfuse.backends.llvm.text.builder import Value

_INFINITY = float("inf")
_LN2_LAST = 1.94704509238075e-31
"""ln 2 - `LN2_HEAD` - `LN2_TAIL`."""
_TERMS = 25


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
    """Return the logarithm of the sum of the exponentials.

    Within 1 ulp, or within 1 ulp of 2**-52 times the larger operand where the result is below that: the exact sum of
    exponentials may be closer to 1 than any fixed precision can resolve.
    """
    first = a.compare("ogt", b)
    larger, smaller = a.where(first, b), b.where(first, a)
    d, d_low = two_sum(larger, -smaller)
    far = d.compare("ugt", 1100.0)
    hi, lo = _log1p_exp(d.replace(far, 1100.0), d_low.replace(far, 0.0), binary=binary)
    head, low = two_sum(larger, hi)
    result = head + (low + lo)
    cancels = abs(result * 5.0).compare("olt", abs(larger)) & larger.compare("ogt", -2.0)
    result = patch_lanes(_cancelling(a.context, binary), cancels, [larger, smaller], [result])[0]
    result = larger.where(abs(larger).compare("oeq", _INFINITY), result)
    return (a + b).where(a.compare("uno", b), result)


def _cancelling(context: Context, binary: bool) -> str | LaneBody:
    """Return the name of the module's function for operands whose exponentials add up to nearly 1.

    The exponentials have 104 bits, so that about 53 remain where the first 53 of their sum cancel.
    """

    def body(scalar: Context, inputs: list[Value]) -> list[Value]:
        total: tuple[Batch, Batch] | None = None
        for value in inputs:
            x = scalar.batch([value]).at_least(-120.0)
            hi, lo = times(x, LN2, LN2_LOW) if binary else (x, x.filled(0.0))
            hi, lo = _long_exp(*fast_two_sum(hi, lo))
            if total is None:
                hi, rest = two_sum(hi.filled(-1.0), hi)
                total = hi, rest + lo
            else:
                hi, rest = two_sum(total[0], hi)
                total = fast_two_sum(hi, rest + (total[1] + lo))
        assert total is not None
        hi, lo = log_fraction(*total)
        if binary:
            hi, lo = _over_ln2(*fast_two_sum(hi, lo))
        return list((hi + lo).values)

    return lane_function(context, f"jitfuse.logaddexp{'2' if binary else ''}", ["double"] * 2, ["double"], body)


def _long_exp(x: Batch, x_low: Batch) -> tuple[Batch, Batch]:
    """Return exp(x + x_low) in two words, to about 2**-104, for a number from -120 to 1, by Taylor's series."""
    biased = x.fma(1 / LN2, ROUNDER)
    k = biased - ROUNDER
    tail, e = two_product(k, x.filled(-LN2_TAIL))
    r, rest = two_sum(k * -LN2_HEAD + x, tail)
    r, r_low = fast_two_sum(r, rest + (k.fma(-_LN2_LAST, e) + x_low))
    f = x.context.f
    one, zero = x.filled(1.0), x.filled(0.0)
    with f.loop(Value("0", "i64"), Value(str(_TERMS), "i64")) as loop:
        p, p_low = (x.context.batch([loop.carry(v.values[0])]) for v in (one, zero))
        n = _TERMS - x.context.batch([f.cast("sitofp", loop.index, "double")])
        # p becomes 1 + p r/n
        q = r / n
        q_low = (less_product(r, q, n) + r_low) / n
        t, t_low = two_product(p, q)
        t_low = p.fma(q_low, p_low.fma(q, t_low))
        s, s_low = fast_two_sum(1.0, t)
        s, s_low = fast_two_sum(s, s_low + t_low)
        loop.update(0, s.values[0])
        loop.update(1, s_low.values[0])
    scale = power_of_two(biased)
    return tuple(x.context.batch([loop.result(j)]) * scale for j in range(2))  # type: ignore[return-value]


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


OPERATORS: Final = {
    "softplus": (softplus_32, softplus_64), "logaddexp": (logaddexp_32, logaddexp_64),
    "logaddexp2": (logaddexp2_32, logaddexp2_64),
}
"""What this file computes: (for float32, for float64) by operator."""
