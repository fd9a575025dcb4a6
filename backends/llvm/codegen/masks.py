"""Masks of the active lanes where a range ends inside a vector.

Owns: comparing lane numbers with what is left of the range, in integers that fill one register.
"""
from __future__ import annotations

from jitfuse.backends.llvm.builder import Function, Value
from jitfuse.backends.llvm.codegen.types import i64


def tail_masks(f: Function, first: Value, stop: Value, lanes: int, count: int, vector_bytes: int) -> list[Value]:
    """Return, for each of `count` vectors from position `first` on, which lanes lie before `stop`."""
    if lanes == 1:
        return [f.icmp("slt", f.add(first, i64(j)), stop) for j in range(count)]
    element = f"i{min(64, 8 * vector_bytes // lanes)}"
    numbers = f.vector_const(element, range(lanes))
    left = f.sub(stop, first)
    masks = []
    for j in range(count):
        rest = f.sub(left, i64(j * lanes)) if j else left
        rest = f.intrinsic("smin", "i64", f.intrinsic("smax", "i64", rest, i64(0)), i64(lanes))
        rest = rest if element == "i64" else f.cast("trunc", rest, element)
        masks.append(f.icmp("ult", numbers, f.splat(rest, lanes)))
    return masks
