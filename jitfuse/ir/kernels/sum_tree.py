"""The order in which sums and products of floats are formed, which makes their bits the same everywhere."""
from __future__ import annotations

from typing import Final

SUM_DEPTH: Final = 16
CHUNK: Final = 65_536
"""Elements that one partial reduction covers."""
CONTRACTION_BLOCK: Final = 256
"""Products that are summed before they are added to the result."""


def sum_lanes(itemsize: int) -> int:
    """Return W, the number of virtual lanes of a float sum.

    The sum of x[0..n) is defined as follows, whatever the strides, threads or vector width. The elements are cut into
    blocks of ``SUM_DEPTH * W``; lane l of a block adds its elements l, l + W, l + 2W, ... in order. Blocks are combined
    lane by lane as a binary counter does: block k is merged with as many finished groups as k has trailing one bits,
    the older group on the left; at the end the remaining groups are folded from the youngest to the oldest. Then the
    lanes are folded in halves, l with l + W/2, and so on to one. Finally 0.0 is added: an empty sum, or one of negative
    zeros, is 0.0 as in NumPy. Missing elements count as -0.0, which changes no bit. The worst-case error is that of
    pairwise summation. A chunk of `CHUNK` elements is a whole subtree, so that splitting a reduction into partial ones
    changes no bit either.
    """
    return 128 // itemsize
