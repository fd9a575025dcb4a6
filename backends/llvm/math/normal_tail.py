"""erfc and the two forms of gelu's exact weight for float32 and float64: the upper tail of the normal distribution.

Owns: erfc(z) = exp(-z*z) P(z) / (1 + 2z), in which P is nearly constant (Shepherd and Laframboise, 1981), with
z*z in two words, so that the far tail keeps its relative accuracy down to denormals.
Does not own: erf near 0 and the exponential, see `error_function` and `exponential`.
"""
from __future__ import annotations

from typing import Final

from jitfuse.backends.llvm.math import coefficients as c
from jitfuse.backends.llvm.math.double_double import fast_two_sum, times, two_product, two_sum
from jitfuse.backends.llvm.math.error_function import near_zero
from jitfuse.backends.llvm.math.exponential import ROUNDER, exp_parts, narrow_exp_parts, scaled
from jitfuse.backends.llvm.math.lockstep import Batch

_TURN_32, _AT_TURN_32 = 3.0, 1.2530080582697296
_TURN_64, _AT_TURN_64, _AT_TURN_64_LOW = 4.0, 1.2329951186255526, -4.625318921008717e-17
_ROOT_HALF, _ROOT_HALF_LOW = 0.7071067811865476, -4.833646656726457e-17


def erfc_32(x: Batch) -> Batch:
    """Return 1 - erf(x) of float32 batches."""
    wide = x.widened()
    size = abs(wide).at_most(10.2)
    tail = _tail_32(size, size * size)
    return (2.0 - tail).where(wide.compare("olt", 0.0), tail).narrowed()


def gelu_32(x: Batch) -> Batch:
    """Return x (1 + erf(x / sqrt 2)) / 2 of float32 batches; -0.0 at minus infinity, the limit."""
    wide = x.at_least(-14.4).widened()
    size = abs(wide).at_most(14.4)
    tail = _tail_32(size * _ROOT_HALF, size * size * 0.5)
    weight = tail.where(wide.compare("olt", 0.0), 2.0 - tail)
    return (wide * (weight * 0.5)).narrowed()


def _tail_32(z: Batch, square: Batch) -> Batch:
    """Return erfc(z) of float64 z >= 0, to float32's needs."""
    turned, twice = z + _TURN_32, z.fma(2.0, 1.0)
    inverse = 1.0 / (turned * twice)
    u = (z - _TURN_32) * twice * inverse
    scale, p = narrow_exp_parts(-square)
    return scale.fma(p, scale) * (u.fma(u.polynomial(c.UPPER_32), _AT_TURN_32) * turned * inverse)


def erfc_64(x: Batch) -> Batch:
    """Return 1 - erf(x) of float64 batches."""
    size = abs(x).at_most(27.4)
    square = two_product(size, size)
    head, low, biased = _weight_64(-size.copysign(x), None, *square)
    return x.where(x.is_nan(), scaled(head + low, biased))


def gelu_64(x: Batch) -> Batch:
    """Return x (1 + erf(x / sqrt 2)) / 2 of float64 batches; -0.0 at minus infinity, the limit."""
    bounded = x.at_most(38.7).at_least(-38.7)
    z, z_low = times(bounded, _ROOT_HALF, _ROOT_HALF_LOW)
    square, square_low = two_product(bounded, bounded)
    head, low, biased = _weight_64(z, z_low, square * 0.5, square_low * 0.5)
    p, e = two_product(bounded, head * 0.5)
    result = scaled(p + bounded.fma(low * 0.5, e), biased).copysign(x)
    return x.where(x.compare("ugt", 38.0), result)


def _weight_64(z: Batch, z_low: Batch | None, square: Batch, square_low: Batch) -> tuple[Batch, Batch, Batch]:
    """Return (hi, lo, k + `ROUNDER`) with 1 + erf(z + z_low) = (hi + lo) 2**k, given the square of |z| <= 27.4."""
    erf, erf_low = near_zero(z, z_low, square, square_low)
    near, near_low = two_sum(z.filled(1.0), erf)
    near_low = near_low + erf_low
    positive = z.compare("ogt", 0.0)
    rest = None if z_low is None else z_low.where(positive, -z_low)
    tail, tail_low, biased = _tail_64(abs(z), rest, square, square_low)
    upper, upper_low = fast_two_sum(2.0, -scaled(tail + tail_low, biased))
    far, far_low = upper.where(positive, tail), upper_low.where(positive, tail_low)
    is_near = abs(z).compare("olt", 0.5)
    biased = biased.replace(is_near | positive, ROUNDER)
    return near.where(is_near, far), near_low.where(is_near, far_low), biased


def _tail_64(z: Batch, z_low: Batch | None, square: Batch, square_low: Batch) -> tuple[Batch, Batch, Batch]:
    """Return (hi, lo, k + `ROUNDER`) with erfc(z + z_low) = (hi + lo) 2**k for 1/2 <= z <= 27.4, given the square."""
    biased, head, low = exp_parts(-square, -square_low)
    u = (z - _TURN_64) / (z + _TURN_64)
    p, p_low = fast_two_sum(_AT_TURN_64, u * u.polynomial(c.UPPER_64))
    n, n_low = two_product(head, p)
    n_low = head.fma(p_low + _AT_TURN_64_LOW, low.fma(p, n_low))
    d, d_low = fast_two_sum(z * 2.0, z.filled(1.0))
    if z_low is not None:
        d_low = z_low.fma(2.0, d_low)
    inverse = 1.0 / d
    q = n * inverse
    back, e = two_product(q, d)
    return q, q.fma(-d_low, ((n - back) - e) + n_low) * inverse, biased


OPERATORS: Final = {
    "erfc": (erfc_32, erfc_64), "gelu": (gelu_32, gelu_64),
}
"""What this file computes: (for float32, for float64) by operator."""
