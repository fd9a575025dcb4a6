"""NumPy's functions that move, repeat, pad and split, over traced arrays.

Owns their entries in the table of `jitfuse.tracing.tensor.function_table`; each has NumPy's name and parameters. Views
and joins are in `jitfuse.tracing.numpy_like.shapes`.
"""
from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitfuse.dtypes import integer_range, is_integer
from jitfuse.errors import ArgumentError, ShapeError, UnsupportedError
from jitfuse.ir.rules import shape_rules
from jitfuse.ir.rules.shape_rules import whole
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numpy_like import reductions, shapes
from jitfuse.tracing.numpy_like.data_dependent import repeat_each
from jitfuse.tracing.record.literals import check_int
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor import indexing
from jitfuse.tracing.tensor.function_table import Tensor, extents, implements, lifted, strong


def _wholes(value: Any) -> tuple[int, ...]:
    return tuple(map(whole, value)) if isinstance(value, Sequence | np.ndarray) else (whole(value),)


# ---------------------------------------------------------------- moving
@implements("roll")
def roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    """Move elements along axes; those that leave come in again at the other end."""
    x = strong(lifted(a)[0])
    if axis is None:
        return roll(x.ravel(), sum(_wholes(shift)), 0).reshape(x.shape)
    shifts, axes = np.broadcast_arrays(_wholes(shift), extents(axis))
    if not x.ndim:
        raise ShapeError(f"np.roll: axis {axis} is out of bounds for an array of no dimensions, at {user_line()}")
    normal = tuple(shape_rules.normalize_axis("roll", int(k), x.ndim) for k in axes.ravel())
    return x.call("roll", shifts=tuple(int(s) for s in shifts.ravel()), axes=normal)


@implements("fliplr")
def fliplr(m: Any) -> Tensor:
    """Reverse the second axis; a view."""
    return shapes.flip(_matrix("fliplr", m, 2), 1)


@implements("flipud")
def flipud(m: Any) -> Tensor:
    """Reverse the first axis; a view."""
    return shapes.flip(_matrix("flipud", m, 1), 0)


def _matrix(name: str, m: Any, rank: int) -> Tensor:
    x = strong(lifted(m)[0])
    if x.ndim < rank:
        raise ShapeError(f"np.{name}: an array of shape {x.shape} has fewer than {rank} axes, at {user_line()}")
    return x


@implements("rot90")
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Tensor:
    """Rotate by k quarter turns in the plane of two axes; a view."""
    x, (a, b) = _matrix("rot90", m, 2), (shape_rules.normalize_axis("rot90", i, m.ndim) for i in axes)
    if a == b:
        raise ShapeError(f"np.rot90: the axes {tuple(axes)} must be two different ones, at {user_line()}")
    turns = whole(k) % 4
    if turns == 2:
        return shapes.flip(x, (a, b))
    if turns == 1:
        return shapes.flip(x, b).swapaxes(a, b)
    return shapes.flip(x.swapaxes(a, b), b) if turns else x[...]


@implements("rollaxis")
def rollaxis(a: Any, axis: int, start: int = 0) -> Tensor:
    """Move an axis backwards until it lies before another; a view."""
    n = a.ndim
    axis = shape_rules.normalize_axis("rollaxis", axis, n)
    if not -n <= start <= n:
        raise ShapeError(f"np.rollaxis: start {start} is out of bounds for {n} dimension(s), at {user_line()}")
    start = start + n if start < 0 else start
    return shapes.moveaxis(a, axis, start - 1 if axis < start else start)


# ---------------------------------------------------------------- repeating and padding
@implements("tile")
def tile(A: Any, reps: Any) -> Tensor:
    """Repeat the whole array along each axis."""
    counts = _wholes(reps)
    if any(r < 0 for r in counts):
        raise ShapeError(f"np.tile: negative repetitions {counts}, at {user_line()}")
    made = strong(lifted(A)[0]).call("tile", reps=counts)
    return made if made.ndim else made.as_copy()


@implements("repeat")
def repeat(a: Any, repeats: Any, axis: Any = None) -> Tensor:
    """Repeat each element along an axis: all equally often, or each by its own count."""
    x = strong(lifted(a)[0])
    if axis is None:
        x, axis = x.ravel(), 0
    shape_rules.reject_bools(axis)
    along = shape_rules.normalize_axis("repeat", whole(axis), x.ndim)
    if isinstance(repeats, AbstractTensor) and not repeats.weak:
        return repeat_each(x, repeats, along)
    counts = _wholes(repeats)
    if any(r < 0 for r in counts):
        raise ShapeError(f"repeats may not contain negative values, at {user_line()}")
    if len(counts) == 1:
        return x.call("repeat", times=counts[0], axis=along)
    if len(counts) != x.shape[along]:
        raise ShapeError(f"np.repeat: {len(counts)} counts for an axis of extent {x.shape[along]}, at {user_line()}")
    lead = (slice(None),) * along
    parts = [x[(*lead, slice(k, k + 1))].call("repeat", times=r, axis=along) for k, r in enumerate(counts) if r]
    return shapes.concatenate(parts, along) if parts else x[(*lead, slice(0, 0))].as_copy()


_PAD_OPTIONS = {
    "constant": "constant_values", "linear_ramp": "end_values", "maximum": "stat_length", "mean": "stat_length",
    "median": "stat_length", "minimum": "stat_length", "reflect": "reflect_type", "symmetric": "reflect_type",
}


@implements("pad")
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Tensor:
    """Add elements before and after each axis."""
    x = strong(lifted(array)[0])
    if callable(mode):
        raise UnsupportedError(f"np.pad with a function as its mode is not available, at {user_line()}. Pad with zeros "
                               "and assign the borders: y = np.pad(x, 1); y[:1] = ...")
    option = _PAD_OPTIONS.get(mode)
    surplus = set(kwargs) - {option}
    if surplus:
        raise ArgumentError(f"unsupported keyword arguments for mode '{mode}': {surplus}, at {user_line()}")
    if isinstance(pad_width, dict):
        given = [(0, 0)] * x.ndim
        for axis, width in pad_width.items():
            given[axis] = (width, width) if isinstance(width, int) else tuple(width)
        pad_width = given
    widths = _pairs("pad_width", pad_width, x.ndim, counts=True)
    value = kwargs.get(option) if option else None
    odd = option == "reflect_type" and value == "odd"
    pairs = () if value is None or option == "reflect_type" else _pairs(
        str(option), value, x.ndim, counts=option == "stat_length")
    if option == "constant_values" and is_integer(str(x.dtype)):
        _check_constants(x, np.asarray(value))
    return x.call(
        "pad", before=widths[::2], after=widths[1::2], mode=mode, odd=odd,
        values=pairs if pairs and option in ("constant_values", "end_values") else (0,) * (2 * x.ndim),
        lengths=pairs if option == "stat_length" else (),
    )


def _check_constants(x: Tensor, values: np.ndarray[Any, Any]) -> None:
    """Raise for pad ints that the array's dtype does not hold; one or two constants follow NumPy, and may wrap."""
    low, high = integer_range(str(x.dtype))
    if values.dtype.kind == "i" and (low or values.size > 2 or values.shape == (2, 1)):
        for number in values.ravel().tolist():
            check_int(number, low, high, str(x.dtype))


def _pairs(name: str, given: Any, rank: int, *, counts: bool) -> tuple[Any, ...]:
    """Return a (before, after) pair for each axis, flattened, broadcast as in NumPy."""
    array = np.asarray(given)
    if counts and array.dtype.kind not in "iu":
        raise ArgumentError(f"np.pad: `{name}` must be of integral type, at {user_line()}")
    if counts and array.size and array.min() < 0:
        raise ShapeError(f"np.pad: {name} can't contain negative values, at {user_line()}")
    if array.size == 1 or (array.size == 2 and array.shape != (2, 1)):
        array = array.ravel()
    try:
        return tuple(v.item() for v in np.broadcast_to(array, (rank, 2)).ravel())
    except ValueError as error:
        raise ShapeError(f"np.pad: {name} of shape {array.shape} does not fit {rank} axes, at {user_line()}") from error


# ---------------------------------------------------------------- triangles and diagonals
def _triangle(name: str, m: Any, k: Any) -> Tensor:
    x = strong(lifted(m)[0])
    if x.ndim == 1:
        x = x.call("broadcast_to", shape=(x.shape[0], x.shape[0]))
    return x.call(name, k=whole(k))


@implements("tril")
def tril(m: Any, k: Any = 0) -> Tensor:
    """Keep what lies on or below the k-th diagonal."""
    return _triangle("tril", m, k)


@implements("triu")
def triu(m: Any, k: Any = 0) -> Tensor:
    """Keep what lies on or above the k-th diagonal."""
    return _triangle("triu", m, k)


@implements("diagonal")
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return the diagonal of two axes as the last axis; a read-only view."""
    x = _matrix("diagonal", a, 2)
    first, second = (shape_rules.normalize_axis("diagonal", k, x.ndim) for k in (axis1, axis2))
    if first == second:
        raise ShapeError(f"axis1 and axis2 cannot be the same, at {user_line()}")
    order = [k for k in range(x.ndim) if k not in (first, second)]
    return x.call("transpose", axes=(*order, first, second)).call("diagonal", offset=whole(offset))


@implements("linalg.diagonal")
def diagonal_of_matrices(x: Any, /, *, offset: int = 0) -> Tensor:
    """Return the diagonals of matrices in stacks, those of the last two axes."""
    return diagonal(x, offset, -2, -1)


@implements("diag")
def diag(v: Any, k: int = 0) -> Tensor:
    """Return a matrix with these elements on its k-th diagonal, or the k-th diagonal of a matrix."""
    x = strong(lifted(v)[0])
    if x.ndim not in (1, 2):
        raise ShapeError(f"np.diag: the input must be 1- or 2-d, not of shape {x.shape}, at {user_line()}")
    return x.call("diag", k=whole(k)) if x.ndim == 1 else diagonal(x, k)


@implements("diagflat")
def diagflat(v: Any, k: int = 0) -> Tensor:
    """Return a matrix with all elements on its k-th diagonal."""
    return strong(lifted(v)[0]).ravel().call("diag", k=whole(k))


@implements("trace")
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Tensor:
    """Return the sum along the diagonal."""
    return reductions.sum_(diagonal(a, offset, axis1, axis2), -1, dtype, out)


@implements("fill_diagonal")
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Write a value, or the repeated elements of a vector, on the diagonal of a matrix."""
    if a.ndim != 2 or wrap:
        raise UnsupportedError(f"np.fill_diagonal takes a matrix without wrap=True inside a fused function, at "
                               f"{user_line()}. Use np.where(np.eye(n, dtype=bool), value, a).")
    rows, columns = a.shape
    value = indexing.cast(indexing.given_to(a, val), a)
    i = a.create("arange", count=rows, dtype="int64").reshape((rows, 1))
    if value.ndim:
        count = min(rows, columns)
        given = value.ravel()
        if given.size:
            k = np.arange(count)
            a[k, k] = given[:count] if given.size >= count else given[k % given.size]
        return
    on = i.call("equal", a.create("arange", count=columns, dtype="int64"))
    a[...] = on.call("where", value, a)


# ---------------------------------------------------------------- splitting, joining, grids
@implements("array_split")
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """Split into parts of nearly equal size, or at given indices; the parts are views."""
    if isinstance(indices_or_sections, Sequence | np.ndarray):
        return shapes.split(ary, indices_or_sections, axis)
    parts = whole(indices_or_sections)
    if parts <= 0:
        raise ShapeError(f"number sections must be larger than 0, at {user_line()}")
    size, larger = divmod(ary.shape[shape_rules.normalize_axis("array_split", axis, ary.ndim)], parts)
    cuts = list(itertools.accumulate([size + 1] * larger + [size] * (parts - larger)))[:-1]
    return shapes.split(ary, cuts, axis)


@implements("hsplit")
def hsplit(ary: Any, indices_or_sections: Any) -> Any:
    """Split the second axis, or the only one."""
    return shapes.split(_matrix("hsplit", ary, 1), indices_or_sections, 1 if ary.ndim > 1 else 0)


@implements("vsplit")
def vsplit(ary: Any, indices_or_sections: Any) -> Any:
    """Split the first axis."""
    return shapes.split(_matrix("vsplit", ary, 2), indices_or_sections, 0)


@implements("dsplit")
def dsplit(ary: Any, indices_or_sections: Any) -> Any:
    """Split the third axis."""
    return shapes.split(_matrix("dsplit", ary, 3), indices_or_sections, 2)


@implements("unstack")
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the parts along an axis; views."""
    moved = shapes.moveaxis(_matrix("unstack", x, 1), axis, 0)
    return tuple(moved[k] for k in range(moved.shape[0]))


@implements("atleast_3d")
def atleast_3d(*arys: Any) -> Any:
    """View inputs as arrays with at least three axes."""
    made = []
    for t in map(strong, lifted(*arys)):
        shape = t.shape if t.ndim >= 3 else (1, *t.shape, 1)[-3:] if t.ndim == 1 else (*t.shape, 1, 1, 1)[:3]
        made.append(t.reshape((1, 1, 1) if not t.ndim else shape))
    return made[0] if len(made) == 1 else tuple(made)


@implements("dstack")
def dstack(tup: Any) -> Tensor:
    """Join along the third axis."""
    return shapes.concatenate([atleast_3d(t) for t in lifted(*tup)], 2)


@implements("append")
def append(arr: Any, values: Any, axis: Any = None) -> Tensor:
    """Join along an axis; None joins the flattened arrays."""
    return shapes.concatenate([arr, values], axis)


@implements("meshgrid")
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Return coordinate arrays of a grid."""
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"np.meshgrid: indexing is 'xy' or 'ij', not {indexing!r}, at {user_line()}")
    flat = [strong(t).ravel() for t in lifted(*xi)]
    order = list(range(len(flat)))
    if indexing == "xy" and len(flat) > 1:
        order[:2] = [1, 0]
    shape = tuple(flat[k].size for k in order)
    grids = [x.reshape(tuple(x.size if i == k else 1 for k in order)) for i, x in enumerate(flat)]
    whole = grids if sparse else [g.call("broadcast_to", shape=shape) for g in grids]
    return tuple(g.as_copy() for g in whole) if copy else tuple(whole)


@implements("kron")
def kron(a: Any, b: Any) -> Tensor:
    """Return the Kronecker product."""
    x, y = (strong(t) for t in lifted(a, b))
    rank = max(x.ndim, y.ndim)
    one, two = ((1,) * (rank - t.ndim) + t.shape for t in (x, y))
    wide = x.reshape(tuple(n for e in one for n in (e, 1))), y.reshape(tuple(n for e in two for n in (1, e)))
    product = wide[0].call("multiply", wide[1])
    return product.reshape(tuple(n * m for n, m in zip(one, two, strict=True)))
