"""The tape of a table of records: every value in a place of its own, so that other records can read all of them.

Owns what a factor of a record consists of, and how records are written again with other tensors.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.errors import DerivativeError
from jitfuse.ir.semirings import words as w
from jitfuse.ir.semirings.loops import Axis, Operand, sum_of_products
from jitfuse.ir.semirings.tables import is_block, sums


class Table(NamedTuple):
    """A table of records, elements of its workspace and of its result."""

    records: bytes
    workspace: int
    size: int


class Place(NamedTuple):
    """Where a block of elements begins."""

    memory: int
    first: int


_ONE: Final = Place(w.ONE, 0)
PARTS: Final = "semiring_sums has no derivative for tables with records that read a part of a tensor"


class Tape:
    """A table with a place for each value, and the records that are written behind it."""

    def __init__(self, table: Table, operands: tuple[int, ...]) -> None:
        self.made = sums(table.records, operands, table.workspace, table.size)
        self.operands = operands
        self.loops = [(*each.axes, *_offset_axes(each.offsets)) for each in self.made]
        self.sources: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        """For each record those that wrote its factors, several if these are neighbours; none: it is an operand."""
        self.size = 0
        self._values: dict[int, Place] = {}
        writers: dict[Place, int] = {}
        for k, each in enumerate(self.made):
            self.sources.append((self._sources(k, 0, writers), self._sources(k, 1, writers)))
            writers[Place(each.out.memory, each.out.first)] = k
        self._check()
        self._records: list[np.ndarray] = []

    def _sources(self, k: int, side: int, writers: Mapping[Place, int]) -> tuple[int, ...]:
        factor, found, size = (self.made[k].a, self.made[k].b)[side], [], 0
        while (writer := writers.get(Place(factor.memory, factor.first + size))) is not None:
            found.append(writer)
            size += self.made[writer].size
            if size >= self.extent(k, side):
                break
        return tuple(found)

    def _check(self) -> None:
        """Raise DerivativeError where a record reads a part of a tensor, or neighbours that it does not just add up."""
        counts = Counter(source for pair in self.sources for sources in pair for source in sources)
        for k, pair in enumerate(self.sources):
            for side, sources in enumerate(pair):
                sizes = [self.made[source].size for source in sources]
                whole = not sources or sum(sizes) == self.extent(k, side)
                if not whole or (len(sources) > 1 and (side or not self._joins(k, sources, counts))):
                    raise DerivativeError(PARTS)

    def _joins(self, k: int, sources: Sequence[int], counts: Mapping[int, int]) -> bool:
        """Whether a record is the sum of these tensors, which nothing else reads."""
        made = self.made[k]
        same = made.b.memory == w.ONE and all(axis.out in (0, axis.a) for axis in self.loops[k])
        return same and all(counts[source] == 1 and self.made[source].out.memory == w.WORKSPACE
                            and self.made[source].size == made.size for source in sources)

    def depending(self, operands: Sequence[int]) -> set[int]:
        """Return the records whose results depend on any of these operands."""
        found: set[int] = set()
        for k, each in enumerate(self.made):
            if any(not found.isdisjoint(s) if s else x.memory - w.STACKS in operands
                   for s, x in zip(self.sources[k], (each.a, each.b))):
                found.add(k)
        return found

    def table(self, size: int) -> Table:
        """Return the records that were written, behind those that make the values that they read."""
        written, self._records = self._records, []
        for k in reversed(range(len(self.made))):
            if k in self._values:
                self.value(k, 0)
                self.value(k, 1)
        for k, place in sorted(self._values.items()):
            self._sum(k, [x.out for x in self.loops[k]], place, self.value(k, 0), self.value(k, 1))
        records = np.concatenate([*self._records, *written, np.zeros(0, np.int64)])
        return Table(records.astype("<i8").tobytes(), self.size, size)

    # ------------------------------------------------------------------ memory
    def new(self, size: int) -> Place:
        """Return a block of the workspace."""
        self.size += size
        return Place(w.WORKSPACE, self.size - size)

    def neighbours(self, k: int, side: int) -> dict[int, Place]:
        """Return new places for all that a factor consists of, one behind the other."""
        return {source: self.new(self.made[source].size) for source in self.sources[k][side]}

    def strides(self, k: int, side: int) -> list[int]:
        """Return the strides of a factor, of which all elements are read."""
        axes = self.loops[k]
        strides = [axis[2 + side] for axis in axes]
        if not is_block(Operand(*_ONE, tuple(strides)), axes):
            raise DerivativeError(PARTS)
        return strides

    def extent(self, k: int, side: int) -> int:
        """Return the elements of a factor."""
        return prod([axis.extent for axis in self.loops[k] if axis[2 + side]])

    def value(self, k: int, side: int) -> Operand:
        """Return a factor of a record."""
        sources, given = self.sources[k][side], (self.made[k].a, self.made[k].b)[side]
        place = Place(given.memory, given.first)
        if sources:
            if sources[0] not in self._values:
                self._values.update(self.neighbours(k, side))
            place = self._values[sources[0]]
        return Operand(*place, tuple([axis[2 + side] for axis in self.loops[k]]))

    # ------------------------------------------------------------------ records
    def product(self, k: int, out: Place, factor: Place, side: int) -> None:
        """Write a record again, with another tensor in place of one of its factors."""
        tensor = Operand(*factor, tuple([axis[2 + side] for axis in self.loops[k]]))
        self._sum(k, [x.out for x in self.loops[k]], out, tensor, self.value(k, 1 - side))

    def transposed(self, k: int, out: Place, cotangent: Place, side: int) -> None:
        """Write the cotangent of a factor of a record, from that of its result."""
        given = Operand(*cotangent, tuple([axis.out for axis in self.loops[k]]))
        self._sum(k, self.strides(k, side), out, given, self.value(k, 1 - side))

    def blocks(self, place: Place, size: int, count: int) -> list[Place]:
        """Return where terms of a sum are written: the place of the sum itself if there is only one."""
        return [place] if count == 1 else [self.new(size) for _ in range(count)]

    def join(self, place: Place, size: int, blocks: Sequence[Place]) -> None:
        """Write the sum of blocks, which are neighbours."""
        if len(blocks) > 1:
            self._write(Operand(*place, (1, 0)), Operand(*blocks[0], (1, size)), Operand(*_ONE, (0, 0)),
                        [size, len(blocks)])

    def fill(self, place: Place, size: int, number: Place) -> None:
        """Write one number to all elements of a block."""
        if size:
            self._write(Operand(*place, (1,)), Operand(*number, (0,)), Operand(*_ONE, (0,)), [size])

    def copy(self, place: Place, size: int, source: Place) -> None:
        """Write a block's elements to another."""
        self._write(Operand(*place, (1,)), Operand(*source, (1,)), Operand(*_ONE, (0,)), [size])

    def _sum(self, k: int, strides: Sequence[int], out: Place, a: Operand, b: Operand) -> None:
        self._write(Operand(*out, tuple(strides)), a, b, [axis.extent for axis in self.loops[k]])

    def _write(self, out: Operand, a: Operand, b: Operand, extents: Sequence[int]) -> None:
        """Write a sum of products, with axes in any order."""
        order = sorted([i for i, n in enumerate(extents) if n > 1], key=lambda i: -out.strides[i])
        out, a, b = (x._replace(strides=tuple([x.strides[i] for i in order])) for x in (out, a, b))
        self._records += sum_of_products(out, a, b, [extents[i] for i in order], self.new)


def _offset_axes(offsets: np.ndarray) -> list[Axis]:
    """Return the axes whose indices, in C order, have these offsets in a and b."""
    axes: list[Axis] = []
    rest = offsets
    while len(rest) > 1:
        step = rest[1] - rest[0]
        breaks = np.flatnonzero((np.diff(rest, axis=0) != step).any(axis=1))
        run = int(breaks[0]) + 1 if len(breaks) else len(rest)
        axes.insert(0, Axis(run, 0, int(step[0]), int(step[1])))
        rest = rest[::run]
    again = np.zeros((1, 2), np.int64)
    for axis in axes:
        again = (again[:, None] + np.arange(axis.extent)[:, None] * np.array(axis[2:])).reshape(-1, 2)
    if not np.array_equal(again, offsets) or any(min(axis) < 0 for axis in axes):
        raise DerivativeError(PARTS)
    return axes
