"""Double-double arithmetic: unevaluated sums hi + lo of two float64, about 106 bits.

Owns: the error-free transformations of Dekker (1971) and Knuth, as in Muller et al., Handbook of
Floating-Point Arithmetic, chapter 4. Does not own: the functions built from them.
"""
from __future__ import annotations

from jitfuse.backends.llvm.math.lockstep import Batch

_SPLITTER = 134217729.0  # 2**27 + 1 (Veltkamp)


def two_sum(a: Batch, b: Batch) -> tuple[Batch, Batch]:
    """Return (s, e) with s = fl(a + b) and s + e = a + b exactly (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def fast_two_sum(a: Batch | float, b: Batch) -> tuple[Batch, Batch]:
    """Return (s, e) as `two_sum` does, for |a| >= |b| or a = 0 (Dekker)."""
    s = a + b
    return s, b - (s - a)


def split(a: Batch) -> tuple[Batch, Batch]:
    """Return (high, low) of 26 bits each with high + low = a (Veltkamp); |a| below 2**996."""
    c = a * _SPLITTER
    high = c - (c - a)
    return high, a - high


def two_product(a: Batch, b: Batch) -> tuple[Batch, Batch]:
    """Return (p, e) with p = fl(a * b) and p + e = a * b exactly, barring over- and underflow.

    One fused multiply-add where there is one, else Dekker's product for factors below 2**996.
    """
    p = a * b
    if a.context.has_fma:
        return p, a.fma(b, -p)
    ah, al = split(a)
    bh, bl = (ah, al) if a is b else split(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def less_product(x: Batch, a: Batch, b: Batch) -> Batch:
    """Return x - a*b, rounded once where it is as small as the rounding of a*b: a remainder."""
    if a.context.has_fma:
        return (-a).fma(b, x)
    p, e = two_product(a, b)
    return (x - p) - e


def times(a: Batch, hi: float, lo: float) -> tuple[Batch, Batch]:
    """Return the product of a and the constant hi + lo, not normalized."""
    p, e = two_product(a, a.filled(hi))
    return p, a.fma(lo, e)
