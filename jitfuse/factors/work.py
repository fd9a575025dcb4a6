"""How much work computing takes: the one model that all choices between ways of computing go by, and its constants.

Work is counted in products of two numbers; a step, or record, takes some besides. Where threads share work out it is
time, as handing out is.
"""
from __future__ import annotations

from typing import Final

ITEMSIZE: Final = 8
"""Bytes of a float64. Limits of memory count all numbers as such."""
STEP: Final = 200
"""What a step takes beside its products, in products: some 0.25 us of 1.2 ns each, as measured on chains."""
RECORD_NS: Final = 100.0
PRODUCT_NS: Final = 0.45
"""What a record of native code takes beside its products, and what a product of long rows takes. Least squares over one
thread's times of trees of 63 cliques of 4 to 15 binary variables find 220 and 0.76 on a Xeon, which is half as fast;
what counts is the ratio, 222 here, 290 there.
"""


def products(elements: int, tensors: int) -> int:
    """Return the products of two numbers that make all elements of a product of tensors, and their sum."""
    return elements * max(1, tensors)


def work(elements: int, tensors: int) -> int:
    """Return the products of a step, and what it takes beside them."""
    return products(elements, tensors) + STEP


def nanoseconds(elements: int) -> float:
    """Return the time of a record in one thread."""
    return RECORD_NS + PRODUCT_NS * elements
