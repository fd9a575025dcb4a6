"""Blocks of elements: the sums of one unit along its inner axis, several vectors at a time.

Owns how elements are read, summed and written. Does not own the loop over units (`module.py`).
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from jitfuse.backends.llvm.semirings.carriers import Carrier, Shared, exponentials, logarithms, shift_of
from jitfuse.backends.llvm.text.builder import Function, Value, vector, with_element
from jitfuse.base.records import NamedTuple, Record
from jitfuse.ir.semirings.words import PAIRS, SPLAT, STRIDED, SUM_PAIRS

VECTORS = 4
"""Vectors that are summed at the same time: chains of sums that do not wait for each other."""
MANY_VECTORS, FEW_VECTORS = 8, 2
"""Where a number of b serves many vectors, and for what is left of these."""
STRIDED_LANES = 4
_ZERO, _ONE = Value("0", "i64"), Value("1", "i64")

Place = tuple[Value, Value, Value]
"""How many elements behind the first one of the result, of a and of b a vector begins."""


class Unit(NamedTuple):
    """One unit: where its tensors begin, the inner axis, and the offsets of what is summed."""

    out: Value
    a: Value
    b: Value
    extent: Value
    strides: tuple[Value, Value, Value]
    offsets: Value
    terms: Value


class Writer(Record, frozen=True, eq=False):
    """Writes the code of one kind of record into a function."""

    f: Function
    kind: int
    carrier: Carrier
    type: str
    width: int
    shared: Shared

    # ------------------------------------------------------------------ elements
    def _apart(self, base: Value, start: Value, stride: Value, lanes: int) -> list[Value]:
        """Return where elements some distance apart are: each a step behind the last one, with no multiplication."""
        found = [self.f.offset(base, start, self.type)]
        for _ in range(lanes - 1):
            found.append(self.f.offset(found[-1], stride, self.type))
        return found

    def _gathered(self, base: Value, start: Value, stride: Value, lanes: int) -> Value:
        """Return elements some distance apart: one by one, as the instruction for it is slower."""
        f = self.f
        found = [f.load(self.type, at) for at in self._apart(base, start, stride, lanes)]
        if lanes == 1:
            return found[0]
        whole = f.undef(vector(self.type, lanes))
        for lane, x in enumerate(found):
            whole = f.insert(whole, x, lane)
        return whole

    def _row(self, base: Value, index: Value, lanes: int, mask: Value | None, other: float) -> Value:
        f, type_ = self.f, vector(self.type, lanes)
        at, align = f.offset(base, index, self.type), _bytes(self.type)
        if mask is None:
            return f.load(type_, at, align)
        return f.masked_load(type_, at, mask, f.const(type_, other), align)

    def _terms(
        self, unit: Unit, at: tuple[Value, Value], starts: Sequence[Place], lanes: int, mask: Value | None,
    ) -> list[tuple[Value, Value]]:
        """Return the elements of a and b of each vector, the a and b of one summed index beginning at `at`.

        Where a mask is not set they are such that their product is zero.
        """
        f = self.f
        if self.kind == STRIDED:
            return [(self._gathered(at[0], a, unit.strides[1], lanes), self._gathered(at[1], b, unit.strides[2], lanes))
                    for _, a, b in starts]
        rows = [self._row(at[0], a, lanes, mask, self.carrier.zero) for _, a, _ in starts]
        if self.kind in (PAIRS, SUM_PAIRS):
            return [(a, self._row(at[1], b, lanes, mask, self.carrier.one)) for a, (_, _, b) in zip(rows, starts)]
        b = f.splat(f.load(self.type, at[1]), lanes)
        return [(a, b) for a in rows]

    def _summed(self, unit: Unit, number: Value) -> tuple[Value, Value]:
        """Return where the elements of a and b of a summed index begin."""
        f = self.f
        at = f.offset(unit.offsets, f.shl(number, _ONE), "i64")
        a, b = f.load("i64", at), f.load("i64", f.offset(at, 1, "i64"))
        return f.offset(unit.a, a, self.type), f.offset(unit.b, b, self.type)

    def _mask(self, index: Value, stop: Value) -> Value:
        f = self.f
        numbers = f.add(f.splat(index, self.width), f.vector_const("i64", range(self.width)))
        return f.icmp("slt", numbers, f.splat(stop, self.width))

    # ------------------------------------------------------------------ an inner axis that stays
    def kept(self, unit: Unit) -> None:
        """Write the sums of all elements of an inner axis of the result."""
        f = self.f
        lanes = STRIDED_LANES if self.kind == STRIDED else self.width
        done: Value = _ZERO
        for vectors in (VECTORS,) if self.carrier.shifts or self.kind == STRIDED else (MANY_VECTORS, FEW_VECTORS):
            block = f.const("i64", vectors * lanes)
            whole = f.mul(f.udiv(unit.extent, block), block)
            with f.loop(done, whole, vectors * lanes) as loop:
                self._block(unit, self._starts(unit, loop.index, vectors, lanes), lanes, None)
            done = whole
        if self.kind == STRIDED:
            with f.loop(done, unit.extent) as loop:
                self._block(unit, self._starts(unit, loop.index, 1, 1), 1, None)
            return
        with f.loop(done, unit.extent, lanes) as loop:
            self._block(unit, self._starts(unit, loop.index, 1, lanes), lanes, self._mask(loop.index, unit.extent))

    def _starts(self, unit: Unit, index: Value, vectors: int, lanes: int) -> list[Place]:
        f = self.f
        found = [f.add(index, f.const("i64", u * lanes)) if u else index for u in range(vectors)]
        if self.kind != STRIDED:
            return [(i, i, i) for i in found]
        out, a, b = unit.strides
        return [(f.mul(i, out), f.mul(i, a), f.mul(i, b)) for i in found]

    def _block(self, unit: Unit, starts: Sequence[Place], lanes: int, mask: Value | None) -> None:
        f, carrier = self.f, self.carrier
        type_ = vector(self.type, lanes)

        def over(initial: float, step: Callable[[list[Value], list[tuple[Value, Value]]], list[Value]]) -> list[Value]:
            """Return what the summed indices make of numbers, one for each vector."""
            first = f.const(type_, initial)
            with f.loop(_ZERO, unit.terms) as loop:
                held = [loop.carry(first) for _ in starts]
                terms = self._terms(unit, self._summed(unit, loop.index), starts, lanes, mask)
                for k, value in enumerate(step(held, terms)):
                    loop.update(k, value)
            return [loop.result(k) for k in range(len(starts))]

        sums = over(carrier.zero, self._folded)
        if carrier.shifts:
            alone, several, end = f.fresh("alone"), f.fresh("several"), f.fresh("stored")
            f.cond_br(f.icmp("eq", unit.terms, _ONE), alone, several)
            f.label(several)
            shifts = [shift_of(f, x) for x in sums]
            totals = over(0.0, lambda held, terms: self._exponentials(held, terms, shifts))
            logs = [f.fadd(x, shift) for x, shift in zip(logarithms(f, totals, self.shared), shifts)]
            last = f.block
            f.br(end)
            f.label(alone)
            f.label(end)
            sums = [f.phi(type_, [(x, last), (y, alone)]) for x, y in zip(logs, sums)]
        for (start, _, _), value in zip(starts, sums):
            self._store(unit, start, value, lanes, mask)

    def _folded(self, held: list[Value], terms: list[tuple[Value, Value]]) -> list[Value]:
        return [self.carrier.fold(self.f, x, a, b, self.shared) for x, (a, b) in zip(held, terms)]

    def _exponentials(
        self, held: list[Value], terms: list[tuple[Value, Value]], shifts: Sequence[Value]
    ) -> list[Value]:
        f = self.f
        exponents = [f.fsub(f.fadd(a, b), shift) for (a, b), shift in zip(terms, shifts)]
        return [f.fadd(x, e) for x, e in zip(held, exponentials(f, exponents, self.shared))]

    def _store(self, unit: Unit, start: Value, value: Value, lanes: int, mask: Value | None) -> None:
        f, align = self.f, _bytes(self.type)
        if self.kind == STRIDED:
            for lane, at in enumerate(self._apart(unit.out, start, unit.strides[0], lanes)):
                f.store(value if lanes == 1 else f.extract(value, lane), at)
            return
        at = f.offset(unit.out, start, self.type)
        if mask is None:
            f.store(value, at, align)
        else:
            f.masked_store(value, at, mask, align)

    # ------------------------------------------------------------------ an inner axis that is summed
    def summed(self, unit: Unit) -> None:
        """Write the one number that a unit sums to."""
        f, carrier = self.f, self.carrier
        total = self._over_all(unit, carrier.zero, self._folded, self._joined)
        if carrier.shifts:
            shift = shift_of(f, total)
            shifts = [f.splat(shift, self.width)] * VECTORS
            mass = self._over_all(unit, 0.0, lambda held, terms: self._exponentials(held, terms, shifts), f.fadd)
            total = f.fadd(logarithms(f, [mass], self.shared)[0], shift)
        f.store(total, unit.out)

    def _joined(self, a: Value, b: Value) -> Value:
        return self.carrier.add(self.f, a, b, self.shared)

    def _over_all(
        self, unit: Unit, initial: float, step: Callable[[list[Value], list[tuple[Value, Value]]], list[Value]],
        join: Callable[[Value, Value], Value],
    ) -> Value:
        """Return what all summed indices and all elements of the inner axis make of a number."""
        f, lanes = self.f, self.width
        first = f.const(vector(self.type, lanes), initial)
        block = f.const("i64", VECTORS * lanes)
        whole = f.mul(f.udiv(unit.extent, block), block)
        with f.loop(_ZERO, unit.terms) as outer:
            held = [outer.carry(first) for _ in range(VECTORS)]
            at = self._summed(unit, outer.index)
            with f.loop(_ZERO, whole, VECTORS * lanes) as loop:
                own = [loop.carry(x) for x in held]
                starts = self._starts(unit, loop.index, VECTORS, lanes)
                for k, value in enumerate(step(own, self._terms(unit, at, starts, lanes, None))):
                    loop.update(k, value)
            with f.loop(whole, unit.extent, lanes) as tail:
                own = [tail.carry(loop.result(0))]
                terms = self._terms(unit, at, self._starts(unit, tail.index, 1, lanes), lanes,
                                    self._mask(tail.index, unit.extent))
                tail.update(0, step(own, terms)[0])
            for k in range(VECTORS):
                outer.update(k, loop.result(k) if k else tail.result(0))
        parts = [f.extract(outer.result(k), lane) if lanes > 1 else outer.result(k)
                 for k in range(VECTORS) for lane in range(lanes)]
        while len(parts) > 1:
            parts = [join(a, b) for a, b in zip(parts[::2], parts[1::2])]
        return parts[0]

    # ------------------------------------------------------------------ the scale of a tensor
    def extremes(self, unit: Unit, least: Value | None, parts: Value | None = None) -> None:
        """Write the scale of each tensor of a batch, and behind all of them one over each.

        The smallest of both and of the elements but 0, over the scale, goes to `least` if it is smaller than what is
        there. With `parts`, the largest elements are written, and so many elements behind them the smallest ones.
        """
        f = self.f
        alone, many, end = f.fresh("alone"), f.fresh("many"), f.fresh("scaled")
        f.cond_br(f.icmp("eq", unit.extent, _ONE), alone, many)
        f.label(alone)
        one = unit._replace(extent=unit.terms, terms=_ONE)
        largest = self._over_all(one, 0.0, self._folded_larger, self._larger)
        smallest = self._over_all(one._replace(a=unit.b), math.inf, self._folded_smaller, self._smaller)
        found = self._written(unit.out, (largest, smallest), parts, unit.extent, None)
        if least is not None:
            self._keep_least(found, least)
        f.br(end)
        f.label(many)
        self._lanes_extremes(unit, least, parts)
        f.label(end)

    def _lanes_extremes(self, unit: Unit, least: Value | None, parts: Value | None) -> None:
        f, type_ = self.f, vector(self.type, self.width)
        with f.loop(_ZERO, unit.extent, self.width) as loop:
            held = loop.carry(f.const(type_, math.inf))
            mask = self._mask(loop.index, unit.extent)
            with f.loop(_ZERO, unit.terms) as rows:
                large, small = rows.carry(f.const(type_, 0.0)), rows.carry(f.const(type_, math.inf))
                at = f.add(f.mul(rows.index, unit.extent), loop.index)
                rows.update(0, self._larger(large, self._row(unit.a, at, self.width, mask, 0.0)))
                rows.update(1, self._smaller_but_zero(small, self._row(unit.b, at, self.width, mask, 0.0)))
            place = f.offset(unit.out, loop.index, self.type)
            found = self._written(place, (rows.result(0), rows.result(1)), parts, unit.extent, mask)
            loop.update(0, self._smaller(held, found))
        if least is not None:
            lanes = loop.result(0)
            total = f.extract(lanes, 0) if self.width > 1 else lanes
            for lane in range(1, self.width):
                total = self._smaller(total, f.extract(lanes, lane))
            self._keep_least(total, least)

    def _written(
        self, out: Value, extremes: tuple[Value, Value], parts: Value | None, batch: Value, mask: Value | None
    ) -> Value:
        """Write what is asked for of extremes, and return the least of all numbers that must stay in range."""
        f, (largest, smallest) = self.f, extremes
        scale = self._scale(largest)
        reciprocal = f.fdiv(f.const(scale.type, 1.0), scale)
        numbers = (scale, reciprocal) if parts is None else extremes
        for number, at in zip(numbers, (out, f.offset(out, batch if parts is None else parts, self.type))):
            if mask is None:
                f.store(number, at)
            else:
                f.masked_store(number, at, mask, _bytes(self.type))
        return self._smaller(f.fdiv(smallest, scale), self._smaller(scale, reciprocal))

    def _keep_least(self, x: Value, least: Value) -> None:
        """Write a positive number where it is smaller than what is there, while others do: as integers, its bits have
        the same order.
        """
        integer = "i64" if self.type == "double" else "i32"
        bits = self.f.cast("bitcast", x, integer)
        self.f.value(integer, f"atomicrmw umin ptr {least.ref}, {integer} {bits.ref} monotonic")

    def _folded_larger(self, held: list[Value], terms: list[tuple[Value, Value]]) -> list[Value]:
        return [self._larger(x, a) for x, (a, _) in zip(held, terms)]

    def _folded_smaller(self, held: list[Value], terms: list[tuple[Value, Value]]) -> list[Value]:
        return [self._smaller_but_zero(x, a) for x, (a, _) in zip(held, terms)]

    def _larger(self, a: Value, b: Value) -> Value:
        return self.f.select(self.f.fcmp("oge", a, b), a, b)

    def _smaller(self, a: Value, b: Value) -> Value:
        return self.f.select(self.f.fcmp("ole", a, b), a, b)

    def _smaller_but_zero(self, least: Value, x: Value) -> Value:
        f = self.f
        counts = f.and_(f.fcmp("ogt", x, f.const(x.type, 0.0)), f.fcmp("olt", x, least))
        return f.select(counts, x, least)

    def _scale(self, largest: Value) -> Value:
        """Return the power of two next above numbers, so that quotients are at most 1; 1 for 0, denormals, infinity."""
        f, integer = self.f, with_element(largest.type, "i64" if self.type == "double" else "i32")
        exponent = 0x7FF << 52 if self.type == "double" else 0xFF << 23
        power = f.cast("bitcast", f.and_(f.cast("bitcast", largest, integer), f.const(integer, exponent)), largest.type)
        power = f.fmul(power, f.const(power.type, 2.0))
        usable = f.and_(f.fcmp("ogt", power, f.const(largest.type, 0.0)),
                        f.fcmp("olt", power, f.const(largest.type, math.inf)))
        return f.select(usable, power, f.const(largest.type, 1.0))


def _bytes(type_: str) -> int:
    return 4 if type_ == "float" else 8


KEPT = frozenset({SPLAT, PAIRS, STRIDED})
"""Kinds whose inner axis is one of the result."""
