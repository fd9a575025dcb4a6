"""Batches that a loop carries from round to round.

Owns: the numbering of a builder loop's carried values.
"""
from __future__ import annotations

from jitfuse.backends.llvm.builder import Loop
from jitfuse.backends.llvm.math.lockstep import Batch


class Carried:
    """Batches that a loop carries, in the order in which they are added."""

    def __init__(self, loop: Loop, others: int = 0) -> None:
        """Follow on `others` values that the loop carries already."""
        self._loop = loop
        self._count = others
        self._slots: list[tuple[int, Batch]] = []

    def add(self, initial: Batch) -> Batch:
        """Carry a batch; returns what it is at the start of a round. Call before writing the body."""
        inside = initial.context.batch([self._loop.carry(v) for v in initial.values])
        self._slots.append((self._count, initial))
        self._count += len(initial.values)
        return inside

    def update(self, k: int, x: Batch) -> None:
        """Give the k-th carried batch its value for the next round."""
        for j, v in enumerate(x.values):
            self._loop.update(self._slots[k][0] + j, v)

    def result(self, k: int) -> Batch:
        """Return the k-th carried batch after the loop."""
        at, initial = self._slots[k]
        return initial.context.batch([self._loop.result(at + j) for j in range(len(initial.values))])
