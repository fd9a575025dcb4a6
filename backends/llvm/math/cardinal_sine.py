"""sinc for float32 and float64: sin(pi x) / (pi x), exactly 0 at the integers.

Owns: the reduction, which is exact, as it is by multiples of 1/2 of x itself. Does not own sine and cosine.
"""
from __future__ import annotations

from typing import Final

from jitfuse.backends.llvm.math import coefficients as c
from jitfuse.backends.llvm.math.double_double import less_product, times
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.math.rounding import rint
from jitfuse.backends.llvm.math.trigonometric import sine_and_cosine_parts

_PI, _PI_LOW = 3.141592653589793, 1.2246467991473532e-16
_ROUNDER = 6755399441055744.0  # 1.5 * 2**52: adding it leaves an integer in the low bits


def sinc_32(x: Batch) -> Batch:
    """Return sin(pi x) / (pi x) of float32 batches; 1 at 0, NaN at infinity."""
    size = abs(x).at_most(2.0**30).widened()
    whole = rint(size)
    r = (size - whole) * _PI
    sine = (r * (r * r).polynomial(c.SIN_32)).bits() ^ ((whole + _ROUNDER).bits() << 63)
    return _finish(x, size, (sine.from_bits() / (size * _PI)).narrowed())


def sinc_64(x: Batch) -> Batch:
    """Return sin(pi x) / (pi x) of float64 batches; 1 at 0, NaN at infinity."""
    size = abs(x).at_most(2.0**60)
    whole = rint(size)
    part = size - whole
    half = rint(part * 2.0)
    r, r_low = times(half.fma(-0.5, part), _PI, _PI_LOW)
    # quarters of a turn: twice the parity of the whole ones, and the half
    n = ((whole - rint(whole * 0.5) * 2.0).fma(2.0, half) + _ROUNDER).bits()
    sine, sine_low, cosine, cosine_low = sine_and_cosine_parts(r, r_low)
    odd = (n & 1).compare("ne", 0)
    up, up_low = cosine.where(odd, sine), cosine_low.where(odd, sine_low)
    down, down_low = times(size, _PI, _PI_LOW)
    inverse = 1.0 / down
    q = up * inverse
    remainder = q.fma(-down_low, less_product(up, q, down) + up_low)
    result = remainder.fma(inverse, q)
    return _finish(x, size, (result.bits() ^ ((n & 2) << 62)).from_bits())


def _finish(x: Batch, size: Batch, result: Batch) -> Batch:
    """Put in 1 near 0, zeros without a sign, and NaN at infinity."""
    result = (result + 0.0).replace(size.compare("olt", 2.0**-30), 1.0)
    return result.where(abs(x).compare("olt", float("inf")), x - x)


OPERATORS: Final = {
    "sinc": (sinc_32, sinc_64),
}
"""What this file computes: (for float32, for float64) by operator."""
