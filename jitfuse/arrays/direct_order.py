"""Order, positions and sets over ndarrays: namespace functions by methods of ndarrays.

Each gives NumPy's elements, bit for bit, without the checks in NumPy's functions of the same names. Rare options are
left to those (NotImplemented).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.array_api import functions

Function = Callable[..., Any]
Array = np.ndarray[Any, Any]


def undispatched(function: Any) -> Any:
    """Return one of NumPy's functions without its dispatch on the classes of arguments."""
    return function._implementation


_library_isin, _library_take_along_axis = undispatched(np.isin), undispatched(np.take_along_axis)


# ---------------------------------------------------------------- order
def _sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    made = x.copy()
    made.sort(axis, stable=bool(stable))
    return _turned(made, axis) if descending else made


def _argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    if not descending:
        return x.argsort(axis, stable=bool(stable))
    return x.shape[axis] - 1 - _turned(_turned(x, axis).argsort(axis, stable=bool(stable)), axis)


def _turned(x: Array, axis: int) -> Array:
    return x[..., ::-1] if axis == -1 else np.flip(x, axis)


def _searchsorted(x1: Array, x2: Any, /, *, side: Any = "left", sorter: Any = None) -> Any:
    return x1.searchsorted(x2, side) if sorter is None else NotImplemented


# ---------------------------------------------------------------- positions
def _take(x: Array, indices: Any, /, *, axis: int | None = None, mode: Any = "raise") -> Any:
    return NotImplemented if axis is None and x.ndim > 1 else x.take(indices, axis, mode=mode)


def _take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Any:
    if x.ndim == indices.ndim == 1 and indices.dtype.kind in "iu" and axis in (0, -1):
        return x[indices]
    return _library_take_along_axis(x, indices, axis)


def _nonzero(x: Array, /) -> Any:
    return x.nonzero() if x.ndim else NotImplemented


# ---------------------------------------------------------------- sets
def _bounds(ordered: Array) -> Array:
    """Return the start of each run of equal elements in a sorted array, and the array's size."""
    (ends,) = (ordered[1:] != ordered[:-1]).nonzero()
    bounds = np.empty(ends.size + 2, np.intp)
    bounds[0], bounds[-1] = 0, ordered.size
    np.add(ends, 1, out=bounds[1:-1])
    return bounds


def _inverse(order: Array, counts: Array, shape: Any) -> Array:
    made = np.empty(order.size, np.intp)
    made[order] = np.arange(counts.size).repeat(counts)
    return made.reshape(shape)


def _unique_all(x: Array, /) -> Any:
    if not x.size:
        return NotImplemented
    flat = x.ravel()
    order = flat.argsort(kind="stable")
    ordered = flat[order]
    bounds = _bounds(ordered)
    first, counts = bounds[:-1], bounds[1:] - bounds[:-1]
    return functions.UniqueAll(ordered[first], order[first], _inverse(order, counts, x.shape), counts)


def _unique_inverse(x: Array, /) -> Any:
    if not x.size:
        return NotImplemented
    flat = x.ravel()
    order = flat.argsort()
    ordered = flat[order]
    bounds = _bounds(ordered)
    first = bounds[:-1]
    return functions.UniqueInverse(ordered[first], _inverse(order, bounds[1:] - first, x.shape))


def _unique_counts(x: Array, /) -> Any:
    if not x.size:
        return NotImplemented
    ordered = x.flatten()
    ordered.sort()
    bounds = _bounds(ordered)
    first = bounds[:-1]
    return functions.UniqueCounts(ordered[first], bounds[1:] - first)


def _isin(x1: Array, x2: Any, /, *, invert: bool = False) -> Any:
    if type(x2) is not np.ndarray or x1.dtype != x2.dtype or not x2.size:
        return NotImplemented
    if x1.dtype.kind != "f":
        return _library_isin(x1, x2, invert=invert)
    among = x2.flatten()
    among.sort()
    places = among.searchsorted(x1)
    found = among.take(places, mode="clip")
    return found != x1 if invert else found == x1


ORDER: Final[dict[str, Function]] = {
    "sort": _sort, "argsort": _argsort, "searchsorted": _searchsorted, "take": _take, "nonzero": _nonzero,
    "take_along_axis": _take_along_axis, "isin": _isin, "unique_values": np.unique_values,
    "unique_all": _unique_all, "unique_counts": _unique_counts, "unique_inverse": _unique_inverse,
}
"""Implementations by name in the namespace."""
