"""The meaning of gathers and scatters in NumPy, and `take` in terms of gather.

A scatter runs on the host, one element after the other: if an index occurs twice the last value wins, as in NumPy.
Parallel kernels do not guarantee that.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
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

_COLUMNS: Final = 16
"""Places of the other axes for which combining at few indices of one axis is worth a call of the ufunc each."""


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
    _write_at(result, value, indices, axes, place, combine)
    return result


def scatter_into(
    result: Array, x: Array, value: Array, *indices: Array, axes: tuple[int, ...], place: int, combine: str
) -> None:
    """Write into `result`, which shares no memory with the operands, what `scatter` returns."""
    result[...] = x
    _write_at(result, value, indices, axes, place, combine)


def _write_at(
    result: Array, value: Array, indices: tuple[Array, ...], axes: tuple[int, ...], place: int, combine: str
) -> None:
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
        elif not _combined_in_columns(ufunc, target, key, value := np.asarray(value)) and not _combined_in_a_row(
                ufunc, result, target, key, value):
            ufunc.at(target, key[0] if len(key) == 1 else key, value)  # type: ignore[attr-defined]


def _combined_in_columns(ufunc: Any, target: Array, key: tuple[Array, ...], value: Array) -> bool:
    """Combine at indices of the first axes, one place of the other axes after the other; return whether it was done.

    NumPy has fast loops for arrays of one axis. It is not done for other dtypes, which are cast, or for many places.
    """
    sizes, rest = target.shape[: len(key)], target.shape[len(key) :]
    common = np.broadcast_shapes(*(index.shape for index in key)) if len(key) > 1 else key[0].shape
    if value.dtype != target.dtype or not 1 < math.prod(rest) <= max(_COLUMNS, math.prod(common)):
        return False
    index = key[0] if len(key) == 1 else _flat(key, sizes, [math.prod(sizes[k + 1 :]) for k in range(len(sizes))])
    columns = target.reshape(math.prod(sizes), *rest)
    if index is None or not np.may_share_memory(columns, target):
        return False
    values = np.broadcast_to(value, (*common, *rest)) if value.ndim <= len(common) + len(rest) else value
    values = values.reshape(-1, *rest)
    for place in itertools.product(*map(range, rest)):
        at: tuple[Any, ...] = (slice(None), *place)
        ufunc.at(columns[at], index.reshape(-1), values[at])
    return True


def _flat(key: tuple[Array, ...], sizes: Sequence[int], strides: Sequence[int]) -> Array | None:
    """Return indices of several axes as those of one; None where an index is wrong, or may be after a sum."""
    flat: Any = 0
    for index, n, stride in zip(key, sizes, strides, strict=False):
        if index.dtype.kind == "u" or (index.size and not -n <= index.min() <= index.max() < n):
            return None
        flat = flat + np.where(index < 0, index + n, index).astype(np.int64) * stride
    return np.asarray(flat)


def _combined_in_a_row(ufunc: Any, whole: Array, target: Array, key: tuple[Array, ...], value: Array) -> bool:
    """Combine at indices of the flattened array, for which NumPy has fast loops; return whether it was possible.

    It is not for one axis, which is such an array already, for other dtypes, which are cast, or for wrong indices.
    """
    if whole.ndim < 2 or value.dtype != whole.dtype or not whole.flags.c_contiguous or not whole.size:
        return False
    sizes, strides = target.shape, [s // whole.itemsize for s in target.strides]
    flat = _flat(key, sizes, strides)
    if flat is None:
        return False
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
