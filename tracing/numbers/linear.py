"""Ints that are known as a constant and multiples of others: positions in vectorised loops, bounds of slices.

Owns their sums. Does not own what the others are: loop axes, or tensors.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jitfuse.base.records import NamedTuple

LARGEST: Final = 1 << 40
"""Ints beyond this are not known."""


class Linear(NamedTuple):
    """A known int: a constant, and for some loop axes a fixed step per iteration, or for some tensors a factor."""

    constant: int
    steps: tuple[tuple[int, int], ...] = ()

    def plus(self, other: Linear, times: int = 1) -> Linear | None:
        """Return the sum with a multiple of another one; None where it may get too large."""
        steps = dict(self.steps)
        for loop_axis, step in other.steps:
            steps[loop_axis] = steps.get(loop_axis, 0) + times * step
        constant = self.constant + times * other.constant
        if abs(constant) > LARGEST or any(abs(s) > LARGEST for s in steps.values()):
            return None
        return Linear(constant, tuple(sorted((k, s) for k, s in steps.items() if s)))

    def times(self, other: Linear) -> Linear | None:
        """Return the product with another one; None where neither is a constant, or it may get too large."""
        if self.steps and other.steps:
            return None
        return Linear(0).plus(other, self.constant) if not self.steps else Linear(0).plus(self, other.constant)

    def ends(self, loop_axes: Sequence[int]) -> tuple[int, int]:
        """Return the least and the largest value over loop axes of these extents."""
        low = high = self.constant
        for loop_axis, step in self.steps:
            by = step * (loop_axes[loop_axis] - 1)
            low, high = low + min(by, 0), high + max(by, 0)
        return low, high

    @property
    def loop_axis(self) -> tuple[int, int] | None:
        """The only loop axis along which it moves, and its step; None where there are none or several."""
        return self.steps[0] if len(self.steps) == 1 else None
