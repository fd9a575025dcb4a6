"""Carriers: the arithmetic of each semiring on vectors of numbers.

Owns product, sum, and the numbers that stand for zero and one. Does not own loops (`loops.py`).
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from jitfuse.backends.llvm.math import emit_many
from jitfuse.backends.llvm.math.double_double import less_product, two_product
from jitfuse.backends.llvm.math.lockstep import Context
from jitfuse.backends.llvm.text.builder import Function, Value, lanes
from jitfuse.base.records import Record

Fold = Callable[[Function, Value, Value, Value, "Shared"], Value]


class Shared(Record, frozen=True):
    """What all code of a function knows: whether there is fused multiply-add, and the modulus with its reciprocal."""

    has_fma: bool
    modulus: Value
    reciprocal: Value


class Carrier(Record, frozen=True):
    """A semiring over floats.

    fold     (function, sum, a, b, shared) -> sum + a * b
    add      (function, a, b, shared) -> a + b
    multiply (function, a, b, shared) -> a * b
    zero, one  the neutral numbers
    shifts   sums are those of exponentials, which are computed in two passes
    """

    fold: Fold
    add: Callable[[Function, Value, Value, Shared], Value]
    multiply: Callable[[Function, Value, Value, Shared], Value]
    zero: float
    one: float
    shifts: bool = False


def _plus(f: Function, a: Value, b: Value, shared: Shared) -> Value:
    return f.fadd(a, b)


def _times(f: Function, a: Value, b: Value, shared: Shared) -> Value:
    return f.fmul(a, b)


def _larger(f: Function, a: Value, b: Value, shared: Shared) -> Value:
    return f.select(f.fcmp("oge", a, b), a, b)


def _smaller(f: Function, a: Value, b: Value, shared: Shared) -> Value:
    return f.select(f.fcmp("ole", a, b), a, b)


def _plus_product(f: Function, total: Value, a: Value, b: Value, shared: Shared) -> Value:
    return f.fma(a, b, total) if shared.has_fma else f.fadd(total, f.fmul(a, b))


def _residue_product(f: Function, a: Value, b: Value, shared: Shared) -> Value:
    """Return a * b modulo the modulus p, exactly for residues below 2**49.

    The product is high + low; high - q p is exact for the rounded quotient q, and the sum lies within p of 0. Source:
    van der Hoeven, Lecerf and Quintin, "Modular SIMD arithmetic in Mathemagix", 2016.
    """
    context = Context(f, shared.has_fma)
    left, right, p, inverse = (context.batch([v]) for v in (
        a, b, *(f.splat(x, lanes(a.type)) for x in (shared.modulus, shared.reciprocal))))
    high, low = two_product(left, right)
    quotient = context.batch(emit_many(f, "floor", [(high * inverse).values], has_fma=shared.has_fma))
    return _within(f, (less_product(high, quotient, p) + low).values[0], p.values[0])


def _residue_sum(f: Function, a: Value, b: Value, shared: Shared) -> Value:
    return _within(f, f.fadd(a, b), f.splat(shared.modulus, lanes(a.type)))


def _within(f: Function, x: Value, p: Value) -> Value:
    """Return x in [-p, 2 p) as the residue of p that it is."""
    x = f.select(f.fcmp("oge", x, p), f.fsub(x, p), x)
    return f.select(f.fcmp("olt", x, f.const(x.type, 0.0)), f.fadd(x, p), x)


def _of(add: Callable[..., Value], multiply: Callable[..., Value]) -> Fold:
    return lambda f, total, a, b, shared: add(f, total, multiply(f, a, b, shared), shared)


TABLE: Final = {
    "sum_product": Carrier(_plus_product, _plus, _times, 0.0, 1.0),
    "max_product": Carrier(_of(_larger, _times), _larger, _times, 0.0, 1.0),
    "max_sum": Carrier(_of(_larger, _plus), _larger, _plus, -math.inf, 0.0),
    "min_sum": Carrier(_of(_smaller, _plus), _smaller, _plus, math.inf, 0.0),
    "log": Carrier(_of(_larger, _plus), _larger, _plus, -math.inf, 0.0, shifts=True),
    "modular": Carrier(_of(_residue_sum, _residue_product), _residue_sum, _residue_product, 0.0, 1.0),
}
"""By name; the sum of "log" is the largest, which its first pass finds."""


def shift_of(f: Function, largest: Value) -> Value:
    """Return what exponents are shifted by: the largest one; 0 where it is infinite, so that no NaN comes of it."""
    magnitude = f.intrinsic("fabs", largest.type, largest)
    return f.select(f.fcmp("one", magnitude, f.const(largest.type, math.inf)), largest, f.const(largest.type, 0.0))


def exponentials(f: Function, xs: Sequence[Value], shared: Shared) -> list[Value]:
    """Return exp of each vector."""
    return emit_many(f, "exp", [[x] for x in xs], has_fma=shared.has_fma, called=True)


def logarithms(f: Function, xs: Sequence[Value], shared: Shared) -> list[Value]:
    """Return log of each vector."""
    return emit_many(f, "log", [[x] for x in xs], has_fma=shared.has_fma, called=True)
