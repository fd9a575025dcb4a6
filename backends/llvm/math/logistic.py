"""sigmoid, silu and the tanh form of gelu for float32 and float64: 1 / (1 + exp(-x)) and its multiples of x.

Owns: the logistic function in two words and a power of two, so that multiplying it keeps its accuracy also where
it is denormal. Does not own: the exponential, see `exponential`.
"""
from __future__ import annotations

from typing import Final

from jitfuse.backends.llvm.math.double_double import fast_two_sum, times, two_product, two_sum
from jitfuse.backends.llvm.math.exponential import (
    ROUNDER,
    exp_parts,
    narrow_exp_parts,
    power_of_two,
    scaled,
)
from jitfuse.backends.llvm.math.lockstep import Batch

_SLOPE, _SLOPE_LOW = 1.5957691216057308, -9.96930880911092e-17
"""2 sqrt(2/pi)"""
_CUBIC, _CUBIC_LOW = 0.044715, 2.1960211427085595e-18


def sigmoid_32(x: Batch) -> Batch:
    """Return 1 / (1 + exp(-x)) of float32 batches."""
    return (1.0 / _one_plus_exp(x.at_most(90.0).at_least(-105.0).widened())).narrowed()


def silu_32(x: Batch) -> Batch:
    """Return x / (1 + exp(-x)) of float32 batches; -0.0 at minus infinity, the limit."""
    wide = x.at_least(-110.0).widened()
    return (wide / _one_plus_exp(wide.at_most(90.0))).narrowed()


def gelu_tanh_32(x: Batch) -> Batch:
    """Return x (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3))) / 2 of float32 batches; -0.0 at minus infinity."""
    wide = x.at_least(-12.0).widened()
    bounded = wide.at_most(12.0)
    y = bounded * (bounded * bounded).fma(_SLOPE * _CUBIC, _SLOPE)
    return (wide / _one_plus_exp(y)).narrowed()


def _one_plus_exp(x: Batch) -> Batch:
    """Return 1 + exp(-x) of float64 x below 700 in magnitude, to float32's needs."""
    scale, p = narrow_exp_parts(-x)
    return scale.fma(p, scale) + 1.0


def sigmoid_64(x: Batch) -> Batch:
    """Return 1 / (1 + exp(-x)) of float64 batches."""
    q, low, biased = _logistic(x.at_most(760.0).at_least(-760.0), None)
    return x.where(x.is_nan(), scaled(q + low, biased))


def silu_64(x: Batch) -> Batch:
    """Return x / (1 + exp(-x)) of float64 batches; -0.0 at minus infinity, the limit."""
    bounded = x.at_most(760.0).at_least(-760.0)
    return _multiplied(x, bounded, *_logistic(bounded, None))


def gelu_tanh_64(x: Batch) -> Batch:
    """Return x (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3))) / 2 of float64 batches; -0.0 at minus infinity."""
    bounded = x.at_most(22.0).at_least(-22.0)
    square, square_low = two_product(bounded, bounded)
    cubic, cubic_low = times(square, _CUBIC, _CUBIC_LOW)
    factor, factor_low = two_sum(cubic.filled(1.0), cubic)
    factor_low = factor_low + square_low.fma(_CUBIC, cubic_low)
    slope, slope_low = times(bounded, _SLOPE, _SLOPE_LOW)
    y, y_low = two_product(slope, factor)
    y, y_low = fast_two_sum(y, slope.fma(factor_low, slope_low.fma(factor, y_low)))
    return _multiplied(x, bounded, *_logistic(y, y_low))


def _multiplied(x: Batch, bounded: Batch, q: Batch, low: Batch, biased: Batch) -> Batch:
    """Return x (q + low) 2**k; x itself where it is above the bound, and so large that the factor is 1."""
    p, e = two_product(bounded, q)
    result = scaled(p + bounded.fma(low, e), biased).copysign(x)
    return x.where(x.compare("une", bounded) & x.compare("uge", 0.0), result)


def _logistic(x: Batch, x_low: Batch | None) -> tuple[Batch, Batch, Batch]:
    """Return (hi, lo, k + `ROUNDER`) with 1 / (1 + exp(-x - x_low)) = (hi + lo) 2**k, |x| below 900.

    It is 1 / (1 + e) for x >= 0 and e / (1 + e) for x < 0, where e = exp(-|x|).
    """
    negative = x.compare("olt", 0.0)
    biased, head, low = exp_parts(-abs(x), None if x_low is None else x_low.where(negative, -x_low))
    scale = power_of_two(biased.at_least(ROUNDER - 1000.0))
    d, d_low = fast_two_sum(1.0, head * scale)
    d_low = low.fma(scale, d_low)
    inverse = 1.0 / d
    n, n_low = head.where(negative, 1.0), low.where(negative, 0.0)
    q = n * inverse
    back, e = two_product(q, d)
    correction = q.fma(-d_low, ((n - back) - e) + n_low) * inverse
    return q, correction, biased.where(negative, ROUNDER)


OPERATORS: Final = {
    "gelu_tanh": (gelu_tanh_32, gelu_tanh_64), "sigmoid": (sigmoid_32, sigmoid_64), "silu": (silu_32, silu_64),
}
"""What this file computes: (for float32, for float64) by operator."""
