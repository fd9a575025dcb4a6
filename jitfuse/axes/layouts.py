"""Shapes and strides: which views of an array exist without a copy.

The proof that a reshape is a view is the function that makes its strides: axes merge without a copy if and only if each
moves over all of the next one, axes of size 1 aside; an array without elements is any view.
"""
from __future__ import annotations

import math

from jitfuse.base.records import NamedTuple

Shape = tuple[int, ...]


class Layout(NamedTuple):
    """A shape, and how many elements apart neighbours along each axis are."""

    shape: Shape
    strides: Shape

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


def contiguous(shape: Shape) -> Layout:
    """Return the layout of an array in C order."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return Layout(shape, tuple(reversed(strides)))


def reshaped(layout: Layout, shape: Shape) -> Layout | None:
    """Return the view of an array in another shape of as many elements, or None if it takes a copy.

    Example: the axes (2, 3) with strides (1, 2) cannot be one axis; with strides (3, 1) they can.
    """
    if layout.elements == 0:
        return contiguous(shape)
    old = [(n, s) for n, s in zip(layout.shape, layout.strides) if n != 1]
    new = [n for n in shape if n != 1]
    strides: list[int] = []
    first = start = 0
    while first < len(old):
        last, stop, olds, news = first + 1, start + 1, old[first][0], new[start]
        while olds != news:
            if olds < news:
                olds *= old[last][0]
                last += 1
            else:
                news *= new[stop]
                stop += 1
        if any(old[k][1] != old[k + 1][0] * old[k + 1][1] for k in range(first, last - 1)):
            return None
        step, run = old[last - 1][1], []
        for n in reversed(new[start:stop]):
            run.append(step)
            step *= n
        strides += reversed(run)
        first, start = last, stop
    found = iter(strides)
    return Layout(shape, tuple(next(found) if n != 1 else 0 for n in shape))
