"""Derivatives of tables of records, as tables of records.

A record is linear in each of its two factors. So in any semiring the cotangent of a factor is a sum of products of the
result's cotangent with the other factor, and the tangent of the result a sum of those of the factors with the other:
records again. In the semiring "log" these are logs of cotangents and tangents with respect to numbers, not their logs.
"""
from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Final

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.errors import DerivativeError
from jitfuse.ir.semirings import words as w
from jitfuse.ir.semirings.loops import MOST_OFFSETS, Axis, Operand, sum_of_products
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
_PARTS: Final = "semiring_sums has no derivative for tables with records that read a part of a tensor"
_Use = tuple[int, int]
"""A record, and which of its factors: 0 or 1."""


@lru_cache(maxsize=64)
def pulled_back(table: Table, operands: tuple[int, ...], wanted: tuple[int, ...], seeds: int) -> Table:
    """Return the table of cotangents of operands.

    Its operands are those of the table, then cotangents of its result (`seeds` of them), then a zero of the semiring.
    Its result has for each seed the cotangents of each wanted operand.

    Args:
        table: a valid table.
        operands: elements of each operand.
        wanted: the operands whose cotangents are wanted.
        seeds: the number of seeds.
    """
    tape = _Tape(table, operands)
    size = sum([operands[k] for k in wanted])
    depends = tape.depending(wanted)
    zero = Place(w.STACKS + len(operands) + seeds, 0)
    for seed in range(seeds):
        bases, base = {}, seed * size
        for k in wanted:
            bases[k] = base
            base += operands[k]
        _Cotangents(tape, depends, bases).pull(Place(w.STACKS + len(operands) + seed, 0), zero)
    return tape.table(seeds * size)


@lru_cache(maxsize=64)
def pushed_forward(table: Table, operands: tuple[int, ...], moved: tuple[int, ...], seeds: int) -> Table:
    """Return the table of tangents of the result.

    Its operands are those of the table, then `seeds` times the tangents of the moved operands, then a zero of the
    semiring. Its result has the tangents of the result for each seed.

    Args:
        table: a valid table.
        operands: elements of each operand.
        moved: the operands that have tangents.
        seeds: the number of seeds.
    """
    tape = _Tape(table, operands)
    zero = Place(w.STACKS + len(operands) + seeds * len(moved), 0)
    for seed in range(seeds):
        _Tangents(tape, moved, w.STACKS + len(operands) + seed * len(moved), seed * table.size).push(zero)
    return tape.table(seeds * table.size)


class _Tape:
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
                    raise DerivativeError(_PARTS)

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
            raise DerivativeError(_PARTS)
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
        """Write a record; more where so many indices are summed that some are summed first."""
        order = sorted([i for i, n in enumerate(extents) if n > 1], key=lambda i: -out.strides[i])
        out, a, b = (x._replace(strides=tuple([x.strides[i] for i in order])) for x in (out, a, b))
        extents = [extents[i] for i in order]
        kept = sum(map(bool, out.strides))
        several = len(order) - kept > 1
        record = sum_of_products(out, a, b, extents, MOST_OFFSETS if several else sys.maxsize)
        if record is not None:
            self._records.append(record)
            return
        first = kept + (len(order) - kept) // 2  # the axes from here on are summed first
        steps = [prod(extents[i + 1 : first]) for i in range(first)]
        between = Operand(*self.new(prod(extents[:first])), (*steps, *[0] * (len(order) - first)))
        self._write(between, a, b, extents)
        ones = Operand(*_ONE, (0,) * first)
        self._write(out._replace(strides=out.strides[:first]), between._replace(strides=tuple(steps)), ones,
                    extents[:first])


class _Tangents:
    """The way forward through a tape, from the tangents of operands to those of its result.

    Args:
        tape: the tape.
        moved: the operands that have tangents.
        first: the number of the memory of the first of these.
        base: where the tangents of the result begin.
    """

    def __init__(self, tape: _Tape, moved: Sequence[int], first: int, base: int) -> None:
        self._tape, self._depends = tape, tape.depending(moved)
        self._memories = {w.STACKS + k: first + n for n, k in enumerate(moved)}
        self._base = base
        self._places: dict[int, Place] = {}
        for k in self._depends:
            for side in (0, 1):
                if len(tape.sources[k][side]) > 1 and not self._depends.isdisjoint(tape.sources[k][side]):
                    self._places.update(tape.neighbours(k, side))

    def push(self, zero: Place) -> None:
        """Write the records; `zero` is one of the semiring."""
        tape = self._tape
        for k, each in enumerate(tape.made):
            if each.out.memory == w.RESULT:
                self._places[k] = Place(w.RESULT, self._base + each.out.first)
            if k not in self._depends:
                if k in self._places:
                    tape.fill(self._places[k], each.size, zero)
                continue
            if k not in self._places:
                self._places[k] = tape.new(each.size)
            place = self._places[k]
            found = [(side, tangent) for side in (0, 1) if (tangent := self._tangent(k, side)) is not None]
            blocks = tape.blocks(place, each.size, len(found))
            for (side, tangent), block in zip(found, blocks):
                tape.product(k, block, tangent, side)
            tape.join(place, each.size, blocks)

    def _tangent(self, k: int, side: int) -> Place | None:
        """Return where the tangent of a factor is; None: it does not move."""
        sources, factor = self._tape.sources[k][side], (self._tape.made[k].a, self._tape.made[k].b)[side]
        if sources:
            return None if self._depends.isdisjoint(sources) else self._places[sources[0]]
        memory = self._memories.get(factor.memory)
        return None if memory is None else Place(memory, factor.first)


class _Cotangents:
    """The way back through a tape, from the cotangents of its result to those of operands.

    `bases` says for each wanted operand where its cotangents begin in the result.
    """

    def __init__(self, tape: _Tape, depends: set[int], bases: Mapping[int, int]) -> None:
        self._tape, self._depends, self._bases = tape, depends, bases
        self._uses: dict[int | Place, list[_Use]] = {}
        self._live: set[int] = set()
        for k in reversed(range(len(tape.made))):
            if k in self._live or tape.made[k].out.memory == w.RESULT:
                self._live.add(k)
                for side in (0, 1):
                    self._live.update(tape.sources[k][side])
                    for target in self._targets(k, side):
                        self._uses.setdefault(target, []).append((k, side))

    def _targets(self, k: int, side: int) -> Sequence[int | Place]:
        """Return the records, or the place in an operand, that a factor consists of, if its cotangent is wanted."""
        sources, factor = self._tape.sources[k][side], (self._tape.made[k].a, self._tape.made[k].b)[side]
        if sources:
            return () if self._depends.isdisjoint(sources) else sources
        return (Place(factor.memory, factor.first),) if factor.memory - w.STACKS in self._bases else ()

    def pull(self, seed: Place, zero: Place) -> None:
        """Write the records; `seed` are the cotangents of the result, `zero` is one of the semiring."""
        tape, made = self._tape, self._tape.made
        terms: dict[_Use, Place] = {}
        totals: dict[int | Place, tuple[Place, int, list[Place]]] = {}
        for target, users in self._uses.items():
            if self._is_term(users[0]):
                continue
            size = self._size(target, users)
            seeded = isinstance(target, int) and made[target].out.memory == w.RESULT
            place = tape.new(size) if isinstance(target, int) else Place(
                w.RESULT, self._bases[target.memory - w.STACKS] + target.first)
            blocks = tape.blocks(place, size, len(users) + seeded)
            terms.update(zip(users, blocks))
            totals[target] = place, size, blocks
        found: dict[int, Place] = {}
        for k in sorted(self._live & self._depends, reverse=True):
            cotangent = Place(seed.memory, made[k].out.first)
            if k in self._uses and self._is_term(self._uses[k][0]):
                cotangent = found[self._uses[k][0][0]]
            elif k in totals:
                place, size, blocks = totals[k]
                if made[k].out.memory == w.RESULT:
                    tape.copy(blocks[-1], size, cotangent)
                tape.join(place, size, blocks)
                cotangent = place
            found[k] = cotangent
            for side in (0, 1):
                if (k, side) in terms:
                    tape.transposed(k, terms[k, side], cotangent, side)
        for target, (place, size, blocks) in totals.items():
            if isinstance(target, Place):
                tape.join(place, size, blocks)
        self._fill(totals, zero)

    def _is_term(self, use: _Use) -> bool:
        """Whether a record adds up what it reads so: the cotangent of each term is its own."""
        return len(self._tape.sources[use[0]][use[1]]) > 1

    def _size(self, target: int | Place, users: Sequence[_Use]) -> int:
        sizes = {self._tape.extent(*use) for use in users}
        if isinstance(target, int):
            sizes.add(self._tape.made[target].size)
        if len(sizes) > 1:
            raise DerivativeError(_PARTS)
        return sizes.pop()

    def _fill(self, totals: Mapping[int | Place, tuple[Place, int, list[Place]]], zero: Place) -> None:
        """Write zero where no record reads an operand."""
        for operand, base in self._bases.items():
            end = base
            for place, size in sorted((place, size) for target, (place, size, _) in totals.items()
                                      if isinstance(target, Place) and target.memory == w.STACKS + operand):
                if place.first < end:
                    raise DerivativeError(_PARTS)
                self._tape.fill(Place(w.RESULT, end), place.first - end, zero)
                end = place.first + size
            self._tape.fill(Place(w.RESULT, end), base + self._tape.operands[operand] - end, zero)


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
        raise DerivativeError(_PARTS)
    return axes
