"""Variables to condition on where the messages of an order would take too much memory.

All the rest is then done once for each of their states, with smaller tables and more operations. Owns which variables
these are [Gray, Kourtis 2021, Hyper-optimized tensor network contraction]. Does not look for another order.
"""
from __future__ import annotations

from collections.abc import Collection, Sequence
from math import log2
from typing import Final

from jitfuse.errors import TooLargeError
from jitfuse.factors.orders.cost import Bucket, Cost, buckets, cost_of
from jitfuse.factors.structure import Structure

MOST_OPERATIONS: Final = 1 << 42
"""Operations of all slices together that are not too many: hours on one core."""


def conditioned(structure: Structure, variables: Collection[int]) -> Structure:
    """Return the structure of one slice: these variables have one state, and are in no factor.

    Example:
        >>> conditioned(Structure((2, 3), ((0, 1), (1,))), {1})
        Structure(sizes=(2, 1), scopes=((0,), ()))
    """
    gone = frozenset(variables)
    sizes = tuple([1 if v in gone else size for v, size in enumerate(structure.sizes)])
    return Structure(sizes, tuple([tuple([v for v in scope if v not in gone]) for scope in structure.scopes]))


def sliced_variables(
    structure: Structure, order: Sequence[int], limit_bytes: int, *, keep: bool = False,
    most_operations: int = MOST_OPERATIONS, found_by: str = "this order",
) -> tuple[tuple[int, ...], Cost]:
    """Return the variables to condition on so that messages take at most `limit_bytes`, and the cost of one slice.

    Of the variables of the largest message, the one goes next that adds the fewest operations. `keep`: all messages are
    kept, instead of each until it is read.

    Raises:
        TooLargeError: it takes more than `most_operations`; the message says how much memory and work is needed.
    """
    made = buckets(structure, order)
    sizes = list(structure.sizes)
    whole = cost = cost_of(sizes, made)
    gone: list[int] = []
    slices = 1
    while cost.bytes(keep=keep) > limit_bytes:
        found = _cheapest(sizes, made) if slices * cost.operations <= most_operations else None
        if found is not None:
            slices *= sizes[found]
            sizes[found] = 1
            gone.append(found)
            cost = cost_of(sizes, made)
        if found is None or slices * cost.operations > most_operations:
            raise _too_large(whole, whole.bytes(keep=keep), limit_bytes, found_by, len(gone))
    final = cost_of(sizes, buckets(conditioned(structure, gone), order)) if gone else cost
    return tuple(sorted(gone)), final


def _cheapest(sizes: Sequence[int], made: Sequence[Bucket]) -> int | None:
    """Return the variable of the largest message whose slices take the fewest operations; None if it is a number."""
    largest = max(made, key=lambda bucket: bucket.elements(sizes) // sizes[bucket.variable])
    wanted = {v for v in largest.scope if v != largest.variable and sizes[v] > 1}
    spared = dict.fromkeys(sorted(wanted), 0)
    total = 0
    for bucket in made:
        operations = bucket.operations(sizes)
        total += operations
        for v in wanted.intersection(bucket.scope):
            spared[v] += operations
    return min(spared, key=lambda v: (sizes[v] * total - (sizes[v] - 1) * spared[v], v), default=None)


def _too_large(cost: Cost, needed: int, limit: int, found_by: str, sliced: int) -> TooLargeError:
    """Return the error that says what the best order needs."""
    further = f", and conditioning on {sliced} variables takes too many operations" if sliced else ""
    return TooLargeError(
        f"the largest table has 2^{cost.states:.1f} numbers ({cost.width} variables); messages take "
        f"2^{log2(needed):.1f} bytes at once, and all of it 2^{log2(cost.operations):.1f} operations, by the best "
        f"order found ({found_by}); 2^{log2(max(limit, 1)):.1f} bytes are allowed{further}",
        states=cost.states, bytes=needed, limit=limit,
    )
