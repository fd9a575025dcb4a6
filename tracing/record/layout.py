"""Memory layout as in NumPy: byte offset and strides of views, and the order of axes of new arrays.

Owns whether a reshape is a view or a copy, and the strides of views of arguments. Does not own which operator keeps
the order of its operands (`jitfuse.tracing.record.memory_order`). Everything here is arithmetic on tuples.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from jitfuse.base.records import NamedTuple


class MemoryLayout(NamedTuple):
    """Byte offset of the first element, and bytes from one element to the next along each axis."""

    offset: int
    strides: tuple[int, ...]


@lru_cache(maxsize=1024)
def contiguous(shape: tuple[int, ...], itemsize: int) -> MemoryLayout:
    """Return the layout of a fresh array in C order."""
    strides = []
    step = itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return MemoryLayout(0, tuple(reversed(strides)))


def is_contiguous(shape: tuple[int, ...], layout: MemoryLayout, itemsize: int) -> bool:
    """Return whether elements follow each other in C order; strides of axes of extent 1 do not matter."""
    plain = contiguous(shape, itemsize).strides
    return 0 in shape or all(n == 1 or s == p for n, s, p in zip(shape, layout.strides, plain, strict=True))


def sliced(layout: MemoryLayout, starts: tuple[int, ...], steps: tuple[int, ...]) -> MemoryLayout:
    """Return the layout of a strided region."""
    strides = layout.strides
    offset = layout.offset + sum([a * s for a, s in zip(starts, strides, strict=True)])
    return MemoryLayout(offset, tuple([k * s for k, s in zip(steps, strides, strict=True)]))


def rearranged(layout: MemoryLayout, shape: tuple[int, ...], axes: tuple[int | None, ...]) -> MemoryLayout:
    """Return the layout of an array's `axes`, with None for a new axis; the axes left out have extent 1."""
    strides = layout.strides
    return MemoryLayout(layout.offset, tuple([0 if a is None or shape[a] == 1 else strides[a] for a in axes]))


def transposed(layout: MemoryLayout, axes: tuple[int, ...]) -> MemoryLayout:
    """Return the layout under permuted axes."""
    return MemoryLayout(layout.offset, tuple(layout.strides[a] for a in axes))


def broadcast(layout: MemoryLayout, shape: tuple[int, ...], new: tuple[int, ...]) -> MemoryLayout:
    """Return the layout of a broadcast view: stride 0 along repeated axes."""
    lead = len(new) - len(shape)
    kept = tuple(
        0 if n == 1 and m != 1 else s for n, m, s in zip(shape, new[lead:], layout.strides, strict=True)
    )
    return MemoryLayout(layout.offset, (0,) * lead + kept)


def reshaped(layout: MemoryLayout, shape: tuple[int, ...], new: tuple[int, ...], itemsize: int) -> MemoryLayout | None:
    """Return the layout of a reshape that copies nothing, or None where NumPy copies.

    Old and new axes are matched in groups of equal products; a group is a view if its old axes lie in one
    run (the algorithm of NumPy's `_attempt_nocopy_reshape`).
    """
    found = _reshaped_strides(layout.strides, shape, new, itemsize)
    return None if found is None else MemoryLayout(layout.offset, found)


@lru_cache(maxsize=4096)
def _reshaped_strides(
    given: tuple[int, ...], shape: tuple[int, ...], new: tuple[int, ...], itemsize: int
) -> tuple[int, ...] | None:
    if 0 in shape:
        return contiguous(new, itemsize).strides
    old = [(n, s) for n, s in zip(shape, given, strict=True) if n != 1]
    strides: list[int] = []
    i = j = 0
    while i < len(old) and j < len(new):
        if new[j] == 1:
            strides.append(0)
            j += 1
            continue
        first, group = i, j
        a, b = old[i][0], new[j]
        while a != b:
            if a < b:
                i += 1
                a *= old[i][0]
            else:
                j += 1
                b *= new[j]
        if any(old[k][1] != old[k + 1][0] * old[k + 1][1] for k in range(first, i)):
            return None
        step = old[i][1]
        run = []
        for extent in reversed(new[group : j + 1]):
            run.append(step)
            step *= extent
        strides += reversed(run)
        i += 1
        j += 1
    strides += [itemsize] * (len(new) - len(strides))
    return tuple(strides)


def is_identity(name: str, attrs: dict[str, Any]) -> bool:
    """Return whether a view operator that keeps the shape keeps every element's position, and is writable."""
    if name == "transpose":
        return tuple(attrs["axes"]) == tuple(range(len(attrs["axes"])))
    if name == "slice":
        return not any(attrs["starts"]) and all(s == 1 for s in attrs["steps"])
    return name == "reshape"


def diagonal(layout: MemoryLayout, offset: int) -> MemoryLayout:
    """Return the layout of a diagonal of the last two axes."""
    *outer, row, column = layout.strides
    return MemoryLayout(layout.offset + max(-offset, 0) * row + max(offset, 0) * column, (*outer, row + column))


def windows(layout: MemoryLayout, steps: tuple[int, ...], dilations: tuple[int, ...]) -> MemoryLayout:
    """Return the layout of windows over the last axes: the axes within a window come before those of the windows."""
    lead = len(layout.strides) - len(steps)
    outer, inner = layout.strides[:lead], layout.strides[lead:]
    tap_strides = tuple([d * s for d, s in zip(dilations, inner, strict=True)])
    return MemoryLayout(layout.offset, (*outer, *tap_strides, *[k * s for k, s in zip(steps, inner, strict=True)]))


def viewed(layout: MemoryLayout, name: str, attrs: dict[str, Any], shape: tuple[int, ...], new: tuple[int, ...],
           itemsize: int) -> MemoryLayout | None:
    """Return the layout of a view operator's result, or None where NumPy copies."""
    if name == "reshape":
        return reshaped(layout, shape, new, itemsize)
    if name == "transpose":
        return transposed(layout, attrs["axes"])
    if name == "slice":
        return sliced(layout, attrs["starts"], attrs["steps"])
    if name == "diagonal":
        return diagonal(layout, attrs["offset"])
    if name == "windows":
        return windows(layout, attrs["steps"], attrs["dilations"])
    return broadcast(layout, shape, new)


# ---------------------------------------------------------------- new arrays
@lru_cache(maxsize=4096)
def in_order(shape: tuple[int, ...], axes: tuple[int, ...], itemsize: int) -> MemoryLayout | None:
    """Return the layout of a fresh array with its axes in this order, slowest first; None for C order."""
    if is_c_order(shape, axes):
        return None
    strides = contiguous(tuple(shape[a] for a in axes), itemsize).strides
    return MemoryLayout(0, tuple(strides[axes.index(k)] for k in range(len(axes))))


def is_c_order(shape: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    """Return whether a fresh array with its axes in this order has its elements in C order."""
    long = [a for a in axes if shape[a] != 1]
    return 0 in shape or long == sorted(long)


def order_of(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes from the largest stride to the smallest: the order of a copy (`PyArray_NewLikeArray`)."""
    return tuple(sorted(range(len(shape)), key=lambda a: -abs(strides[a])))


def common_order(shape: tuple[int, ...], operands: Sequence[tuple[tuple[int, ...], MemoryLayout]]) -> tuple[int, ...]:
    """Return the order of axes in which NumPy's iterator visits operands that are broadcast to a shape.

    Axes are inserted from the last to the first; an axis goes inside another if its strides are smaller. If operands
    disagree, C order wins (`npyiter_find_best_axis_ordering`).
    """
    return _common_order(shape, tuple([(own, lay.strides) for own, lay in operands]))


def torch_order(shape: tuple[int, ...], operands: Sequence[tuple[tuple[int, ...], MemoryLayout]]) -> tuple[int, ...]:
    """Return the order of axes in which torch's iterator visits operands that are broadcast to a shape.

    Axes are inserted from the last to the first. Of two axes, the first operand with strides along both that differ
    decides; an axis with equal strides stays outside unless it is shorter (`TensorIteratorBase::reorder_dimensions`).
    """
    return _torch_order(shape, tuple([(own, lay.strides) for own, lay in operands]))


@lru_cache(maxsize=4096)
def _torch_order(
    shape: tuple[int, ...], operands: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
) -> tuple[int, ...]:
    ndim = len(shape)
    known = []
    for own, given in operands:
        lead = ndim - len(own)
        known.append((0,) * lead + tuple(
            0 if n == 1 and shape[lead + k] != 1 else s for k, (n, s) in enumerate(zip(own, given, strict=True))))

    def goes_inside(outer: int, inner: int) -> int:
        """Return 1 if the second axis goes inside the first, -1 if not, 0 if no operand tells."""
        for strides in known:
            a, b = strides[inner], strides[outer]
            if a and b and (a != b or shape[inner] > shape[outer]):
                return 1 if a > b or a == b else -1
        return 0

    inner_first = list(reversed(range(ndim)))
    for k in range(1, ndim):
        at = k
        for before in reversed(range(k)):
            found = goes_inside(inner_first[at], inner_first[before])
            if found > 0:
                inner_first[at], inner_first[before] = inner_first[before], inner_first[at]
                at = before
            elif found < 0:
                break
    return tuple(reversed(inner_first))


@lru_cache(maxsize=4096)
def _common_order(
    shape: tuple[int, ...], operands: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
) -> tuple[int, ...]:
    ndim = len(shape)
    known = []
    for own, given in operands:
        strides = tuple(0 if n == 1 else abs(s) for n, s in zip(own, given, strict=True))
        known.append((0,) * (ndim - len(own)) + strides)
    inner_first: list[int] = []
    for axis in reversed(range(ndim)):
        position = len(inner_first)
        for k in reversed(range(len(inner_first))):
            compared = [(s[axis], s[inner_first[k]]) for s in known if s[axis] and s[inner_first[k]]]
            if not compared:
                continue
            if any(inner <= outer for outer, inner in compared):
                break
            position = k
        inner_first.insert(position, axis)
    return tuple(reversed(inner_first))


def joined_order(operands: Sequence[tuple[tuple[int, ...], MemoryLayout]]) -> tuple[int, ...]:
    """Return the order of axes of joined arrays (`PyArray_CreateMultiSortedStridePerm`).

    Axes are inserted from the first to the last; an axis goes outside another if its strides are larger in all
    arrays in which both are longer than 1.
    """
    order: list[int] = []
    for axis in range(len(operands[0][0])):
        position = len(order)
        for k in reversed(range(len(order))):
            other = order[k]
            compared = [(abs(lay.strides[axis]), abs(lay.strides[other])) for shape, lay in operands
                        if shape[axis] != 1 and shape[other] != 1]
            if not compared:
                continue
            if any(own <= outer for own, outer in compared):
                break
            position = k
        order.insert(position, axis)
    return tuple(order)
