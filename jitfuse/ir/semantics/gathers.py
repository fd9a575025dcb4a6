"""The meaning of gathers and scatters in NumPy, and `take` in terms of gather.

A scatter runs on the host, one element after the other: if an index occurs twice the last value wins, as in NumPy.
Parallel kernels do not guarantee that.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

Array = Any
Tensor = Any

COMBINE: Final[dict[str, Callable[..., Any] | None]] = {
    "set": None, **{name: getattr(np, name) for name in (
        "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "minimum", "maximum",
        "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor",
    )},
}
"""How a scatter combines an element with a value: the ufunc whose `at` does it; None replaces the element."""


def _front(x: Array, axes: tuple[int, ...]) -> Array:
    """Return a view with the indexed axes first."""
    return np.transpose(x, (*axes, *(a for a in range(x.ndim) if a not in axes)))


def gather(x: Array, *indices: Array, axes: tuple[int, ...], place: int) -> Array:
    """Return the elements at broadcast indices; raise IndexError out of bounds."""
    common = np.broadcast_shapes(*map(np.shape, indices))
    found = _front(np.asarray(x), axes)[tuple(map(np.asarray, indices))]
    return np.moveaxis(found, range(len(common)), range(place, place + len(common)))[()]


def scatter(x: Array, value: Array, *indices: Array, axes: tuple[int, ...], place: int, combine: str) -> Array:
    """Return a copy with a value set or combined at indices; raise IndexError out of bounds."""
    result = np.array(x)
    target, key = result, tuple(map(np.asarray, indices))
    if place or axes != tuple(range(len(axes))):  # else the value has the layout that NumPy expects
        common = np.broadcast_shapes(*map(np.shape, indices))
        target = _front(result, axes)
        rest = target.shape[len(axes) :]
        region = (*rest[:place], *common, *rest[place:])
        value = np.moveaxis(np.broadcast_to(value, region), range(place, place + len(common)), range(len(common)))
    ufunc = COMBINE[combine]
    with np.errstate(all="ignore"):
        if ufunc is None:
            target[key] = value
        elif not _combined_in_a_row(ufunc, result, target, key, np.asarray(value)):
            ufunc.at(target, key, value)  # type: ignore[attr-defined]
    return result


def _combined_in_a_row(ufunc: Any, whole: Array, target: Array, key: tuple[Array, ...], value: Array) -> bool:
    """Combine at indices of the flattened array, for which NumPy has fast loops; return whether it was possible.

    It is not for one axis, which is such an array already, for other dtypes, which are cast, or for wrong indices.
    """
    if whole.ndim < 2 or value.dtype != whole.dtype or not whole.flags.c_contiguous or not whole.size:
        return False
    sizes, strides = target.shape, [s // whole.itemsize for s in target.strides]
    flat: Any = 0
    for index, n, stride in zip(key, sizes, strides, strict=False):
        if index.dtype.kind == "u" or (index.size and not -n <= index.min() <= index.max() < n):
            return False
        flat = flat + np.where(index < 0, index + n, index).astype(np.int64) * stride
    rest = len(sizes) - len(key)
    flat = np.reshape(flat, (*np.shape(flat), *(1,) * rest))
    for k, (n, stride) in enumerate(zip(sizes[len(key) :], strides[len(key) :], strict=True)):
        flat = flat + (np.arange(n) * stride).reshape((-1, *(1,) * (rest - 1 - k)))
    broadcast = np.broadcast_to(value, flat.shape) if value.ndim <= flat.ndim else value.reshape(flat.shape)
    ufunc.at(whole.reshape(-1), flat.reshape(-1), broadcast.reshape(-1))
    return True


def take(x: Tensor, index: Tensor, *, axis: int, mode: str) -> Tensor:
    """Gather along one axis; `wrap` takes indices modulo the extent, `clip` limits them to it."""
    axis %= x.ndim
    extent = index.extent(value=x.shape[axis])
    if mode != "raise" and index.dtype != "int64":
        index = index.call("astype", dtype="int64")
    if mode == "wrap":
        index = index.call("remainder", extent)
    elif mode == "clip":
        index = index.call("maximum", 0).call("minimum", index.extent(value=max(x.shape[axis] - 1, 0)))
    return x.call("gather", index, axes=(axis,), place=axis)
