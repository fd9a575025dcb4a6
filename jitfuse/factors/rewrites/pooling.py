"""Register pooling: which registers share memory, and how much of it a program needs.

Registers stay as they are, each written once. A pool says where each may lie.
"""
from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from typing import Final

from jitfuse.base.records import Record
from jitfuse.factors.ir.schema import OpCode, Program, RegID

ITEMSIZE: Final = 8
"""Bytes of a float64."""


class Pool(Record, frozen=True):
    """Memory that registers share.

    entries  the entry of each register; registers that live at once have different ones
    sizes    the bytes of each entry: those of its largest register
    before   bytes where every register has memory of its own
    live     bytes of the registers that live at once, at most: no pool can do with less
    """

    entries: Mapping[RegID, int]
    sizes: tuple[int, ...]
    before: int
    live: int

    @property
    def after(self) -> int:
        """Bytes of the pool."""
        return sum(self.sizes)


def pool(program: Program, itemsize: int = ITEMSIZE) -> Pool:
    """Return entries for all registers: each takes the smallest free entry that holds it, or else the largest grows.

    Example:
        >>> from jitfuse.factors.ir.text import from_text
        >>> pool(from_text("UNIT dst=0 spec=()\\nFREE srcs=(0)\\nUNIT dst=1 spec=(v0:2)\\nFREE srcs=(1)"))
        Pool(entries={0: 0, 1: 0}, sizes=(16,), before=24, live=16)
    """
    entries: dict[RegID, int] = {}
    sizes: list[int] = []
    free: list[tuple[int, int]] = []
    before = 0
    for register, size in _changes(program, itemsize):
        if size < 0:
            entry = entries[register]
            insort(free, (sizes[entry], entry))
            continue
        before += size
        at = bisect_left(free, (size, -1))
        if free:
            _, entry = free.pop(min(at, len(free) - 1))
            sizes[entry] = max(sizes[entry], size)
        else:
            entry = len(sizes)
            sizes.append(size)
        entries[register] = entry
    return Pool(entries, tuple(sizes), before, peak(program, itemsize))


def peak(program: Program, itemsize: int = ITEMSIZE) -> int:
    """Return the bytes of the registers that live at once, at most. Factors that are loaded count, slots do not."""
    live = most = 0
    for _, size in _changes(program, itemsize):
        live += size
        most = max(most, live)
    return most


def _changes(program: Program, itemsize: int) -> Iterator[tuple[RegID, int]]:
    """Yield each register with its bytes where it is made, and with minus these where it is freed."""
    sizes: dict[RegID, int] = {}
    for instruction in program.instructions:
        if instruction.op is OpCode.FREE:
            yield from ((register, -sizes[register]) for register in instruction.args["srcs"])
        elif instruction.dst is not None and instruction.spec is not None:
            sizes[instruction.dst] = instruction.spec.size * itemsize
            yield instruction.dst, sizes[instruction.dst]
