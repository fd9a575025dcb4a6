"""Sums of exact products, kept in two words where one would cancel.

The error-free transformations of Dekker (1971) and Knuth, over tensors of a program under construction. Kernels
neither reassociate nor contract, so that they hold there.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_SPLITTER = 134217729.0  # 2**27 + 1
Words = tuple[Any, Any]


def two_sum(a: Any, b: Any) -> Words:
    """Return a + b rounded, and the rounding error, exactly."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def two_square(a: Any) -> Words:
    """Return a * a rounded, and the rounding error, exactly for 2**-480 < |a| < 2**500."""
    product = a * a
    scaled = a * _SPLITTER
    high = scaled - (scaled - a)
    low = a - high
    return product, ((high * high - product) + high * low * 2.0) + low * low


def exact_sum(terms: Sequence[Any]) -> Any:
    """Return the sum of float64 terms, rounded about as if it had twice the digits."""
    total, errors = terms[0], None
    for term in terms[1:]:
        total, error = two_sum(total, term)
        errors = error if errors is None else errors + error
    return total if errors is None else total + errors
