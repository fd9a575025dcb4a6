"""Indexing by integer arrays, traced scalars and known masks: `gather` and `scatter` steps.

Owns the separation of an index into a basic part, which is a view, and arrays that index this view, with NumPy's rules
for the position of their axes; and NumPy's functions take, put and the like. Does not own basic indexing
(`jitfuse.tracing.tensor.indexing`).
"""
from __future__ import annotations

import operator
from typing import Any

import numpy as np

from jitfuse.base.later import Later
from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import is_integer
from jitfuse.errors import ArgumentError, BoundsError, ShapeError, UnsupportedError
from jitfuse.ir.operators import ops
from jitfuse.ir.rules import shape_rules
from jitfuse.ir.semantics import gathers
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.record import memory_order
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor import indexing
from jitfuse.tracing.tensor.function_table import Tensor, deliver, implements, lifted, strong

arithmetic = Later("jitfuse.tracing.numbers.arithmetic")
data_extents = Later("jitfuse.tracing.tensor.data_extents")


class IndexSelection(NamedTuple):
    """An index with arrays: the basic index that comes first, then arrays for some axes of its view."""

    basic: tuple[Any, ...]
    arrays: tuple[Tensor, ...]
    axes: tuple[int, ...]
    place: int

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes of the step."""
        return {"axes": self.axes, "place": self.place}


def is_advanced(index: Any) -> bool:
    """Return whether an index holds an array, a list or a traced integer that Python need not read."""
    return any(_is_array(i) for i in (index if isinstance(index, tuple) else (index,)))


def with_numbers(index: Any) -> Any:
    """Return an index with run-time Python ints as NumPy ints, so that they are not read."""
    if type(index) is tuple:
        return tuple([with_numbers(i) for i in index])
    of_data = (
        isinstance(index, AbstractTensor) and index.weak and index.dtype == "int64"
        and arithmetic.is_of_data(index._run.session, index._id())  # type: ignore[attr-defined]
    )
    return index.call("astype", dtype="int64") if of_data else index


def _is_array(item: Any) -> bool:
    if isinstance(item, AbstractTensor):
        return not item.weak
    return isinstance(item, list | range | np.ndarray)


def select(x: Tensor, index: Any) -> IndexSelection:
    """Parse an index that holds arrays; raises BoundsError, and an error for traced masks without graph breaks."""
    items = _expanded(x, list(index) if isinstance(index, tuple) else [index])
    advanced = [k for k, i in enumerate(items) if i is not None and not isinstance(i, slice)]
    together = advanced == list(range(advanced[0], advanced[-1] + 1))
    at = sum(items[k] is None or isinstance(items[k], slice) for k in range(advanced[0])) if together else 0
    basic: list[Any] = []
    arrays, axes, kept, axis = [], [], 0, 0
    for item in items:
        if _is_array(item):
            arrays.append(_index_array(x, item, axis))
            axes.append(kept)
            basic.append(slice(None))
        else:
            basic.append(item)
        kept += item is None or isinstance(item, slice) or _is_array(item)
        axis += item is not None
    return IndexSelection(tuple(basic), tuple(arrays), tuple(axes), at)


def _expanded(x: Tensor, items: list[Any]) -> list[Any]:
    """Return one item for each axis and new axis: the ellipsis is expanded, masks become indices of True elements."""
    masks = [_is_array(item) and _is_mask(item) for item in items]
    wide = [np.ndim(i) if m else int(i is not None and i is not Ellipsis) for i, m in zip(items, masks, strict=True)]
    flat: list[Any] = []
    axis = 0
    for item, mask, axes in zip(items, masks, wide, strict=True):
        flat += _nonzero(x, item, axis) if mask else [item]
        axis += x.ndim - sum(wide) if item is Ellipsis else axes
    ellipses = [k for k, i in enumerate(flat) if i is Ellipsis]
    consuming = sum(i is not None and i is not Ellipsis for i in flat)
    if len(ellipses) > 1:
        raise BoundsError(f"an index can only have a single ellipsis ('...'), at {user_line()}")
    if consuming > x.ndim:
        raise BoundsError(f"too many indices at {user_line()}: the array has {x.ndim} dimension(s), but {consuming} "
                          "were indexed")
    at = ellipses[0] if ellipses else len(flat)
    return [*flat[:at], *[slice(None)] * (x.ndim - consuming), *flat[at + 1 :]]


def _is_mask(item: Any) -> bool:
    if isinstance(item, AbstractTensor):
        return item.dtype == "bool"
    return not _holds_tensor(item) and np.asarray(item).dtype == bool


def _holds_tensor(item: Any) -> bool:
    return isinstance(item, AbstractTensor) or (isinstance(item, list | tuple) and any(map(_holds_tensor, item)))


def _nonzero(x: Tensor, mask: Any, axis: int) -> list[Any]:
    """Return the indices where a mask is True, one array for each of its axes; a traced mask is a graph break."""
    extents = x.shape[axis : axis + np.ndim(mask)]
    if np.shape(mask) != extents:
        raise BoundsError(f"boolean index of shape {np.shape(mask)} does not match the array's {x.shape} from axis "
                          f"{axis} on, at {user_line()}")
    if not isinstance(mask, AbstractTensor):
        return list(np.asarray(mask).nonzero())
    return list(data_extents.indices_by_axis("x[mask]", mask))


def _index_array(x: Tensor, item: Any, axis: int) -> Tensor:
    """Return an index as a tensor of integers; those known while tracing are checked here."""
    if not isinstance(item, AbstractTensor) and not _holds_tensor(item):
        array = np.asarray(item) if np.size(item) or isinstance(item, np.ndarray) else np.zeros(np.shape(item), "int64")
        if array.dtype.kind not in "iu":
            raise BoundsError(f"arrays used as indices must be of integer (or boolean) type, at {user_line()}")
        wrong = array[(array < -x.shape[axis]) | (array >= x.shape[axis])]
        if wrong.size:
            raise BoundsError(f"index {wrong.flat[0]} is out of bounds for axis {axis} with size {x.shape[axis]}, "
                              f"at {user_line()}")
        return x.as_tensor(array.astype("int64"))
    tensor: Tensor = x.as_tensor(item)
    if not is_integer(str(tensor.dtype)):
        raise BoundsError(f"arrays used as indices must be of integer (or boolean) type, at {user_line()}")
    branches = x._run.active_branches
    return branches[-1].index(x._run, tensor) if branches else tensor


# ---------------------------------------------------------------- items
def get_item(x: Tensor, index: Any) -> Tensor:
    """Return `x[index]`: a copy, or a view if all arrays are traced scalars."""
    if isinstance(index, AbstractTensor) and index.dtype == "bool" and not index.ndim:
        index = index.reshape(1)  # a mask along a new axis of extent 1
        x = x.reshape((1, *x.shape))
    found = select(x, index)
    view = indexing.get_item(x, found.basic)
    are_scalars = all(not a.ndim and getattr(a, "_scalar", True) for a in found.arrays)  # arrays of rank 0 copy
    is_array = isinstance(index, tuple) and any(i is Ellipsis for i in index)
    if are_scalars and (is_array or view.ndim > len(found.axes)):
        return view.picked(found.arrays, found.attrs)
    made = view.call("gather", *found.arrays, **found.attrs)
    if is_array and not made.ndim:
        return made.as_copy()
    return made.laid_out_by(memory_order.of_picked, view, *found[1:]) if made.ndim > 1 else made


def set_item(x: Tensor, index: Any, value: Any, combine: str = "set") -> None:
    """Carry out `x[index] = value`, or combine each element with its value, one after the other."""
    found = select(x, index)
    view = indexing.get_item(x, found.basic)
    new = indexing.given_to(x, value)
    view._assign(_scattered(view, new, found, combine))


def set_masked(x: Any, mask: Any, value: Any) -> None:
    """Carry out `x[mask] = value` by a select, or by a scatter of one value for each element that the mask selects."""
    where = mask if isinstance(mask, AbstractTensor) else x._lift(np.asarray(mask))
    lead, rest = x.shape[: where.ndim], x.shape[where.ndim :]
    if where.shape != lead:
        raise BoundsError(f"boolean index of shape {where.shape} does not match the array's {x.shape}, "
                          f"at {user_line()}")
    new = value if isinstance(value, AbstractTensor) else x._lift(value)
    fits = len(new.shape) <= len(rest) and all(n in (1, m) for n, m in zip(new.shape[::-1], rest[::-1]))
    if new.ndim > len(rest) + 1:
        raise ShapeError(
            f"x[mask] = value takes a value of at most {len(rest) + 1} axes, not of shape {new.shape}, at "
            f"{user_line()}. Or write x[...] = np.where(mask, value, x)."
        )
    if not fits:  # one value for each element or row that the mask selects
        set_item(x, where, new)
        return
    if where.ndim != x.ndim:
        where = where.call("reshape", shape=lead + (1,) * len(rest))
    x._assign(where.call("where", indexing.cast(new, x), x))


def _scattered(view: Tensor, value: Tensor, found: IndexSelection, combine: str) -> Tensor:
    row = ops.get("gather")
    assert row is not None
    metas = [t._meta for t in (view, *found.arrays)]
    region = row.infer(metas, found.attrs).shape
    while combine == "set" and value.ndim > len(region) and value.shape[0] == 1:  # NumPy's `at` takes none of these
        value = value.call("reshape", shape=value.shape[1:])
    fits = value.ndim <= len(region) and all(n in (1, m) for n, m in zip(value.shape[::-1], region[::-1]))
    if not fits:
        raise ShapeError(f"shape mismatch: value array of shape {value.shape} could not be broadcast to "
                         f"indexing result of shape {region}, at {user_line()}")
    if combine == "set":
        are_scalars = all(not a.ndim and getattr(a, "_scalar", True) for a in found.arrays)
        if are_scalars and getattr(view, "_run", None) is not None:  # else NumPy casts as it casts arrays
            value = view._check_assigned(value, of_scalars=True)
        value = indexing.cast(value, view)
    return view.call("scatter", strong(value), *found.arrays, combine=combine, **found.attrs)


def at(name: str, a: Any, indices: Any, b: Any) -> None:
    """Carry out `ufunc.at(a, indices, b)`: unbuffered, so that an index that comes twice counts twice."""
    if not isinstance(a, AbstractTensor):
        raise UnsupportedError(f"np.{name}.at into an array that is not traced, at {user_line()}. Create it inside the "
                               "function, or pass it as an argument.")
    if name not in gathers.COMBINE or name == "set":
        raise UnsupportedError(f"np.{name}.at is not available inside a fused function, at {user_line()}")
    index = indices if is_advanced(indices) else _as_arrays(indices)
    set_item(a, index, lifted(b, a)[0], name)


def _as_arrays(index: Any) -> Any:
    """Return an index with its first integer as an array, which makes it an advanced index."""
    items = list(index) if isinstance(index, tuple) else [index]
    for k, item in enumerate(items):
        if item is not None and item is not Ellipsis and not isinstance(item, slice):
            items[k] = np.asarray(operator.index(item))
            return tuple(items)
    raise UnsupportedError(f"ufunc.at with slices alone is not available, at {user_line()}. Write a[i:j] += b.")


# ---------------------------------------------------------------- functions
@implements("take")
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Tensor:
    """Return elements along an axis at indices."""
    x = strong(lifted(a, indices)[0])
    if axis is None:
        x, axis = x.ravel(), 0
    shape_rules.reject_bools(axis)
    along = shape_rules.normalize_axis("take", axis, x.ndim)
    if mode == "raise" and not isinstance(indices, AbstractTensor):
        index = _index_array(x, np.asarray(indices) if not _holds_tensor(indices) else indices, along)
    else:
        index = lifted(indices, x)[0]
    return deliver("take", x.call("take", index, axis=along, mode=mode), out)


@implements("take_along_axis")
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Tensor:
    """Return elements along an axis at an index for each of the other positions."""
    x, index = (strong(t) for t in lifted(arr, indices))
    if axis is None:
        x, axis = x.ravel(), 0
    return x.call("take_along_axis", index, axis=shape_rules.whole(axis))


@implements("put")
def put(a: Tensor, ind: Any, v: Any, mode: str = "raise") -> None:
    """Write values at positions of the flattened array, repeated as often as needed."""
    if not isinstance(a, AbstractTensor):
        raise UnsupportedError(f"np.put into an array that is not traced, at {user_line()}. Create it inside the "
                               "function, or pass it as an argument.")
    if mode != "raise":
        raise UnsupportedError(f"np.put(mode={mode!r}) is not available, at {user_line()}. Take ind modulo a.size.")
    target: Tensor = a
    flat, index = target.reshape(-1), lifted(ind, a)[0].ravel()
    values = indexing.cast(indexing.given_to(a, v), a).ravel()
    if not index.size or not values.size:
        return
    times = -(-index.size // values.size)
    set_item(flat, strong(index), strong(values).call("tile", reps=(times,))[: index.size])
    if not target.is_contiguous:
        target[...] = flat.reshape(target.shape)


@implements("put_along_axis")
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """Write values along an axis at an index for each of the other positions."""
    if not isinstance(arr, AbstractTensor) or axis is None:
        raise UnsupportedError(f"np.put_along_axis takes a traced array and an axis, at {user_line()}")
    index = strong(lifted(indices, arr)[0])
    if index.ndim != arr.ndim:
        raise ArgumentError(f"np.put_along_axis: indices of shape {index.shape} need as many axes as {arr.shape}, "
                            f"at {user_line()}")
    along = shape_rules.normalize_axis("put_along_axis", axis, arr.ndim)
    key = tuple(
        index if k == along else np.arange(n).reshape(tuple(-1 if j == k else 1 for j in range(arr.ndim)))
        for k, n in enumerate(arr.shape)
    )
    set_item(arr, key, lifted(values, arr)[0])
