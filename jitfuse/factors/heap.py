"""The memory of registers, in elements: what is given back is taken again.

Owns which memory is free, also while branches run at the same time. Does not own what is in it (`assembly.py`).
"""
from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import Final

import numpy as np

from jitfuse.base.records import NamedTuple

ALIGNED: Final = 8
"""Elements that every register begins at a multiple of."""


class Life(NamedTuple):
    """How many elements someone holds, and from which to before which number of all that is taken."""

    size: int
    begin: int
    end: int


class Heap:
    """Memory that grows where no free place is large enough; the first that fits is taken.

    Without `reuses` nothing is taken twice.
    """

    def __init__(self, *, reuses: bool = True) -> None:
        self.size, self._reuses, self._floor = 0, reuses, 0
        self._free = _Places()
        self._late: list[tuple[int, int]] = []
        self.lives: list[Life] = []
        """All that was taken."""
        self._holders: dict[int, int] = {}

    def take(self, size: int) -> int:
        """Return the first element of `size` elements that nobody holds."""
        size = _aligned(size)
        first = self._free.first_of(size)
        if first is None:
            first = self._free.ending_at(self.size)
            if first < self.size:
                self._free.remove(first)
            self.size = first + size
        elif (free := self._free.remove(first)) > size:
            self._free.add(first + size, free - size)
        self._holders[first] = len(self.lives)
        self.lives.append(Life(size, len(self.lives), sys.maxsize))
        return first

    def give(self, first: int, size: int) -> None:
        """Give elements back."""
        if not self._reuses:
            return
        holder = self._holders.pop(first)
        self.lives[holder] = self.lives[holder]._replace(end=len(self.lives))
        if first < self._floor:  # other branches may still read it
            self._late.append((first, _aligned(size)))
        else:
            self._free.add(first, _aligned(size))

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Take only memory behind all that is there now: other branches, which run at the same time, have the rest."""
        outside, self._free, self._floor = self._free, _Places(), self.size
        yield
        self._late += self._free.sizes.items()
        self._free, self._floor = outside, 0

    def join(self) -> None:
        """All branches have run: what they gave back may be taken again."""
        late, self._late = self._late, []
        for first, size in late:
            self._free.add(first, size)


class Packed(Heap):
    """Memory of what another heap gave out, with all lifetimes known: large registers are placed first.

    The same are taken in the same order. A heap that grows with messages of growing sizes has room for three of the
    largest where two live at the same time. Source: Pisarchyk and Lee, "Efficient memory management for deep neural net
    inference", 2020 (greedy by size).
    """

    def __init__(self, lives: Sequence[Life]) -> None:
        super().__init__()
        sizes, begins, ends = np.array(lives, np.int64).reshape(-1, 3).T
        firsts, placed = np.zeros(len(sizes), np.int64), np.zeros(len(sizes), bool)
        for k in np.argsort(-sizes, kind="stable").tolist():
            beside = np.flatnonzero(placed & (begins < ends[k]) & (begins[k] < ends))
            for other in beside[np.argsort(firsts[beside], kind="stable")].tolist():
                if firsts[other] >= firsts[k] + sizes[k]:
                    break
                firsts[k] = max(firsts[k], firsts[other] + sizes[other])
            placed[k] = True
        self.size = int((firsts + sizes).max(initial=0))
        self._given = iter(firsts.tolist())

    def take(self, size: int) -> int:
        """Return where the next one lies."""
        return next(self._given)

    def give(self, first: int, size: int) -> None:
        """Give elements back: known before."""


class _Places:
    """Free places; neighbours become one."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        """The size of each, by its first element."""
        self._firsts: dict[int, int] = {}
        """The first element of each, by where it ends."""
        self._alike: dict[int, dict[int, list[int]]] = {}
        """The first elements by the bits of the size and by the size, as heaps."""
        self._levels: dict[int, list[int]] = {}
        """The same by the bits of the size alone. What is gone is dropped when it is met."""

    def add(self, first: int, size: int) -> None:
        """Add a place."""
        if first + size in self.sizes:
            size += self.remove(first + size)
        if first in self._firsts:
            first = self._firsts[first]
            size += self.remove(first)
        self.sizes[first], self._firsts[first + size] = size, first
        heappush(self._alike.setdefault(size.bit_length(), {}).setdefault(size, []), first)
        heappush(self._levels.setdefault(size.bit_length(), []), first)

    def remove(self, first: int) -> int:
        """Remove the place that begins here; return its size."""
        size = self.sizes.pop(first)
        del self._firsts[first + size]
        return size

    def ending_at(self, end: int) -> int:
        """Return where the place that ends here begins; `end` if there is none."""
        return self._firsts.get(end, end)

    def first_of(self, size: int) -> int | None:
        """Return the first place of at least this size."""
        bits = size.bit_length()
        fits = [self._lowest(heap, free) for free, heap in self._alike.get(bits, {}).items() if free >= size]
        fits += [self._lowest(heap, level, bits=True) for level, heap in self._levels.items() if level > bits]
        return min([first for first in fits if first is not None], default=None)

    def _lowest(self, firsts: list[int], wanted: int, *, bits: bool = False) -> int | None:
        """Return the first of places that are still free and of exactly this size, or of so many bits."""
        while firsts:
            size = self.sizes.get(firsts[0], 0)
            if (size.bit_length() if bits else size) == wanted:
                return firsts[0]
            heappop(firsts)
        return None


def _aligned(size: int) -> int:
    return -(-max(size, 1) // ALIGNED) * ALIGNED
