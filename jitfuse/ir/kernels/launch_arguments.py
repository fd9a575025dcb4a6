"""The words of a launch of a kernel form: which 64-bit word holds what.

Words of a launch, 64 bits each, in this order: one address for each operand; the byte strides of every ``"n"`` axis,
operand by operand, but of the axis that counts the iterations of a loop, which has the loop's steps in bytes
(`jitfuse.ir.kernels.form.Sweep`); the extent of every axis of run-time size; the scalar parameters (floats as their own
bits in the low bytes); with a contraction, the number of blocks along its rows and along its lanes
(`jitfuse.ir.kernels.blocking`); one word of flags (bit 0: outputs are too large for the caches, store past them).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jitfuse.ir.kernels.form import KernelForm


class LaunchArguments:
    """The places of the words of one form's launches."""

    def __init__(self, form: KernelForm) -> None:
        self.strides: tuple[tuple[int, int], ...] = tuple(
            (o, a) for o, operand in enumerate(form.operands) for a, c in enumerate(operand.strides)
            if c == "n" and (a or form.sweep is None)
        )
        """The (operand, axis) pairs that have a stride word, in word order; then come the steps of a loop."""
        self.sizes: tuple[int, ...] = tuple(a for a, axis in enumerate(form.axes) if axis.extent is None)
        """The axes that have a size word, in word order."""
        self._operands = len(form.operands)
        self._steps = 0 if form.sweep is None else form.sweep.step_count
        blocks = 2 if form.contracted else 0
        self.count = self.param(len(form.params)) + blocks + 1
        """Number of words, of a chain of both forms."""
        if form.then is not None:
            self.count += form.then.words.count - 1

    def shape(self, strides: Sequence[Sequence[int]], sizes: Sequence[int]) -> list[int]:
        """Return the words between the addresses and the scalars, from all strides by operand and all extents."""
        return [*(strides[o][a] for o, a in self.strides), *(sizes[a] for a in self.sizes)]

    def stride(self, operand: int, axis: int) -> int:
        """Return the word of a run-time stride."""
        return self._operands + self.strides.index((operand, axis))

    def size(self, axis: int) -> int:
        """Return the word of a run-time extent."""
        return self._operands + len(self.strides) + self._steps + self.sizes.index(axis)

    def step(self, k: int) -> int:
        """Return the word of the k-th step of a loop."""
        return self._operands + len(self.strides) + k

    def param(self, k: int) -> int:
        """Return the word of the k-th scalar parameter."""
        return self._operands + len(self.strides) + self._steps + len(self.sizes) + k

    @property
    def blocks(self) -> int:
        """The word of the number of blocks along a contraction's rows; that along its lanes follows."""
        return self.count - 3

    @property
    def flags(self) -> int:
        """The word of the flags."""
        return self.count - 1


def chained_words(form: KernelForm) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
    """Return for both forms of a chain which of the launch's words each of its words is; None for what is linked."""
    assert form.then is not None
    forms = form.replace(then=None), form.then
    following, result = 0, []
    for part, linked in zip(forms, form.link, strict=True):
        places: list[int | None] = [None] * part.words.count
        for k in range(len(part.operands)):
            if k != linked:
                places[k], following = following, following + 1
        result.append(places)
    for part, places in zip(forms, result, strict=True):
        for k in range(len(part.operands), part.words.count):
            places[k], following = following, following + 1
    return tuple(result[0]), tuple(result[1])
