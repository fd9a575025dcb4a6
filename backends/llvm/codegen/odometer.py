"""Positions along several axes that advance together with one linear counter, in row-major order.

Owns: decoding a linear position once and stepping it without division.
"""
from __future__ import annotations

from collections.abc import Sequence

from jitfuse.backends.llvm.codegen.elements.types import i64
from jitfuse.backends.llvm.text.builder import Function, Loop, Value


def decode(f: Function, linear: Value, extents: Sequence[Value]) -> list[Value]:
    """Return the position along each axis of a linear position; extents are at least 1."""
    positions: list[Value] = []
    rest = linear
    for extent in reversed(extents[1:]):
        quotient = f.udiv(rest, extent)
        positions.append(f.sub(rest, f.mul(quotient, extent)))
        rest = quotient
    if extents:
        positions.append(rest)
    return positions[::-1]


class Odometer:
    """The positions of a loop's index, which the loop carries as its values from number `slot` on.

    Make it before the loop's body; call `advance` at its end.
    """

    def __init__(
        self, f: Function, loop: Loop, start: Sequence[Value], extents: Sequence[Value], slot: int = 0
    ) -> None:
        self._f = f
        self._loop = loop
        self._extents = extents
        self._slot = slot
        self.positions = [loop.carry(v) for v in start]

    def advance(self) -> None:
        """Step the last axis by one, and each axis whose next inner one wrapped around."""
        f = self._f
        wrapped: Value | None = None
        for k in reversed(range(len(self.positions))):
            step = i64(1) if wrapped is None else f.cast("zext", wrapped, "i64")
            following = f.add(self.positions[k], step)
            if k:
                wrapped = f.icmp("eq", following, self._extents[k])
                following = f.select(wrapped, i64(0), following)
            self._loop.update(self._slot + k, following)
