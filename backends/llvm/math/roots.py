"""hypot and cbrt for float32 and float64, and the square root as two words.

Owns: scaling by powers of two so that squares neither overflow nor vanish; the cube root by an inverse cube root
without any division. float32 has its own in `single`. Does not own: the square root that targets have, see `rounding`.
"""
from __future__ import annotations

from typing import Final

from jitfuse.backends.llvm.math import single
from jitfuse.backends.llvm.math.double_double import fast_two_sum, less_product, two_product
from jitfuse.backends.llvm.math.exponential import ROUNDER
from jitfuse.backends.llvm.math.lockstep import Batch

_INFINITY = float("inf")
_CARRIER_BITS = 1075 << 52  # of 2**52: or-ing an integer below into them adds it
_GUESS = ROUNDER + 2.0**52 / 3 + 0x553EE900


def scales(size: Batch) -> tuple[Batch, Batch]:
    """Return (2**-e, 2**(e + 1)), that bring size >= 0 into [2, 4) and half of the result back.

    For denormals e is that of the smallest normal, so that they come to at least 2**-51 or, of float32, 2**-22.
    """
    mask, smallest = (2047 << 52, 2.0**-1022) if size.is_double else (255 << 23, 2.0**-126)
    back = (size.bits() & mask).from_bits().at_least(smallest)
    return (mask - back.bits()).from_bits(), back


def sqrt_parts(x: Batch, x_low: Batch | None) -> tuple[Batch, Batch]:
    """Return (s, s_low), the square root of x + x_low in two words, for x = 0 or 2**-100 < x < 2**100.

    The remainder of float64 is divided in float32, which is fast and enough for a correction.
    """
    s = x.sqrt()
    bounded = s.at_least(2.0**-60)
    half = (0.5 / bounded.narrowed()).widened() if x.is_double else 0.5 / bounded
    remainder = less_product(x, s, s)
    return s, (remainder if x_low is None else remainder + x_low) * half


def hypot_32(x: Batch, y: Batch) -> Batch:
    """Return the length of (x, y) of float32 batches, infinite where one is, even if the other is NaN."""
    a, b = x.widened(), y.widened()
    return _infinite_if_one_is(a.fma(a, b * b).sqrt().narrowed(), x, y)


def hypot_64(x: Batch, y: Batch) -> Batch:
    """Return the length of (x, y) of float64 batches, infinite where one is, even if the other is NaN."""
    a, b = abs(x), abs(y)
    more = a.compare("ogt", b)
    a, b = a.where(more, b), b.where(more, a)
    scale, back = scales(a)
    a, b = a * scale, b * scale
    (p, e), (q, d) = two_product(a, a), two_product(b, b)
    s, low = fast_two_sum(p, q)
    root, root_low = sqrt_parts(s, (low + e) + d)
    return _infinite_if_one_is(((root + root_low) * 0.5) * back, x, y)


def _infinite_if_one_is(result: Batch, x: Batch, y: Batch) -> Batch:
    infinite = abs(x).compare("oeq", _INFINITY) | abs(y).compare("oeq", _INFINITY)
    return result.replace(infinite, _INFINITY)


def cbrt_32(x: Batch) -> Batch:
    """Return the cube root of float32 batches."""
    size = abs(x)
    if x.context.has_fma:
        root = single.cbrt(size)
    else:
        wide = size.widened()
        inverse = _inverse_cube_root(wide)
        root = (wide * (inverse * inverse)).narrowed()
    return root.copysign(x).where(size.compare("olt", _INFINITY), x)


def cbrt_64(x: Batch) -> Batch:
    """Return the cube root of float64 batches, corrected once by the remainder of its cube."""
    size = abs(x)
    tiny = size.compare("olt", 2.0**-700)
    scaled = size * size.filled(0.125).replace(tiny, 2.0**300)
    inverse = _inverse_cube_root(scaled)
    square = inverse * inverse
    root = scaled * square
    power, power_low = two_product(root, root)
    remainder = less_product(scaled, power, root) - power_low * root
    result = remainder.fma(square * (1 / 3), root) * size.filled(2.0).replace(tiny, 2.0**-100)
    return result.copysign(x).where(size.compare("olt", _INFINITY), x)


def _inverse_cube_root(x: Batch) -> Batch:
    """Return x**(-1/3) to 1e-9 for positive normal float64 x.

    A third of the upper half of the bits, subtracted from a constant, is a first guess (as in Kahan and Bindel's
    cbrt); then y (1 + h/3 + 2 h**2/9 + 14 h**3/81 ...) with h = 1 - x y**3, once to the cube and once to h.
    """
    upper = ((x.bits() >> 32) | _CARRIER_BITS).from_bits()
    y = (upper.fma(-1 / 3, _GUESS).bits() << 32).from_bits()
    h = 1.0 - (x * y) * (y * y)
    y = (y * h).fma(h.horner((1 / 3, 2 / 9, 14 / 81)), y)
    h = 1.0 - (x * y) * (y * y)
    return (y * h).fma(1 / 3, y)


OPERATORS: Final = {
    "hypot": (hypot_32, hypot_64), "cbrt": (cbrt_32, cbrt_64),
}
"""What this file computes: (for float32, for float64) by operator."""
