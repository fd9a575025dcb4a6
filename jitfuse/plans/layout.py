"""Where arrays lie and how kernels index them: layouts, linear indices, memory operands.

Owns `Layout` (a stored array's strides, exact and as classes), `Lin` (an index that is linear in the kernel's axes),
`Flat` (a row-major position), and the arithmetic over them. Classes follow from the layout's structure, never from the
numbers of one shape, so that equal programs over other shapes give equal kernels.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from jitfuse.base.records import NamedTuple


class Layout(NamedTuple):
    """Strides of one array: bytes, a class per axis (``0 1 n``), and whether axis k merges with k + 1."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    classes: tuple[str, ...]
    merges: tuple[bool, ...]

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        return all(self.merges) and (not self.classes or self.classes[-1] == "1")


@lru_cache(maxsize=1024)
def contiguous(shape: tuple[int, ...], itemsize: int) -> Layout:
    """Return the row-major layout of a shape."""
    strides, step = [], itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    rank = len(shape)
    classes = ("n",) * (rank - 1) + ("1",) * (rank > 0)
    return Layout(shape, tuple(reversed(strides)), classes, (True,) * max(rank - 1, 0))


def strided(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> Layout:
    """Return the layout of an array with any strides; the strides of axes of extent 1 do not count."""
    expected = itemsize
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != expected:
            break
        expected *= max(extent, 1)
    else:
        return contiguous(shape, itemsize)
    if 0 in shape:
        return contiguous(shape, itemsize)
    classes = tuple("0" if s == 0 else "1" if s == itemsize else "n" for s in strides)
    merges = tuple(strides[k] == shape[k + 1] * strides[k + 1] for k in range(len(shape) - 1))
    return Layout(shape, strides, classes, merges)


def of_cells(layout: Layout, lead: int) -> Layout | None:
    """Return the layout of the cells that the axes from `lead` on make; None where these are not adjacent elements."""
    if not all(layout.merges[lead:]) or layout.classes[-1] != "1":
        return None
    last = "1" if layout.merges[lead - 1] else "n"
    classes = (*layout.classes[: lead - 1], last)
    return Layout(layout.shape[:lead], layout.strides[:lead], classes, layout.merges[: lead - 1])


class Lin(NamedTuple):
    """const + sum of coefficient * kernel axis; terms are (axis, coefficient), sorted by axis."""

    const: int
    terms: tuple[tuple[int, int], ...] = ()

    def scaled(self, factor: int, shift: int = 0) -> Lin:
        """Return self * factor + shift."""
        if factor == 1:
            return Lin(self.const + shift, self.terms) if shift else self
        return Lin(self.const * factor + shift, tuple((a, c * factor) for a, c in self.terms))

    def plus(self, other: Lin) -> Lin:
        """Return the sum of two linear indices."""
        terms: dict[int, int] = dict(self.terms)
        for a, c in other.terms:
            terms[a] = terms.get(a, 0) + c
        return Lin(self.const + other.const, tuple(sorted((a, c) for a, c in terms.items() if c)))

    def coefficient(self, axis: int) -> int:
        """Return the coefficient of one axis."""
        return dict(self.terms).get(axis, 0)


ZERO = Lin(0)


def along(axis: int) -> Lin:
    """Return the index that is the position along one kernel axis."""
    return Lin(0, ((axis, 1),))


class Flat(NamedTuple):
    """A position in row-major order: a linear index, or a computed value (an SSA node)."""

    index: Any


IndexMap = tuple[Any, ...] | Flat
"""One `Lin` or SSA node for each axis of a value, or a `Flat` position."""


@lru_cache(maxsize=1024)
def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return element strides of the row-major order."""
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def flatten_linear(shape: tuple[int, ...], index: tuple[Any, ...]) -> Lin | None:
    """Return the row-major position of an index that is linear in every axis, else None."""
    if len(shape) == 1:
        return index[0] if isinstance(index[0], Lin) else None
    total = ZERO
    for part, weight in zip(index, row_major(shape), strict=True):
        if not isinstance(part, Lin):
            return None
        total = total.plus(part.scaled(weight))
    return total


class AxisGroup(NamedTuple):
    """A block of axes of two shapes with equal element counts, as a reshape maps them."""

    old: tuple[int, ...]
    new: tuple[int, ...]


@lru_cache(maxsize=1024)
def reshape_groups(old: tuple[int, ...], new: tuple[int, ...]) -> Sequence[AxisGroup] | None:
    """Split a reshape into the smallest blocks of axes with equal products; None for zero-size arrays.

    Blocks are taken from the end at which the shapes agree longer, so that axes of extent 1 are grouped as they would
    be in larger arrays.
    """
    if 0 in old:
        return None
    if _agreement(old, new) >= _agreement(old[::-1], new[::-1]):
        return _blocks(old, new)
    a, b = len(old) - 1, len(new) - 1
    mirrored = _blocks(old[::-1], new[::-1])
    return [AxisGroup(tuple(a - k for k in g.old[::-1]), tuple(b - k for k in g.new[::-1])) for g in mirrored[::-1]]


def _agreement(old: tuple[int, ...], new: tuple[int, ...]) -> int:
    return next((k for k, (n, m) in enumerate(zip(old, new)) if n != m), min(len(old), len(new)))


def _blocks(old: tuple[int, ...], new: tuple[int, ...]) -> list[AxisGroup]:
    groups: list[AxisGroup] = []
    i = j = 0
    while i < len(old) or j < len(new):
        a, b = [i] if i < len(old) else [], [j] if j < len(new) else []
        i, j = i + len(a), j + len(b)
        product_a, product_b = math.prod(old[k] for k in a), math.prod(new[k] for k in b)
        while product_a != product_b:
            if product_a < product_b:
                a.append(i)
                product_a *= old[i]
                i += 1
            else:
                b.append(j)
                product_b *= new[j]
                j += 1
        groups.append(AxisGroup(tuple(a), tuple(b)))
    return groups


class Access(NamedTuple):
    """How a kernel walks a stored array: the offset, and per kernel axis the stride, its class and merging."""

    offset: int
    strides: tuple[int, ...]
    classes: tuple[str, ...]
    merges: tuple[bool, ...]
    """merges[a]: kernel axes a and a + 1 may be walked as one."""


def access(layout: Layout, index: IndexMap, extents: tuple[int, ...], itemsize: int, grid: int | None = None) -> Access:
    """Return the affine part of an index map over a layout; the caller adds SSA parts.

    The first `grid` axes of the kernel (all, unless given) are grid axes.
    """
    rank = len(extents)
    if isinstance(index, Flat):
        assert layout.contiguous
        lin = index.index if isinstance(index.index, Lin) else ZERO
        coefficients = [lin.coefficient(a) for a in range(rank)]
        classes = tuple("0" if c == 0 else "1" if c == 1 else "n" for c in coefficients)
        merges = tuple(
            coefficients[a] == coefficients[a + 1] * extents[a + 1] for a in range(rank - 1)
        )
        return Access(lin.const * itemsize, tuple(c * itemsize for c in coefficients), classes, merges)
    offset = sum(p.const * s for p, s in zip(index, layout.strides, strict=True) if isinstance(p, Lin))
    strides, classes_ = [0] * rank, ["0"] * rank
    own_classes = _classes_without_tail(layout, index, grid)
    walks: list[tuple[int, int] | None] = [None] * rank  # (axis of the layout, coefficient) if exactly one walks it
    for k, part in enumerate(index):
        if not isinstance(part, Lin):
            continue
        for position, (a, c) in enumerate(part.terms, 1):
            first = classes_[a] == "0"
            plain = first and c == 1 and (position == len(part.terms) or [d for _, d in part.terms].count(1) == 1)
            strides[a] += c * layout.strides[k]
            classes_[a] = own_classes[k] if plain else "n"
            walks[a] = (k, c) if first else None
    merges_ = tuple(
        (classes_[a] == "0" and classes_[a + 1] == "0")
        or _walks_on(layout, index, walks[a], walks[a + 1], extents[a + 1])
        for a in range(rank - 1)
    )
    return Access(offset, tuple(strides), tuple(classes_), merges_)


def _classes_without_tail(layout: Layout, index: tuple[Any, ...], grid: int | None) -> tuple[str, ...]:
    """Return the stride classes of a layout without its last axes of extent 1.

    They are kept if an inner axis of the kernel walks along them: a row of one element is a row like any other.
    """
    last = len(layout.shape) - 1
    while last > 0 and layout.shape[last] == 1 and _on_grid(index[last], grid):
        last -= 1
    if not layout.contiguous or last < 0:
        return layout.classes
    return (*layout.classes[:last], "1", *layout.classes[last + 1 :])


def _on_grid(part: Any, grid: int | None) -> bool:
    return isinstance(part, Lin) and all(grid is None or a < grid for a, _ in part.terms)


def _walks_on(
    layout: Layout, index: tuple[Any, ...], outer: tuple[int, int] | None, inner: tuple[int, int] | None, extent: int
) -> bool:
    """Return whether one step of the outer kernel axis equals `extent` steps of the inner one."""
    if outer is None or inner is None:
        return False
    (k, c), (following, d) = outer, inner
    if following == k:
        return c == d * extent
    part, before = index[following], index[k]
    whole = part.const == 0 and len(part.terms) == len(before.terms) == 1 and extent == layout.shape[following]
    return following == k + 1 and c == d == 1 and whole and layout.merges[k]
