"""References of operators with data-dependent shapes: indices of elements, distinct elements, sets.

A program's extents are plain numbers. So the number of elements is an attribute (`size`: Python has read the count
before), or results have room for the largest possible number, with the actual number as the last result. The values
are NumPy's. Does not own the rows (`jitfuse.ir.operators.counted`).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitfuse.errors import ShapeError

Array = Any


def nonzero(x: Array, *, size: int) -> Array:
    """Return the indices of the `size` elements that are not zero: a row of indices for each axis."""
    found = np.nonzero(x)
    made = found[0][None] if len(found) == 1 else np.array(found)
    _check("nonzero_counted", made.shape[1], size)
    return made


def repeat(counts: Array, *, size: int) -> Array:
    """Return each position along the counts as often as its count says, `size` in all."""
    made = np.repeat(np.arange(len(counts)), counts)
    _check("repeat_counted", made.size, size)
    return made


def _check(name: str, found: int, size: int) -> None:
    if found != size:
        raise ShapeError(f"{name}: there are {found} indices, and its attribute size says {size}")


def padded(arrays: Sequence[Array], axes: Sequence[int | None], room: int) -> tuple[Array, ...]:
    """Return arrays padded with zeros to `room` along an axis each (None: unchanged), and their number of parts."""
    made, count = [], 0
    for array, axis in zip(arrays, axes, strict=True):
        if axis is None:
            made.append(array)
            continue
        count = array.shape[axis]
        whole = np.zeros((*array.shape[:axis], room, *array.shape[axis + 1 :]), array.dtype)
        whole[(*(slice(None),) * axis, slice(0, count))] = array
        made.append(whole)
    return (*made, np.int64(count))


def unique_axes(attrs: dict[str, Any]) -> list[int | None]:
    """Return the axis along which each result of `unique` has one part per distinct element."""
    asked = [("return_index", 0), ("return_inverse", None), ("return_counts", 0)]
    return [attrs["axis"] or 0, *(axis for name, axis in asked if attrs[name])]


def unique(x: Array, **attrs: Any) -> tuple[Array, ...]:
    """Return NumPy's `unique` with room for all elements, or for all parts along the axis."""
    found = np.unique(x, **attrs)
    axes, axis = unique_axes(attrs), attrs["axis"]
    room = x.size if axis is None else x.shape[axis]
    arrays = [
        np.reshape(array, x.shape if axis is None else room) if along is None else array
        for array, along in zip(found if isinstance(found, tuple) else (found,), axes, strict=True)
    ]
    return padded(arrays, axes, room)


def of_sets(name: str) -> Callable[..., tuple[Array, ...]]:
    """Return NumPy's function `name` of two sets, with room for the elements of both."""
    def function(a: Array, b: Array, **attrs: Any) -> tuple[Array, ...]:
        found = getattr(np, name)(a, b, **attrs)
        arrays = found if isinstance(found, tuple) else (found,)
        return padded(arrays, [0] * len(arrays), a.size + b.size)

    function.__name__ = name
    return function
