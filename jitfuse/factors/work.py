"""How much work computing takes: the one model that all choices between ways of computing go by, and its constants.

Work is counted in products of two numbers; a step, or record, takes some besides. Where threads share work out it is
time, as handing out is.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from math import prod
from typing import Final

ITEMSIZE: Final = 8
"""Bytes of a float64. Limits of memory count all numbers as such."""
STEP: Final = 200
"""What a product of two tensors takes beside those of numbers, in these: 0.1 us, at 0.5 ns each in short rows."""
MESSAGE: Final = 100
"""What a result that others read takes, in these: little in each call, but the first one plans it, for 0.1 ms."""
LARGER: Final = 16
"""How many times the elements of small tensors large ones have, at least."""
AT_ONCE: Final = 1 << 12
"""Elements of a product up to which its tensors are multiplied at once, whatever is between; of larger ones by twos."""
PRODUCT_NS: Final = 0.5
"""What a product takes. Least squares over one thread's times of trees of 63 cliques of 4 to 15 binary variables find
0.76, and 220 for a record besides, on a machine half as fast: a `STEP` of 290.
"""


def products(elements: int, tensors: int) -> int:
    """Return the products of two numbers that make all elements of a product of tensors, and their sum."""
    return elements * max(1, tensors)


def least_work(elements: int, tensors: int) -> int:
    """Return what a sum of a product of so many tensors takes at least."""
    return elements + STEP * max(1, tensors - 1) + MESSAGE


def work(elements: int, inputs: Counter[int]) -> int:
    """Return the work of a sum of a product of tensors.

    Small tensors are multiplied before they meet large ones, which takes next to nothing where their product is small:
    then each large one but the first is multiplied once. Which variables they have decides whether it is
    (`work_by_twos`).

    Args:
        elements: those of the whole product.
        inputs: how many tensors have so many elements.
    """
    large = sum([count for size, count in inputs.items() if size * LARGER > elements])
    return elements * max(1, large - 1) + STEP * max(1, inputs.total() - 1) + MESSAGE


def work_by_twos(sizes: Sequence[int], scopes: Sequence[Iterable[int]], elements: int) -> int:
    """Return the same for tensors over these variables, the two smallest multiplied first.

    Small tensors of different variables make a large product: it is computed, and kept, as well.
    """
    def union(a: Iterable[int], b: Iterable[int]) -> tuple[int, frozenset[int]]:
        both = frozenset((*a, *b))
        return prod([sizes[v] for v in both]), both

    left = [(size, number, scope) for number, (size, scope) in enumerate(union((), scope) for scope in scopes)]
    heapify(left)
    total, steps = 0, len(scopes) - 1
    for number in range(len(scopes), len(scopes) + steps):
        (_, _, a), (_, _, b) = heappop(left), heappop(left)
        size, both = union(a, b)
        total += size if size * LARGER > elements else 0
        heappush(left, (size, number, both))
    return total + STEP * steps + MESSAGE


def nanoseconds(elements: int) -> float:
    """Return the time of a record in one thread."""
    return PRODUCT_NS * (elements + STEP)
