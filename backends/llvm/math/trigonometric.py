"""sin, cos and tan for float32 and float64, and the two conversions of angles.

Owns: the polynomials on the reduced argument and the signs. float32 uses sin on [-pi/2, pi/2] alone, float64
both sin and cos on [-pi/4, pi/4] (as in fdlibm's scheme; Muller, Elementary Functions, chapter 11), tan their
quotient in double-double. Does not own: the reduction, see `reduction`.
"""
from __future__ import annotations

from typing import Final

from jitfuse.backends.llvm.math import coefficients as c
from jitfuse.backends.llvm.math.double_double import fast_two_sum, less_product, two_product
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.math.reduction import reduce_32, reduce_64, reduce_quarter_32
from jitfuse.backends.llvm.text.builder import element

# the nearest by element type; NumPy's for float32 differs, so that its results are up to 1.4 ulp off
_DEGREES = {"float": 57.295780181884766, "double": 57.29577951308232}
_RADIANS = {"float": 0.01745329238474369, "double": 0.017453292519943295}


def sin_32(x: Batch) -> Batch:
    """Return the sine of float32 batches, radians, of any size."""
    return _sin_32(x, 0.0)


def cos_32(x: Batch) -> Batch:
    """Return the cosine of float32 batches, radians: sin(x + pi/2)."""
    return _sin_32(x, 0.5)


def _sin_32(x: Batch, offset: float) -> Batch:
    r = reduce_32(x, offset)
    return (r * (r * r).polynomial(c.SIN_32)).narrowed()


def sin_64(x: Batch) -> Batch:
    """Return the sine of float64 batches, radians, of any size."""
    n, r, r_low = reduce_64(x)
    return _quadrant(n, *_sine_and_cosine(r, r_low)).where(x.compare("une", 0.0), x)


def cos_64(x: Batch) -> Batch:
    """Return the cosine of float64 batches, radians, of any size."""
    n, r, r_low = reduce_64(x)
    return _quadrant(n + 1, *_sine_and_cosine(r, r_low))


def _sine_and_cosine(r: Batch, r_low: Batch) -> tuple[Batch, Batch]:
    """Return sin and cos of r + r_low, |r| <= pi/4."""
    t = r * r
    half = t * 0.5
    sine_tail = t.polynomial(c.SIN_64)
    cosine_tail = t.polynomial(c.COS_64)
    # sin(r + e) = r + (r**3 S(t) + e (1 - t/2)); cos(r + e) = (1 - t/2) + (t*t C(t) - r e)
    sine = r + (r * t).fma(sine_tail, half.fma(-r_low, r_low))
    head = 1.0 - half
    low = (1.0 - head) - half
    cosine = head + (t * t).fma(cosine_tail, r.fma(-r_low, low))
    return sine, cosine


def _quadrant(n: Batch, sine: Batch, cosine: Batch) -> Batch:
    """Return the sine of n pi/2 + r given sin(r) and cos(r)."""
    odd = (n & 1).compare("ne", 0)
    return (cosine.where(odd, sine).bits() ^ ((n & 2) << 62)).from_bits()


def tan_32(x: Batch) -> Batch:
    """Return the tangent of float32 batches, radians, of any size."""
    n, r = reduce_quarter_32(x)
    t = r * (r * r).polynomial(c.TAN_32)
    odd = (n & 1).compare("ne", 0)
    return (t.filled(-1.0).where(odd, t) / t.replace(odd ^ 1, 1.0)).narrowed()


def tan_64(x: Batch) -> Batch:
    """Return the tangent of float64 batches, radians, of any size.

    The sine over the cosine, both as two words, the quotient corrected by its own remainder.
    """
    n, r, r_low = reduce_64(x)
    sine, sine_low, cosine, cosine_low = sine_and_cosine_parts(r, r_low)
    odd = (n & 1).compare("ne", 0)
    up, up_low = cosine.where(odd, sine), cosine_low.where(odd, sine_low)
    down, down_low = sine.where(odd, cosine), sine_low.where(odd, cosine_low)
    inverse = 1.0 / down
    q = up * inverse
    remainder = q.fma(-down_low, less_product(up, q, down) + up_low)
    result = remainder.fma(inverse, q)
    return (result.bits() ^ (n << 63)).from_bits().where(x.compare("une", 0.0), x)


def sine_and_cosine_parts(r: Batch, r_low: Batch) -> tuple[Batch, Batch, Batch, Batch]:
    """Return sin and cos of r + r_low, |r| <= pi/4, each as two words."""
    t, t_low = two_product(r, r)
    half = t * 0.5
    sine, sine_low = fast_two_sum(r, (r * t).fma(t.polynomial(c.SIN_64), half.fma(-r_low, r_low)))
    head = 1.0 - half
    low = ((1.0 - head) - half) - t_low * 0.5
    cosine, cosine_low = fast_two_sum(head, (t * t).fma(t.polynomial(c.COS_64), r.fma(-r_low, low)))
    return sine, sine_low, cosine, cosine_low


def rad2deg(x: Batch) -> Batch:
    """Return radians in degrees: one multiplication."""
    return x * _DEGREES[element(x.type)]


def deg2rad(x: Batch) -> Batch:
    """Return degrees in radians: one multiplication."""
    return x * _RADIANS[element(x.type)]


OPERATORS: Final = {
    "sin": (sin_32, sin_64), "cos": (cos_32, cos_64), "tan": (tan_32, tan_64), "rad2deg": (rad2deg, rad2deg),
    "deg2rad": (deg2rad, deg2rad),
}
"""What this file computes: (for float32, for float64) by operator."""
