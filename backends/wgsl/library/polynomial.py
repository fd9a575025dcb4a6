"""Polynomials and constants as WGSL text."""
from __future__ import annotations

from collections.abc import Sequence


def number(value: float) -> str:
    """Return a finite float32 literal."""
    return repr(float(value))


def horner(x: str, coefficients: Sequence[float]) -> str:
    """Return the polynomial in `x`, constant term first, by Horner's rule."""
    *rest, last = map(number, coefficients)
    result = last
    for c in reversed(rest):
        result = f"({result} * {x} + {c})"
    return result
