"""Masks of the active lanes where a range ends inside a vector.

Owns: comparing lane numbers with the rest of the range, in integers that fill one register.
"""
from __future__ import annotations

from collections.abc import Sequence

from jitfuse.backends.llvm.codegen.elements.types import i64
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.text.builder import Function, Value, lanes


def tail_masks(f: Function, first: Value, stop: Value, width: int, count: int, vector_bytes: int) -> list[Value]:
    """Return, for each of `count` vectors from position `first` on, which lanes lie before `stop`."""
    if width == 1:
        return [f.icmp("slt", f.add(first, i64(j)), stop) for j in range(count)]
    left = f.sub(stop, first)
    rests = [_clamped(f, f.sub(left, i64(j * width)) if j else left, width) for j in range(count)]
    return _lanes_below(f, rests, width, vector_bytes)


def rest_masks(f: Function, rest: Value, width: int, count: int, vector_bytes: int) -> list[Value]:
    """Return the masks of the first `rest` lanes of `count` vectors; `rest` is less than all."""
    if width == 1 or count > 1:
        return tail_masks(f, i64(0), rest, width, count, vector_bytes)
    return _lanes_below(f, [rest], width, vector_bytes)


def _clamped(f: Function, count: Value, width: int) -> Value:
    return f.intrinsic("smin", "i64", f.intrinsic("smax", "i64", count, i64(0)), i64(width))


def _lanes_below(f: Function, counts: Sequence[Value], width: int, vector_bytes: int) -> list[Value]:
    element = f"i{min(64, 8 * vector_bytes // width)}"
    numbers = f.vector_const(element, range(width))
    narrow = [n if element == "i64" else f.cast("trunc", n, element) for n in counts]
    return [f.icmp("ult", numbers, f.splat(n, width)) for n in narrow]


def any_lane(condition: Batch) -> Value:
    """Return an i1: whether a condition holds in some lane of some vector."""
    f = condition.context.f
    every = condition.values[0]
    for v in condition.values[1:]:
        every = f.or_(every, v)
    return every if lanes(every.type) == 1 else f.intrinsic("vector.reduce.or", "i1", every, overload=[every.type])
