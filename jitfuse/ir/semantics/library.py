"""References of library steps: NumPy's order statistics, and SciPy's special functions, imported when used.

The functions are the operators' meaning, and compiled calls run them. Does not own the rows (`jitfuse.ir.operators`).
"""
from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from jitfuse.dtypes import numpy_dtype
from jitfuse.errors import DTypeError, UnsupportedError

Array = Any


@cache
def require_scipy(name: str) -> None:
    """Raise UnsupportedError if an operator needs SciPy, which is not installed."""
    if importlib.util.find_spec("scipy") is None:
        raise UnsupportedError(f"{name} is a library step that SciPy carries out: pip install scipy")


def special(name: str, path: str, widens: bool) -> Callable[..., Array]:
    """Return the function that calls a ufunc of scipy.special, found under `path` there.

    widens: all but float32 is computed in float64. SciPy did so up to 1.17.
    """

    def function(*operands: Array) -> Array:
        require_scipy(name)
        found: Any = importlib.import_module("scipy.special")
        for part in path.split("."):
            found = getattr(found, part)
        if widens and any(np.asarray(x).dtype != np.float32 for x in operands):
            return found(*operands, dtype=np.float64)
        return found(*operands)

    function.__name__ = name
    return function


def sort(x: Array, *, axis: int, sorting: Any) -> Array:
    """Return the elements in ascending order along an axis, NaN last."""
    return np.sort(x, axis=axis, kind=sorting)


def sort_into(result: Array, x: Array, *, axis: int, sorting: Any) -> None:
    """Write the elements in ascending order along an axis into `result`."""
    result[...] = x
    result.sort(axis=axis, kind=sorting)


def argsort(x: Array, *, axis: int, sorting: Any) -> Array:
    """Return the indices that would sort along an axis."""
    return np.argsort(x, axis=axis, kind=sorting)


def partition(x: Array, *, axis: int, positions: tuple[int, ...]) -> Array:
    """Return the elements partitioned: those at `positions` are where sorting would put them."""
    return np.partition(x, positions, axis=axis)


def partition_into(result: Array, x: Array, *, axis: int, positions: tuple[int, ...]) -> None:
    """Write a partition into `result`."""
    result[...] = x
    result.partition(positions, axis=axis)


def argpartition(x: Array, *, axis: int, positions: tuple[int, ...]) -> Array:
    """Return the indices of a partition."""
    return np.argpartition(x, positions, axis=axis)


def topk(x: Array, *, axis: int, count: int, largest: bool) -> Array:
    """Return the indices of the largest or smallest elements in order; of equal ones, the first comes first.

    The best elements of many parts of a row bound the last wanted element; only elements within the bound are sorted.
    """
    rows = np.moveaxis(np.asarray(x), axis, -1)
    if rows.dtype.itemsize < 4 and rows.dtype.kind not in "biu":
        rows = rows.astype(np.float32)  # the order is the same, and NumPy is slow in 16 bits
    shape, extent = rows.shape, rows.shape[-1]
    parts = max(_PARTS_PER_ELEMENT * count, math.isqrt(extent))
    if rows.dtype.kind == "b" or not count or parts * _PARTS_PER_ELEMENT > extent:
        return np.moveaxis(_in_order(rows, largest)[..., :count], -1, axis)
    flat = rows.reshape(math.prod(shape[:-1]), extent)
    of_parts = flat[:, : extent // parts * parts].reshape(len(flat), extent // parts, parts)
    bound = (np.partition(of_parts.max(1), parts - count, -1)[:, parts - count, None] if largest
             else np.partition(of_parts.min(1), count - 1, -1)[:, count - 1, None])
    candidates = np.flatnonzero(~(flat < bound if largest else flat > bound))  # NaN too, and all if the bound is NaN
    order = _in_order(flat.reshape(-1)[candidates], largest)
    own = candidates // extent
    order = order[np.argsort(own[order], kind="stable")]
    starts = np.searchsorted(own, np.arange(len(flat)))
    found = candidates[order][starts[:, None] + np.arange(count)] % extent
    return np.moveaxis(found.reshape(*shape[:-1], count), -1, axis)


_PARTS_PER_ELEMENT: Final = 4
"""A row is cut into at least this many parts per wanted element, of at least this many elements each."""


def _in_order(rows: Array, largest: bool) -> Array:
    """Return the indices that sort along the last axis, stable in both orders."""
    if not largest:
        return np.argsort(rows, -1, kind="stable")
    return rows.shape[-1] - 1 - np.argsort(rows[..., ::-1], -1, kind="stable")[..., ::-1]


def searchsorted(sorted_: Array, values: Array, *, side: Any) -> Array:
    """Return where values would be inserted into a sorted array."""
    return np.searchsorted(sorted_, values, side=side)


def median(x: Array, *, axis: Any, keepdims: bool) -> Array:
    """Return np.median over axes, with less overhead for floats."""
    x = np.asarray(x)
    if x.dtype.char not in "fd" or not x.size or not (axis is None or isinstance(axis, int)):
        return np.median(x, axis=axis, keepdims=keepdims).astype(statistic_dtype("median", (_name(x.dtype),), False))
    data, along = (x.reshape(-1), 0) if axis is None else (x, axis)
    middle, odd = divmod(data.shape[along], 2)
    parts = np.partition(data, (middle, -1) if odd else (middle - 1, middle, -1), along)
    upper = parts.take(middle, along)
    found = upper + 0 if odd else (parts.take(middle - 1, along) + 0 + upper) / 2  # NumPy adds to 0
    last = parts.take(-1, along)  # NaN if there is one
    if not (last == last).all():
        found = np.where(last == last, found, last)
    return np.reshape(found, _kept(x.shape, axis)) if keepdims else found[()]


def _kept(shape: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    return tuple(1 if axis is None or k == axis % len(shape) else n for k, n in enumerate(shape))


@cache
def _name(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype, cached: NumPy takes 1 µs to build it."""
    return dtype.name


@cache
def statistic_dtype(name: str, dtypes: tuple[str, ...], weak: bool, **attrs: Any) -> str:
    """Return the dtype of a statistic over operands of these dtypes; raise DTypeError if NumPy rejects them."""
    arrays: list[Any] = [np.ones(1, numpy_dtype(d)) for d in dtypes]
    if name.startswith("nan") and dtypes[0] == "bfloat16":
        raise DTypeError(f"{name} does not take bfloat16, in which NumPy knows no NaN; cast first with astype")
    if weak:
        arrays[1] = arrays[1].item()
    try:
        with np.errstate(all="ignore"):
            return str(np.asarray(getattr(np, name)(*arrays, **attrs)).dtype.name)
    except TypeError as error:
        raise DTypeError(f"{name} does not take {', '.join(dtypes)}: {error}") from error


def statistic(name: str) -> Callable[..., Array]:
    """Return NumPy's function of order statistics of this name: quantiles, and medians without NaN.

    `weak` says that q is a Python number, which takes the dtype of x. If the data hold NaN, NumPy may return the dtype
    of x; here the dtype does not depend on the data.
    """
    plain = getattr(np, name)

    def function(x: Array, *q: Array, axis: Any, keepdims: bool, weak: bool = False, **attrs: Any) -> Array:
        x, *others = (np.asarray(v) for v in (x, *q))
        dtype = statistic_dtype(name, (_name(x.dtype), *[_name(v.dtype) for v in others]), weak, **attrs)
        given = [v.item() if weak else v for v in others]
        return plain(x, *given, axis=axis, keepdims=keepdims, **attrs).astype(dtype, copy=False)

    function.__name__ = name
    return function
