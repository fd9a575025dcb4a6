"""The meaning of a re-rolled loop: iterations over windows of arrays that move on by a fixed number of elements.

Owns the windows (`IterationWindow`) and the operator's reference. Does not own the row
(`jitfuse.ir.operators.control`), nor how loops are found (`jitfuse.tracing.control.reroll.rerolling`).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.errors import ArgumentError
from jitfuse.ir.semantics.control import Array, Body


class IterationWindow(NamedTuple):
    """A window into an operand in C order: in iteration k it begins at element `offset` + k * `step`.

    operand  the number of an array that the loop writes; numbers beyond those are arrays that it only reads
    weak     1 if the window counts as a Python number
    shape    the window's extents, and `strides` in elements
    """

    operand: int
    offset: int
    step: int
    weak: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def coded(self) -> tuple[int, ...]:
        """Return the window as an attribute's value."""
        return (self.operand, self.offset, self.step, self.weak, *self.shape, *self.strides)

    @property
    def reach(self) -> tuple[int, int]:
        """The first element and one past the last one that the window touches, relative to its start."""
        if 0 in self.shape:
            return 0, 0
        ends = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        return sum(e for e in ends if e < 0), sum(e for e in ends if e > 0) + 1

    def within(self, size: int, length: int) -> bool:
        """Return whether `length` iterations stay within an array of `size` elements."""
        low, high = self.reach
        offsets = (self.offset, self.offset + max(length - 1, 0) * self.step)
        return not length or low == high or (min(offsets) + low >= 0 and max(offsets) + high <= size)

    @property
    def contiguous(self) -> bool:
        """Whether the elements are adjacent."""
        expected = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and stride != expected:
                return False
            expected *= n
        return True


def accesses(coded: Sequence[Sequence[int]]) -> list[IterationWindow]:
    """Return the windows that an attribute encodes; raise ArgumentError if it encodes none."""
    found = []
    for window in coded:
        rank, weak, rest = (len(window) - 4) // 2, tuple(window[3:4]), tuple(window[4:])
        shape, strides = rest[: max(rank, 0)], rest[max(rank, 0) :]
        fits = len(shape) == len(strides) and min(shape, default=0) >= 0
        if not fits or weak not in ((0,), (1,)) or (weak == (1,) and rest):
            raise ArgumentError(f"rolled_loop: {window} is no window")
        found.append(IterationWindow(window[0], window[1], window[2], window[3], shape, strides))
    return found


def rolled_loop(
    *operands: Array, body: Body, carries: int, arrays: int, length: int, reads: Sequence[Sequence[int]],
    writes: Sequence[Sequence[int]],
) -> tuple[Array, ...]:
    """Return the carried values and the written arrays after `length` iterations.

    All windows are read before any is written.
    """
    carried = operands[:carries]
    held = [_owned(x) for x in operands[carries : carries + arrays]]
    sources = [*held, *[_in_c_order(x) for x in operands[carries + arrays :]]]
    for k in range(length):
        parts = [_part(sources[read[0]], read, k, read[0] < arrays) for read in reads]
        made = body(*carried, *parts, *sources)
        if held:
            made = tuple([_owned(x) for x in made])  # it may be a view of memory that is written now
        carried = made[:carries]
        for write, value in zip(writes, made[carries:], strict=True):
            _window(held[write[0]], write, k)[...] = value
    return (*carried, *held)


def _part(x: Array, access: Sequence[int], k: int, written: bool) -> Any:
    window = _window(x, access, k)
    if access[3]:
        return window.item()
    return _owned(window) if written else window


def _window(x: Array, access: Sequence[int], k: int) -> Array:
    """Return the window that an attribute's value (`IterationWindow.coded`) describes, in iteration k."""
    rank = (len(access) - 4) // 2
    shape, strides = access[4 : 4 + rank], access[4 + rank :]
    offset = access[1] + k * access[2]
    if not isinstance(x, np.ndarray):
        return x.as_strided(shape, strides, offset)
    return np.ndarray(shape, x.dtype, x, offset * x.itemsize, tuple([s * x.itemsize for s in strides]))


def _owned(x: Array) -> Array:
    return x.contiguous().clone() if hasattr(x, "clone") else np.array(x, order="C")


def _in_c_order(x: Array) -> Array:
    return x.contiguous() if hasattr(x, "contiguous") else np.asarray(x, order="C")
