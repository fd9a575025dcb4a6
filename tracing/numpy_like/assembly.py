"""NumPy's functions that join, split or index arrays at given positions, over traced arrays: block, insert, delete,
resize, indices of triangles, flat indices.

Owns their entries in the table of `jitfuse.tracing.tensor.function_table`. The indices are plain integers: a mask or a
traced array of indices would give a data-dependent shape.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitfuse import dtypes
from jitfuse.errors import ArgumentError, ShapeError, UnsupportedError
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numpy_like import elementwise, shapes, sorting
from jitfuse.tracing.record import memory_order
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor import indexing
from jitfuse.tracing.tensor.function_table import Tensor, extents, implements, lifted, strong, traced_among
from jitfuse.tracing.tensor.traced import plain


@implements("block")
def block(arrays: Any) -> Tensor:
    """Join nested lists of blocks into one array; the innermost lists are joined along the last axis."""
    depth = _depth(arrays)
    near = traced_among(arrays)
    rank = max(depth, _rank(arrays))

    def joined(part: Any, level: int) -> Tensor:
        if isinstance(part, list):
            return shapes.concatenate([joined(p, level + 1) for p in part], rank - depth + level)
        x = strong(lifted(part, near)[0])
        return x.reshape((1,) * (rank - x.ndim) + x.shape)

    return joined(arrays, 0) if depth else joined(arrays, 0).as_copy()


def _depth(arrays: Any) -> int:
    if isinstance(arrays, tuple):
        raise ArgumentError(f"np.block: arrays is a tuple; only lists can be used, at {user_line()}")
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        raise ArgumentError(f"np.block: List depths are mismatched or a list is empty, at {user_line()}")
    depths = {_depth(a) for a in arrays}
    if len(depths) > 1:
        raise ArgumentError(f"np.block: List depths are mismatched, at {user_line()}")
    return 1 + depths.pop()


def _rank(arrays: Any) -> int:
    return max(map(_rank, arrays)) if isinstance(arrays, list) else int(np.ndim(arrays))


# ---------------------------------------------------------------- indices along an axis
def _positions(name: str, obj: Any, extent: int) -> np.ndarray[Any, Any]:
    """Return indices that are known while tracing, as non-negative integers."""
    if isinstance(obj, AbstractTensor) and obj.ndim:
        raise UnsupportedError(f"np.{name} at a traced array of indices has a shape that depends on data, at "
                               f"{user_line()}. Pass Python integers, or use np.where.")
    if isinstance(obj, slice):
        return np.arange(*obj.indices(extent))
    found = np.asarray(plain(obj))
    if found.dtype == bool and not found.ndim:
        raise ArgumentError(f"np.{name} takes no bool as an index, at {user_line()}")
    if found.dtype == bool:
        found = np.flatnonzero(found)
    return found.astype("int64") if not found.size else found


def _flattened(arr: Any, axis: Any, *near: Any) -> tuple[Tensor, int]:
    x = strong(lifted(arr, *near)[0])
    return (x.ravel(), 0) if axis is None else (x, shape_rules.normalize_axis("axis", axis, x.ndim))


@implements("delete")
def delete(arr: Any, obj: Any, axis: Any = None) -> Tensor:
    """Return an array without the parts at some indices of an axis."""
    x, along = _flattened(arr, axis)
    extent = x.shape[along]
    kept = np.delete(np.arange(extent), _positions("delete", obj, extent))
    made: Any = _picked(x, kept, along)
    if isinstance(obj, int | np.integer | slice):
        return made.ordered("delete", "A", x)
    return made.laid_out_by(memory_order.of_parts, x, along)


def _picked(x: Tensor, positions: np.ndarray[Any, Any], axis: int) -> Tensor:
    """Return the parts at ascending indices along an axis; a few parts are taken as slices."""
    cuts = np.flatnonzero(np.diff(positions) != 1) + 1 if positions.size else np.array([], "int64")
    if len(cuts) > 8:
        return x[(*(slice(None),) * axis, positions)]
    runs = [r for r in np.split(positions, cuts) if r.size] or [positions[:0]]
    lead = (slice(None),) * axis
    parts = [x[(*lead, slice(int(r[0]), int(r[-1]) + 1) if r.size else slice(0, 0))] for r in runs]
    return shapes.concatenate(parts, axis)


@implements("insert")
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Tensor:
    """Return an array with values inserted before indices of an axis."""
    near = [v for v in (values,) if isinstance(v, AbstractTensor)]
    x, along = _flattened(arr, axis, *near)
    extent = x.shape[along]
    positions = _positions("insert", obj, extent)
    new = indexing.cast(indexing.given_to(x, values), x)
    new = new.reshape((1,) * (x.ndim - new.ndim) + new.shape) if new.ndim < x.ndim else new
    if not positions.ndim or positions.size == 1:
        at = int(positions.reshape(-1)[0])
        if not -extent <= at <= extent:
            raise ShapeError(f"index {at} is out of bounds for axis {along} with size {extent}, at {user_line()}")
        at = at + extent if at < 0 else at
        new = shapes.moveaxis(new, 0, along) if not positions.ndim else new
        count = new.shape[along]
        new = new.call("broadcast_to", shape=(*x.shape[:along], count, *x.shape[along + 1 :]))
        lead = (slice(None),) * along
        parts: Any = shapes.concatenate([x[(*lead, slice(None, at))], new, x[(*lead, slice(at, None))]], along)
        return parts.ordered("insert", "A", x)
    marks = np.insert(np.full(extent, -1), positions, np.arange(positions.size))
    new = new.call("broadcast_to", shape=(*x.shape[:along], positions.size, *x.shape[along + 1 :]))
    both: Any = shapes.concatenate([x, new], along)
    source = np.where(marks < 0, np.cumsum(marks < 0) - 1, extent + marks)
    return both[(*(slice(None),) * along, source)].ordered("insert", "A", x)


@implements("resize")
def resize(a: Any, new_shape: Any) -> Tensor:
    """Return an array of another shape, whose elements are repeated to fill it."""
    x, shape = strong(lifted(a)[0]).ravel(), extents(new_shape)
    size = math.prod(shape)
    if any(n < 0 for n in shape):
        raise ShapeError(f"all elements of `new_shape` must be non-negative, at {user_line()}")
    if not x.size or not size:
        return x.create("zeros", shape=shape, dtype=str(x.dtype))
    return x.call("tile", reps=(-(-size // x.size),))[:size].reshape(shape).as_copy()


# ---------------------------------------------------------------- indices
@implements("tril_indices_from")
def tril_indices_from(arr: Any, k: int = 0) -> Any:
    """Return the indices of the lower triangle of a matrix."""
    return np.tril_indices(*_rows("tril_indices_from", arr, k))


@implements("triu_indices_from")
def triu_indices_from(arr: Any, k: int = 0) -> Any:
    """Return the indices of the upper triangle of a matrix."""
    return np.triu_indices(*_rows("triu_indices_from", arr, k))


def _rows(name: str, arr: Any, k: Any) -> tuple[int, int, int]:
    if arr.ndim != 2:
        raise ShapeError(f"np.{name}: input array must be 2-d, not of shape {arr.shape}, at {user_line()}")
    return arr.shape[0], int(k.__index__()), arr.shape[1]


@implements("diag_indices_from")
def diag_indices_from(arr: Any) -> Any:
    """Return the indices of the diagonal of an array whose axes are equally long."""
    if arr.ndim < 2 or len(set(arr.shape)) > 1:
        raise ShapeError(f"np.diag_indices_from: all dimensions of {arr.shape} must be of equal length, and two at "
                         f"least, at {user_line()}")
    return np.diag_indices(arr.shape[0], arr.ndim)


@implements("ix_")
def ix_(*args: Any) -> Any:
    """Return an open grid of sequences of indices."""
    made = []
    for k, t in enumerate(map(strong, lifted(*args))):
        if t.ndim != 1:
            raise ShapeError(f"np.ix_: Cross index must be 1 dimensional, not of shape {t.shape}, at {user_line()}")
        if str(t.dtype) == "bool":
            raise UnsupportedError(f"np.ix_ of masks has a shape that depends on data, at {user_line()}. Use np.where.")
        made.append(t.reshape((1,) * k + (t.size,) + (1,) * (len(args) - k - 1)))
    return tuple(made)


@implements("ravel_multi_index")
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Tensor:
    """Return the flat indices of indices along each axis."""
    shape, found = extents(dims), [strong(t) for t in lifted(*multi_index)]
    modes = mode if isinstance(mode, tuple) else (mode,) * len(shape)
    steps = [math.prod(shape[k + 1 :] if order == "C" else shape[:k]) for k in range(len(shape))]
    total: Tensor = 0
    for index, extent, step, how in zip(found, shape, steps, modes, strict=True):
        position = index.astype("int64", copy=False)
        if how == "clip":
            position = position.call("clip", 0, extent - 1)
        elif how == "wrap":
            position = position % extent
        else:
            inside = position.call("greater_equal", 0).call("logical_and", position.call("less", extent))
            position = position.call("require", inside)
        total = position * step + total
    return total


@implements("unravel_index")
def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    """Return the indices along each axis of flat indices."""
    dims = extents(shape)
    rest = strong(lifted(indices)[0]).astype("int64", copy=False)
    inside = rest.call("greater_equal", 0).call("logical_and", rest.call("less", math.prod(dims)))
    rest = rest.call("require", inside)
    found: list[Tensor] = []
    for extent in reversed(dims) if order == "C" else dims:
        found.append(rest % max(extent, 1))
        rest = rest // max(extent, 1)
    return tuple(reversed(found)) if order == "C" else tuple(found)


# ---------------------------------------------------------------- orders and casts
@implements("lexsort")
def lexsort(keys: Any, axis: int = -1) -> Tensor:
    """Return the order by several keys, the last key first: one stable sort after another."""
    parts = [strong(t) for t in lifted(*(keys if isinstance(keys, Sequence) else [keys[k] for k in range(len(keys))]))]
    along = shape_rules.normalize_axis("lexsort", axis, parts[0].ndim)
    order = sorting.argsort(parts[0], along, stable=True)
    for key in parts[1:]:
        step = sorting.argsort(key.call("take_along_axis", order, axis=along), along, stable=True)
        order = order.call("take_along_axis", step, axis=along)
    return order


@implements("sort_complex")
def sort_complex(a: Any) -> Tensor:
    """Return the elements sorted, as complex numbers."""
    x = strong(lifted(a)[0])
    if dtypes.kind(str(x.dtype)) == "complex":
        return sorting.sort(x)
    narrow = str(x.dtype) in ("int8", "uint8", "int16", "uint16")
    return sorting.sort(x).astype("complex64" if narrow else "complex128")


@implements("astype")
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """Return the elements cast to a dtype."""
    return strong(lifted(x)[0]).astype(dtype, copy=copy)


@implements("array_equiv")
def array_equiv(a1: Any, a2: Any) -> Any:
    """Return whether two arrays are equal where one is broadcast to the other's shape."""
    x, y = lifted(a1, a2)
    try:
        shape_rules.broadcast("array_equiv", [x.shape, y.shape])
    except ShapeError:
        return False
    return elementwise.as_truth(strong(x.call("equal", y)).call("all"))
