"""Tables of records that are steps of programs: which are valid, and what each record is.

A program may come from a file, so a table that native code runs must be proved harmless: every record keeps within its
memories, reads only what an earlier one wrote, and writes each element once.
"""
from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Final

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.errors import ArgumentError
from jitfuse.ir.semirings import words as w
from jitfuse.ir.semirings.loops import Axis, Operand

CARRIERS: Final = ("log", "sum_product")
"""Semirings that a step has: those with derivatives."""
_INNER: Final = {w.SPLAT: (1, 1, 0), w.PAIRS: (1, 1, 1), w.SUM_SPLAT: (0, 1, 0), w.SUM_PAIRS: (0, 1, 1)}
"""The strides of the inner axis that a kind takes for granted."""


class Sum(NamedTuple):
    """One record: result, factors, loops over axes, the inner one last, the offsets of a and b that are summed, and
    whether several threads may share the units.
    """

    out: Operand
    a: Operand
    b: Operand
    axes: tuple[Axis, ...]
    offsets: np.ndarray
    parallel: bool

    @property
    def size(self) -> int:
        """Elements of the result."""
        return prod([axis.extent for axis in self.axes if axis.out])


@lru_cache(maxsize=64)
def sums(records: bytes, operands: tuple[int, ...], workspace: int, size: int) -> tuple[Sum, ...]:
    """Return the records of a table.

    Args:
        records: the words of all records, each of eight bytes, little endian.
        operands: elements of each operand.
        workspace: elements of the workspace.
        size: elements of the result.

    Raises:
        ArgumentError: a table that is damaged or does not fit.
    """
    if len(records) % 8:
        raise ArgumentError(f"a table of records has {len(records)} bytes: they are no words of eight")
    table, start = np.frombuffer(records, "<i8"), 0
    found: list[Sum] = []
    memory = _Memory({w.WORKSPACE: workspace, w.RESULT: size}, operands)
    while start < len(table):
        length = int(table[start])
        if not w.AXES <= length <= len(table) - start:
            raise ArgumentError(f"record {len(found)} of a table has {length} words of {len(table) - start}")
        try:
            made = _sum(table[start : start + length])
            memory.run(made)
        except ArgumentError as error:
            raise ArgumentError(f"record {len(found)} of a table: {error}") from None
        found.append(made)
        start += length
    if memory.written(w.RESULT) != size:
        raise ArgumentError(f"a table of records writes {memory.written(w.RESULT)} of {size} elements of its result")
    return tuple(found)


def _sum(record: np.ndarray) -> Sum:
    """Return one record; raise ArgumentError where its words contradict each other."""
    words = record[: w.AXES].tolist()
    kind, rank, count = words[w.KIND], words[w.RANK], words[w.OFFSETS]
    if kind not in _INNER and kind != w.STRIDED:
        raise ArgumentError(f"no kind of loops is {kind}")
    if not 0 <= rank <= w.MAX_RANK or count < 1 or len(record) != w.AXES + 4 * rank + 2 * count:
        raise ArgumentError(f"{len(record)} words for {rank} axes and {count} offsets")
    outer = record[w.AXES : w.AXES + 4 * rank].reshape(rank, 4).tolist()
    axes = tuple([Axis(*axis) for axis in (*outer, words[w.EXTENT : w.EXTENT + 4])])
    if any(axis.extent < 1 or min(axis[1:]) < 0 for axis in axes):
        raise ArgumentError("an extent is below 1, or a stride below 0")
    if axes[-1][1:] != _INNER.get(kind, axes[-1][1:]):
        raise ArgumentError(f"its inner axis has strides {axes[-1][1:]}, which its kind does not have")
    if kind == w.STRIDED and axes[-1].extent > 1 and not axes[-1].out:
        raise ArgumentError("its inner axis is summed, which its kind does not do")
    if words[w.UNITS] != prod([axis.extent for axis in axes[:-1]]) or words[w.PARALLEL] not in (0, 1):
        raise ArgumentError(f"{words[w.UNITS]} units are not those of its axes")
    out, a, b = (Operand(words[at], words[at + 1], tuple([axis[1 + k] for axis in axes]))
                 for k, at in enumerate((w.OUT, w.A, w.B)))
    return Sum(out, a, b, axes, record[w.AXES + 4 * rank :].reshape(count, 2), bool(words[w.PARALLEL]))


class _Memory:
    """What the records so far have written: the first elements of blocks, in order, and where each ends."""

    def __init__(self, sizes: dict[int, int], operands: Sequence[int]) -> None:
        self._sizes = {**sizes, w.ONE: 1, **{w.STACKS + k: n for k, n in enumerate(operands)}}
        self._starts: dict[int, list[int]] = {memory: [] for memory in sizes}
        self._ends: dict[tuple[int, int], int] = {}

    def written(self, memory: int) -> int:
        """Return how many elements of a memory are written."""
        return sum(self._ends[memory, start] - start for start in self._starts[memory])

    def run(self, made: Sum) -> None:
        """Take note of what a record reads and writes; raise ArgumentError where it must not."""
        blocks = []
        for operand, offsets in ((made.a, made.offsets[:, 0]), (made.b, made.offsets[:, 1])):
            least, most = int(offsets.min()), int(offsets.max())
            most += sum([stride * (axis.extent - 1) for stride, axis in zip(operand.strides, made.axes)])
            blocks.append((operand.memory, *self._read(operand, least, most)))
        if made.out.memory not in self._starts:
            raise ArgumentError(f"memory {made.out.memory} is not to be written")
        if any(axis.extent > 1 and not axis.out for axis in made.axes[:-1]):
            raise ArgumentError("units of the same element")
        if not is_block(made.out, made.axes):
            raise ArgumentError("what it writes is no block of memory")
        first, last = made.out.first, made.out.first + made.size
        if first < 0 or last > self._sizes[made.out.memory]:
            raise ArgumentError(f"it writes the elements {first} to {last} of {self._sizes[made.out.memory]}")
        if any(memory == made.out.memory and start < last and first < end for memory, start, end in blocks):
            raise ArgumentError("it writes what it reads")
        self._write(made.out.memory, first, last)

    def _read(self, operand: Operand, least: int, most: int) -> tuple[int, int]:
        """Return the block, or neighbouring ones, that elements are read of.

        These are the elements from `least` to `most` behind the operand's first one.
        """
        memory, first = operand.memory, operand.first
        if memory not in self._sizes:
            raise ArgumentError(f"there is no memory {memory} to read")
        start, end = (0, self._sizes[memory])
        if memory in self._starts:
            start, end = first, self._ends.get((memory, first), first)
            while end <= first + most and (memory, end) in self._ends:
                end = self._ends[memory, end]
        if not start <= first + least <= first + most < end:
            raise ArgumentError(f"it reads the elements {first + least} to {first + most} of memory {memory}, where "
                                f"{start} to {end} hold anything")
        return start, end

    def _write(self, memory: int, first: int, last: int) -> None:
        starts = self._starts[memory]
        low, high = bisect_right(starts, first), bisect_left(starts, last)
        if low and self._ends[memory, starts[low - 1]] > first:
            low -= 1
        if memory == w.RESULT and low < high:
            raise ArgumentError("it writes elements of the result again")
        for start in starts[low:high]:
            del self._ends[memory, start]
        starts[low:high] = [first]
        self._ends[memory, first] = last


def is_block(operand: Operand, axes: Sequence[Axis]) -> bool:
    """Whether an operand's elements, each met once, are neighbours without gaps."""
    expected = 1
    for stride, extent in sorted((stride, axis.extent) for stride, axis in zip(operand.strides, axes) if stride):
        if extent == 1:
            continue
        if stride != expected:
            return False
        expected *= extent
    return True
