"""How much work computing takes: the one model that all choices between ways of computing go by, and its constants.

Work is counted in products of two numbers; a step, or record, takes some besides. Where threads share work out it is
time, as handing out is.
"""
from __future__ import annotations

from collections import Counter
from typing import Final

ITEMSIZE: Final = 8
"""Bytes of a float64. Limits of memory count all numbers as such."""
STEP: Final = 200
"""What a product of two tensors takes beside those of numbers, in these: 0.1 us, at 0.5 ns each in short rows."""
LARGER: Final = 16
"""How many times the elements of small tensors large ones have, at least."""
RECORD_NS: Final = 100.0
PRODUCT_NS: Final = 0.45
"""What a record of native code takes beside its products, and what a product of long rows takes. Least squares over one
thread's times of trees of 63 cliques of 4 to 15 binary variables find 220 and 0.76 on a Xeon, which is half as fast;
what counts is the ratio, 222 here, 290 there.
"""


def products(elements: int, tensors: int) -> int:
    """Return the products of two numbers that make all elements of a product of tensors, and their sum."""
    return elements * max(1, tensors)


def work(elements: int, inputs: Counter[int]) -> int:
    """Return the work of a sum of a product of tensors.

    Small tensors are multiplied before they meet large ones, which takes next to nothing: then each large one but the
    first is multiplied once.

    Args:
        elements: those of the whole product.
        inputs: how many tensors have so many elements.
    """
    large = sum([count for size, count in inputs.items() if size * LARGER > elements])
    return elements * max(1, large - 1) + STEP * max(1, inputs.total() - 1)


def nanoseconds(elements: int) -> float:
    """Return the time of a record in one thread."""
    return RECORD_NS + PRODUCT_NS * elements
