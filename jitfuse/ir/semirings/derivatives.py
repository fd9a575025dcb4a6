"""Derivatives of tables of records, as tables of records.

A record is linear in each of its two factors. So in any semiring the cotangent of a factor is a sum of products of the
result's cotangent with the other factor, and the tangent of the result a sum of those of the factors with the other:
records again. In the semiring "log" these are logs of cotangents and tangents with respect to numbers, not their logs.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from jitfuse.errors import DerivativeError
from jitfuse.ir.semirings import words as w
from jitfuse.ir.semirings.tape import PARTS, Place, Table, Tape

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
    tape = Tape(table, operands)
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
    tape = Tape(table, operands)
    zero = Place(w.STACKS + len(operands) + seeds * len(moved), 0)
    for seed in range(seeds):
        _Tangents(tape, moved, w.STACKS + len(operands) + seed * len(moved), seed * table.size).push(zero)
    return tape.table(seeds * table.size)


class _Tangents:
    """The way forward through a tape, from the tangents of operands to those of its result.

    Args:
        tape: the tape.
        moved: the operands that have tangents.
        first: the number of the memory of the first of these.
        base: where the tangents of the result begin.
    """

    def __init__(self, tape: Tape, moved: Sequence[int], first: int, base: int) -> None:
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

    def __init__(self, tape: Tape, depends: set[int], bases: Mapping[int, int]) -> None:
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
            raise DerivativeError(PARTS)
        return sizes.pop()

    def _fill(self, totals: Mapping[int | Place, tuple[Place, int, list[Place]]], zero: Place) -> None:
        """Write zero where no record reads an operand."""
        for operand, base in self._bases.items():
            end = base
            for place, size in sorted((place, size) for target, (place, size, _) in totals.items()
                                      if isinstance(target, Place) and target.memory == w.STACKS + operand):
                if place.first < end:
                    raise DerivativeError(PARTS)
                self._tape.fill(Place(w.RESULT, end), place.first - end, zero)
                end = place.first + size
            self._tape.fill(Place(w.RESULT, end), base + self._tape.operands[operand] - end, zero)
