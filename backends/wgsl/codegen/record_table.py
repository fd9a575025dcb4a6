"""Tables of records in 32-bit words, as one shader reads them: records by level, and levels by dispatch.

A level holds records that may run at the same time: none of them writes what another one reads or writes. All memories
lie one after the other in one buffer, and addresses count its elements.

| words | are |
|---|---|
| first two | the semiring's one |
| 3 for each level | where its list begins, its records, the elements of all their results |
| 2 for each record of a list | elements of the results before its own, where its words begin |
| 8 of a record | first elements of the result, a, b; axes of the result; summed axis: extent, strides; offsets |
| 4 for each axis | extent, strides of the result, a, b; the fastest axis of the result first |
| 2 for each offset | that of a, that of b |

Does not own what makes a table valid (`jitfuse.ir.semirings.tables`), nor the shader (`records.py`).
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.ir.semirings import words as w
from jitfuse.ir.semirings.loops import Axis
from jitfuse.ir.semirings.tables import Sum

HEADER: Final = 2
"""Words before those of the levels."""
LEVEL_WORDS: Final = 3
ONE_GROUP: Final = 1024
"""Most elements of a level that one workgroup computes, which goes on to the next level behind a barrier."""
MOST_UNSHARED: Final = 1 << 22
"""Most elements of a workspace of which nothing is written again."""


class Dispatch(NamedTuple):
    """The levels from `first` to before `last`, in one dispatch: a single large one, or several small ones.

    `elements` are those of the largest level.
    """

    first: int
    last: int
    elements: int

    @property
    def small(self) -> bool:
        """Whether one workgroup runs all levels."""
        return self.elements <= ONE_GROUP


def pack(sums: Sequence[Sum], bases: Mapping[int, int], one: np.ndarray) -> tuple[np.ndarray, list[Dispatch]]:
    """Return the words of a table, and its dispatches in order.

    Args:
        sums: valid records in order.
        bases: where each memory begins in the buffer.
        one: the semiring's one, an array of one element.
    """
    levels = _levels(sums, bases)
    lists: list[int] = []
    heads: list[int] = []
    bodies = [_words(each, bases) for each in sums]
    lists_at = HEADER + LEVEL_WORDS * len(levels)
    starts = [0, *accumulate(map(len, bodies))]
    bodies_at = lists_at + 2 * len(sums)
    elements = []
    for level in levels:
        before = [0, *accumulate(sums[k].size for k in level)]
        heads += lists_at + len(lists), len(level), before[-1]
        lists += [word for k, start in zip(level, before) for word in (start, bodies_at + starts[k])]
        elements.append(before[-1])
    words = np.concatenate([np.array([*heads, *lists], np.int64), *bodies]) & 0xFFFFFFFF
    unit = np.frombuffer(one.tobytes().ljust(4 * HEADER, b"\0"), np.uint32)
    return np.concatenate([unit, words.astype(np.uint32)]), _dispatches(elements)


def _dispatches(elements: Sequence[int]) -> list[Dispatch]:
    found: list[Dispatch] = []
    for k, count in enumerate(elements):
        if count <= ONE_GROUP and found and found[-1].small:
            found[-1] = Dispatch(found[-1].first, k + 1, max(found[-1].elements, count))
        else:
            found.append(Dispatch(k, k + 1, count))
    return found


def unshared(sums: Sequence[Sum], workspace: int) -> tuple[Sequence[Sum], int]:
    """Return records that each write a part of the workspace of their own, and its size: half as many levels for grids.

    Large workspaces stay as they are, and those where a record reads what several wrote.
    """
    total = sum(each.size for each in sums if each.out.memory == w.WORKSPACE)
    if total > MOST_UNSHARED:
        return sums, workspace
    places: dict[int, tuple[int, int]] = {}
    made: list[Sum] = []
    end = 0
    for each in sums:
        out, *factors = each[:3]
        for k, operand in enumerate(factors):
            if operand.memory == w.WORKSPACE:
                first, size = places[operand.first]  # what is read begins where something was written
                if _touched(each, 1 + k)[1] > size:
                    return sums, workspace
                factors[k] = operand._replace(first=first)
        if out.memory == w.WORKSPACE:
            places[out.first] = end, each.size
            out, end = out._replace(first=end), end + each.size
        made.append(each._replace(out=out, a=factors[0], b=factors[1]))
    return made, total


def _levels(sums: Sequence[Sum], bases: Mapping[int, int]) -> list[list[int]]:
    """Return the numbers of the records of each level: the first one behind those of all that it must wait for."""
    blocks = np.array([_blocks(each, bases) for each in sums], np.int64).reshape(-1, 3, 2)
    level_of = np.zeros(len(sums), np.int64)
    levels: list[list[int]] = []
    for k, (own, *reads) in enumerate(blocks):
        before = blocks[:k]
        waits = np.zeros(k, bool)
        for first, last in (own, *reads):
            waits |= (before[:, 0, 0] < last) & (first < before[:, 0, 1])
        for read in (1, 2):
            waits |= (before[:, read, 0] < own[1]) & (own[0] < before[:, read, 1])
        level_of[k] = number = int(level_of[:k].max(initial=-1, where=waits)) + 1
        if number == len(levels):
            levels.append([])
        levels[number].append(k)
    return levels


def _blocks(each: Sum, bases: Mapping[int, int]) -> list[tuple[int, int]]:
    """Return the elements of the buffer, from the first to behind the last, that a record may touch of each tensor."""
    starts = [bases[operand.memory] + operand.first for operand in each[:3]]
    return [(start + least, start + end) for start, (least, end) in zip(starts, (_touched(each, k) for k in range(3)))]


def _touched(each: Sum, tensor: int) -> tuple[int, int]:
    """Return the same of one tensor, from its first element on."""
    steps = [axis[1 + tensor] * (axis.extent - 1) for axis in each.axes]
    offsets = each.offsets[:, tensor - 1] if tensor else np.zeros(1, np.int64)
    least, most = int(offsets.min()), int(offsets.max())
    return least + sum(s for s in steps if s < 0), most + sum(s for s in steps if s > 0) + 1


def _words(each: Sum, bases: Mapping[int, int]) -> np.ndarray:
    axes = [axis for axis in each.axes if axis.extent > 1]  # the strides of others may be any numbers
    kept = sorted((axis for axis in axes if axis.out), key=lambda axis: axis.out)
    (summed,) = [axis for axis in axes if not axis.out] or [Axis(1, 0, 0, 0)]  # only the inner axis may be summed
    places = [bases[operand.memory] + operand.first for operand in (each.out, each.a, each.b)]
    head = [*places, len(kept), summed.extent, summed.a, summed.b, len(each.offsets)]
    return np.array([*head, *(word for axis in kept for word in axis), *each.offsets.reshape(-1)], np.int64)
