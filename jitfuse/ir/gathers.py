"""What gathers and scatters mean, in NumPy, and take in terms of gather.

A scatter runs on the host, one element after the other: where an index comes twice the last value stays, as in NumPy,
which kernels that run side by side do not promise.
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
"""How a scatter combines what is there with a value: the ufunc whose `at` does so."""


def _front(x: Array, axes: tuple[int, ...]) -> Array:
    """Return a view with the indexed axes first."""
    return np.transpose(x, (*axes, *(a for a in range(x.ndim) if a not in axes)))


def gather(x: Array, *indices: Array, axes: tuple[int, ...], place: int) -> Array:
    """Return the elements at broadcast indices; raises IndexError out of bounds."""
    common = np.broadcast_shapes(*map(np.shape, indices))
    found = _front(np.asarray(x), axes)[tuple(map(np.asarray, indices))]
    return np.moveaxis(found, range(len(common)), range(place, place + len(common)))[()]


def scatter(x: Array, value: Array, *indices: Array, axes: tuple[int, ...], place: int, combine: str) -> Array:
    """Return a copy with a value set or combined at indices; raises IndexError out of bounds."""
    result = np.array(x)
    target, key = result, tuple(map(np.asarray, indices))
    if place or axes != tuple(range(len(axes))):  # else the value lies as NumPy expects it
        common = np.broadcast_shapes(*map(np.shape, indices))
        target = _front(result, axes)
        rest = target.shape[len(axes) :]
        region = (*rest[:place], *common, *rest[place:])
        value = np.moveaxis(np.broadcast_to(value, region), range(place, place + len(common)), range(len(common)))
    ufunc = COMBINE[combine]
    with np.errstate(all="ignore"):
        if ufunc is None:
            target[key] = value
        else:
            ufunc.at(target, key, value)  # type: ignore[attr-defined]
    return result


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
