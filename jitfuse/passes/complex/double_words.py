"""Sums and quotients of exact products, computed in two words if one would cancel or lose too much.

The error-free transformations of Dekker (1971) and Knuth, over tensors of a program under construction. They are valid
because kernels neither reassociate nor contract.
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
    high, low = _halves(a)
    return product, ((high * high - product) + high * low * 2.0) + low * low


def two_product(a: Any, b: Any) -> Words:
    """Return a * b rounded, and the rounding error, exactly for factors below 2**500 and products above 2**-960."""
    product = a * b
    (high_a, low_a), (high_b, low_b) = _halves(a), _halves(b)
    return product, ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b


def _halves(a: Any) -> Words:
    scaled = a * _SPLITTER
    high = scaled - (scaled - a)
    return high, a - high


def quotient(a: Any, b: Words) -> Any:
    """Return a / b for a b in two words: a division corrected by its remainder."""
    first = a / b[0]
    product, error = two_product(first, b[0])
    return first + (((a - product) - error) - first * b[1]) / b[0]


def exact_sum(terms: Sequence[Any]) -> Any:
    """Return the sum of float64 terms, rounded roughly as if it had twice the digits."""
    total, errors = terms[0], None
    for term in terms[1:]:
        total, error = two_sum(total, term)
        errors = error if errors is None else errors + error
    return total if errors is None else total + errors
