"""Masks of the active lanes where a range ends inside a vector.

Owns: comparing lane numbers with what is left of the range, in integers that fill one register.
"""
from __future__ import annotations

from jitfuse.backends.llvm.builder import Function, Value, lanes
from jitfuse.backends.llvm.codegen.types import i64
from jitfuse.backends.llvm.math.lockstep import Batch


def tail_masks(f: Function, first: Value, stop: Value, width: int, count: int, vector_bytes: int) -> list[Value]:
    """Return, for each of `count` vectors from position `first` on, which lanes lie before `stop`."""
    if width == 1:
        return [f.icmp("slt", f.add(first, i64(j)), stop) for j in range(count)]
    element = f"i{min(64, 8 * vector_bytes // width)}"
    numbers = f.vector_const(element, range(width))
    left = f.sub(stop, first)
    masks = []
    for j in range(count):
        rest = f.sub(left, i64(j * width)) if j else left
        rest = f.intrinsic("smin", "i64", f.intrinsic("smax", "i64", rest, i64(0)), i64(width))
        rest = rest if element == "i64" else f.cast("trunc", rest, element)
        masks.append(f.icmp("ult", numbers, f.splat(rest, width)))
    return masks


def any_lane(condition: Batch) -> Value:
    """Return an i1: whether a condition holds in some lane of some vector."""
    f = condition.context.f
    every = condition.values[0]
    for v in condition.values[1:]:
        every = f.or_(every, v)
    return every if lanes(every.type) == 1 else f.intrinsic("vector.reduce.or", "i1", every, overload=[every.type])
