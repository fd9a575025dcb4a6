"""The kernel arguments of a launch: what each of its 64-bit integers holds.

In this order: one address per operand. The byte strides of every ``"n"`` axis, operand by operand; instead of the axis
that counts a loop's iterations come the loop's steps in bytes (`jitfuse.ir.kernels.form.Sweep`). The extent of every
axis of run-time size. The scalar parameters (floats as their bits in the low bytes). With a contraction, the number of
blocks along its rows and along its lanes (`jitfuse.ir.kernels.blocking`). One argument of flags (bit 0: outputs are too
large for the caches, store past them).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jitfuse.ir.kernels.form import KernelForm


class LaunchArguments:
    """The indices of the kernel arguments of one form."""

    def __init__(self, form: KernelForm) -> None:
        self.strides: tuple[tuple[int, int], ...] = tuple(
            (o, a) for o, operand in enumerate(form.operands) for a, c in enumerate(operand.strides)
            if c == "n" and (a or form.sweep is None)
        )
        """The (operand, axis) pairs that have a stride argument, in order; the steps of a loop follow."""
        self.sizes: tuple[int, ...] = tuple(a for a, axis in enumerate(form.axes) if axis.extent is None)
        """The axes that have a size argument, in order."""
        self._operands = len(form.operands)
        self._steps = 0 if form.sweep is None else form.sweep.step_count
        blocks = 2 if form.contracted else 0
        self.count = self.param(len(form.params)) + blocks + 1
        """Number of arguments, for a chain those of both forms."""
        if form.then is not None:
            self.count += form.then.words.count - 1

    def shape(self, strides: Sequence[Sequence[int]], sizes: Sequence[int]) -> list[int]:
        """Return the arguments between the addresses and the scalars, from all strides by operand and all extents."""
        return [*(strides[o][a] for o, a in self.strides), *(sizes[a] for a in self.sizes)]

    def stride(self, operand: int, axis: int) -> int:
        """Return the index of a run-time stride."""
        return self._operands + self.strides.index((operand, axis))

    def size(self, axis: int) -> int:
        """Return the index of a run-time extent."""
        return self._operands + len(self.strides) + self._steps + self.sizes.index(axis)

    def step(self, k: int) -> int:
        """Return the index of the k-th step of a loop."""
        return self._operands + len(self.strides) + k

    def param(self, k: int) -> int:
        """Return the index of the k-th scalar parameter."""
        return self._operands + len(self.strides) + self._steps + len(self.sizes) + k

    @property
    def blocks(self) -> int:
        """The index of the number of blocks along a contraction's rows; that along its lanes follows."""
        return self.count - 3

    @property
    def flags(self) -> int:
        """The index of the flags."""
        return self.count - 1


def chained_words(form: KernelForm) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
    """Return for each argument of both forms of a chain its index in the launch; None for those of the link."""
    assert form.then is not None
    forms = form.replace(then=None), form.then
    following, result = 0, []
    for part, linked in zip(forms, form.link, strict=True):
        numbers: list[int | None] = [None] * part.words.count
        for k in range(len(part.operands)):
            if k != linked:
                numbers[k], following = following, following + 1
        result.append(numbers)
    for part, numbers in zip(forms, result, strict=True):
        for k in range(len(part.operands), part.words.count):
            numbers[k], following = following, following + 1
    return tuple(result[0]), tuple(result[1])
