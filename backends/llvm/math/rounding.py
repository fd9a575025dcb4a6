"""floor, ceil, trunc, rint and sqrt.

Owns: the choice between the target's rounding instructions and arithmetic. Instructions exist wherever fused
multiply-add does (x86 with SSE4.1, NEON); elsewhere, on plain x86-64, LLVM would call libm.
"""
from __future__ import annotations

from typing import Final

from jitfuse.backends.llvm.math.lockstep import Batch


def rint(x: Batch) -> Batch:
    """Round to the nearest integer, ties to even."""
    if x.context.has_fma:
        return x.native_round("rint")
    return _where_fractional(x, _nearest(abs(x)))


def trunc(x: Batch) -> Batch:
    """Round towards zero."""
    if x.context.has_fma:
        return x.native_round("trunc")
    size = abs(x)
    nearest = _nearest(size)
    return _where_fractional(x, (nearest - 1.0).where(nearest.compare("ogt", size), nearest))


def floor(x: Batch) -> Batch:
    """Round downwards."""
    if x.context.has_fma:
        return x.native_round("floor")
    nearest = rint(x)
    return (nearest - 1.0).where(nearest.compare("ogt", x), nearest).copysign(x)


def ceil(x: Batch) -> Batch:
    """Round upwards."""
    if x.context.has_fma:
        return x.native_round("ceil")
    nearest = rint(x)
    return (nearest + 1.0).where(nearest.compare("olt", x), nearest).copysign(x)


def sqrt(x: Batch) -> Batch:
    """Return the square root, correctly rounded."""
    return x.sqrt()


def _integral_from(x: Batch) -> float:
    """Return the size from which on every float of the type is an integer."""
    return 2.0**52 if x.type.endswith(("double", "double>")) else 2.0**23


def _nearest(size: Batch) -> Batch:
    """Round a non-negative number below `_integral_from` to the nearest integer."""
    return (size + _integral_from(size)) - _integral_from(size)


def _where_fractional(x: Batch, size: Batch) -> Batch:
    """Return `size` with the sign of x where x can have a fraction, x itself elsewhere, as for NaN."""
    return size.copysign(x).where(abs(x).compare("olt", _integral_from(x)), x)


OPERATORS: Final = {
    "sqrt": (sqrt, sqrt), "floor": (floor, floor), "ceil": (ceil, ceil), "trunc": (trunc, trunc),
    "rint": (rint, rint),
}
"""What this file computes: (for float32, for float64) by operator."""
