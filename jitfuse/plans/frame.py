"""The index space of a kernel under construction, and how values belong to it.

Owns `Frame` and `ValueKey`. Does not own what is computed there (`jitfuse.plans.body`).
"""
from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import itemsize
from jitfuse.ir.program import FusedProgram, Meta, OpStep
from jitfuse.plans.layout import ZERO, IndexMap, Layout, Lin, along, contiguous
from jitfuse.plans.nodes import Node


class MisalignedError(Exception):
    """A reduction's result is needed at a grid point other than the one that computes it."""


class Frame(NamedTuple):
    """The index space of a kernel, in the axes of the values that sweep it: a shape and its reduced axes."""

    shape: tuple[int, ...]
    reduced: tuple[int, ...]

    @property
    def grid_axes(self) -> tuple[int, ...]:
        """The axes that are not reduced."""
        return _grid_axes(len(self.shape), self.reduced)

    @property
    def extents(self) -> tuple[int, ...]:
        """Extents of the kernel's axes: grid first, then inner."""
        return tuple(self.shape[k] for k in self.grid_axes + self.reduced)

    def position(self, axis: int) -> int:
        """Return the kernel axis of an axis of the shape."""
        return (self.grid_axes + self.reduced).index(axis)

    def full_map(self) -> tuple[Lin, ...]:
        """Return the index map of a value that sweeps the whole shape."""
        return _full_map(len(self.shape), self.reduced)

    def maps(self, shape: tuple[int, ...]) -> Iterable[tuple[str, tuple[Lin, ...]]]:
        """Yield the names and index maps by which a value of this shape can belong to the frame: see `map_of`."""
        if shape == self.shape:
            yield "whole", self.map_of("whole")
        if self.reduced and shape == tuple(1 if k in self.reduced else n for k, n in enumerate(self.shape)):
            yield "kept", self.map_of("kept")
        if self.reduced and shape == tuple(self.shape[k] for k in self.grid_axes):
            yield "dropped", self.map_of("dropped")

    def map_of(self, placing: str) -> tuple[Lin, ...]:
        """Return the index map of a placing: the whole shape, or one value per grid point (axes kept or dropped)."""
        if placing == "whole":
            return self.full_map()
        if placing == "kept":
            return tuple(ZERO if k in self.reduced else along(self.position(k)) for k in range(len(self.shape)))
        return tuple(along(a) for a in range(len(self.grid_axes)))


@lru_cache(maxsize=512)
def _grid_axes(rank: int, reduced: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(k for k in range(rank) if k not in reduced)


@lru_cache(maxsize=512)
def _full_map(rank: int, reduced: tuple[int, ...]) -> tuple[Lin, ...]:
    order = _grid_axes(rank, reduced) + reduced
    return tuple(along(order.index(k)) for k in range(rank))


class ValueKey(NamedTuple):
    """A value under an index map and a mask; of a complex value the real (0) or imaginary (1) part, or both (None)."""

    value: int
    where: IndexMap
    mask: Node | None = None
    part: int | None = None


def reduced_axes(program: FusedProgram, step: OpStep) -> tuple[int, ...]:
    """Return the normalised axes that a reduction step reduces, or the one that a scan runs along."""
    axis = step.attr("axis")
    rank = len(program.meta[step.input_ids[0]].shape)
    if axis is None:
        return tuple(range(rank))
    axes = axis if isinstance(axis, tuple) else (axis,)
    return tuple(sorted(a % rank for a in axes))


def contiguous_layout(meta: Meta) -> Layout:
    """Return the row-major layout of a value."""
    return contiguous(meta.shape, itemsize(meta.dtype))
