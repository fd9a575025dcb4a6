"""Batches that a loop carries from one iteration to the next.

Owns: the numbering of a builder loop's carried values.
"""
from __future__ import annotations

import itertools
from collections.abc import Sequence

from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.text.builder import Loop


class Carried:
    """Batches that a loop carries, in the order in which they are added."""

    def __init__(self, loop: Loop, others: int = 0) -> None:
        """Number batches from `others` on, the number of values that the loop carries already."""
        self._loop = loop
        self._count = others
        self._slots: list[tuple[int, Batch]] = []

    def add(self, initial: Batch) -> Batch:
        """Carry a batch; returns its value at the start of an iteration. Call before writing the body."""
        inside = initial.context.batch([self._loop.carry(v) for v in initial.values])
        self._slots.append((self._count, initial))
        self._count += len(initial.values)
        return inside

    def update(self, k: int, x: Batch) -> None:
        """Set the k-th carried batch for the next iteration."""
        for j, v in enumerate(x.values):
            self._loop.update(self._slots[k][0] + j, v)

    def result(self, k: int) -> Batch:
        """Return the k-th carried batch after the loop."""
        at, initial = self._slots[k]
        return initial.context.batch([self._loop.result(at + j) for j in range(len(initial.values))])

    # ------------------------------------------------------------------ tuples of batches
    def add_all(self, initial: tuple[Batch, ...]) -> tuple[Batch, ...]:
        """Carry several batches; returns their values at the start of an iteration."""
        return tuple([self.add(b) for b in initial])

    def update_all(self, states: Sequence[tuple[Batch, ...]]) -> None:
        """Set all carried batches for the next iteration, tuple by tuple."""
        for k, x in enumerate(itertools.chain.from_iterable(states)):
            self.update(k, x)

    def results(self, like: Sequence[tuple[Batch, ...]]) -> list[tuple[Batch, ...]]:
        """Return all carried batches after the loop, in tuples of the same lengths as in `like`."""
        numbers = itertools.count()
        return [tuple([self.result(next(numbers)) for _ in state]) for state in like]
