"""What a table of records computes, in NumPy. Does not own which tables are valid (`tables.py`)."""
from __future__ import annotations

from typing import Any

import numpy as np

from jitfuse.ir.semirings.words import AXES

Array = Any


def semiring_sums(*stacks: Array, carrier: str, records: bytes, workspace: int, size: int) -> Array:
    """Return what the records write to the result."""
    add, multiply, one = (np.logaddexp, np.add, 0.0) if carrier == "log" else (np.add, np.multiply, 1.0)
    dtype = stacks[0].dtype
    unused = np.empty(0, dtype)
    memories = [np.empty(workspace, dtype), np.full(1, one, dtype), unused, np.empty(size, dtype)]
    memories += [np.reshape(stack, -1) for stack in stacks]
    words, start = np.frombuffer(records, "<i8"), 0
    while start < len(words):
        record = words[start : start + words[start]]
        _, _, _, _, out, out_first, a, a_first, b, b_first, *inner, _, rank = record[:AXES].tolist()
        behind = AXES + 4 * rank
        extents, *strides = np.transpose([*np.reshape(record[AXES:behind], (-1, 4)), inner])
        into, left, right = memories[out], memories[a], memories[b]
        firsts = (out_first, a_first, b_first)
        out, a, b = [_places(first, extents, s) for first, s in zip(firsts, strides, strict=True)]
        total: Any = None
        for first, second in np.reshape(record[behind:], (-1, 2)):
            product = multiply(left[a + first], right[b + second])
            total = product if total is None else add(total, product)
        summed = inner[0] > 1 and inner[1] == 0
        into[out[..., 0] if summed else out] = add.reduce(total, axis=-1) if summed else total
        start += words[start]
    return memories[3]


def _places(first: int, extents: Array, strides: Array) -> Array:
    """Return the number of each element that the loops come to."""
    places = np.full((), first, np.int64)
    for extent, stride in zip(extents, strides, strict=True):
        places = places[..., None] + stride * np.arange(extent)
    return places
