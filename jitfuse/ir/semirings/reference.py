"""What a table of records computes, in NumPy."""
from __future__ import annotations

from typing import Any

import numpy as np

from jitfuse.ir.semirings import words as w
from jitfuse.ir.semirings.loops import Axis
from jitfuse.ir.semirings.tables import sums

Array = Any


def semiring_sums(*stacks: Array, carrier: str, records: bytes, workspace: int, size: int) -> Array:
    """Return what the records write to the result.

    Raises:
        ArgumentError: a table that is damaged or does not fit.
    """
    add, multiply, one = (np.logaddexp, np.add, 0.0) if carrier == "log" else (np.add, np.multiply, 1.0)
    dtype = stacks[0].dtype
    memories = {w.WORKSPACE: np.empty(workspace, dtype), w.ONE: np.full(1, one, dtype), w.RESULT: np.empty(size, dtype)}
    memories.update({w.STACKS + k: np.reshape(stack, -1) for k, stack in enumerate(stacks)})
    for each in sums(records, tuple([stack.size for stack in stacks]), workspace, size):
        out, a, b = (_places(x.first, x.strides, each.axes) for x in (each.out, each.a, each.b))
        total = None
        for first, second in each.offsets.tolist():
            product = multiply(memories[each.a.memory][a + first], memories[each.b.memory][b + second])
            total = product if total is None else add(total, product)
        if not each.axes[-1].out and each.axes[-1].extent > 1:
            total, out = add.reduce(total, axis=-1), out[..., 0]
        memories[each.out.memory][out] = total
    return memories[w.RESULT]


def _places(first: int, strides: tuple[int, ...], axes: tuple[Axis, ...]) -> Array:
    """Return the number of each element that the loops come to."""
    places = np.full((), first, np.int64)
    for stride, axis in zip(strides, axes):
        places = places[..., None] + stride * np.arange(axis.extent)
    return places
