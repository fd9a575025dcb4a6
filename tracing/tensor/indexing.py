"""Basic indexing and item assignment of traced tensors, as `slice` and `reshape` steps.

Owns the parsing of index expressions: ints, slices, newaxis, ellipsis, and boolean masks on the left-hand
side of an assignment. Does not own index arrays (`jitfuse.tracing.tensor.gathering`), nor views and writes
(`jitfuse.tracing.tensor.traced`, `jitfuse.tracing.record.memory`).
"""
from __future__ import annotations

import operator
from functools import lru_cache
from typing import Any, Final

import numpy as np

from jitfuse.base.records import NamedTuple, made
from jitfuse.dtypes import numpy_dtype
from jitfuse.errors import BoundsError, ShapeError, UnsupportedError
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.record.access_paths import Paths, ViewStep
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import traced_among


class Region(NamedTuple):
    """A basic index: one (start, step, count) for each axis, and the origin of each axis of the result.

    `axes` holds for each axis of the result the axis that it slices, or None for a new axis; axes dropped by an int
    are absent. `shape` is the result's. `is_whole`: the result has all elements, in order. `moves_axes`: the result
    has other axes than the array, some dropped or new.
    """

    starts: tuple[int, ...]
    steps: tuple[int, ...]
    counts: tuple[int, ...]
    axes: tuple[int | None, ...]
    has_ellipsis: bool
    shape: tuple[int, ...]
    is_whole: bool
    moves_axes: bool

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes of the slice step."""
        return {"counts": self.counts, "starts": self.starts, "steps": self.steps}


class _Pattern(NamedTuple):
    """The part of an index that its items' types determine: the axis of each item (-1 for none), and `Region` fields.
    """

    item_axes: tuple[int, ...]
    axes: tuple[int | None, ...]
    has_ellipsis: bool
    moves_axes: bool


@lru_cache(maxsize=1024)
def _pattern(kinds: tuple[type, ...], rank: int) -> _Pattern:
    """Return the pattern of an index with items of these types into an array of a rank."""
    ellipses = kinds.count(_ELLIPSIS)
    left = rank - len(kinds) + ellipses + kinds.count(_NONE)
    if left < 0:
        raise BoundsError(f"too many indices at {user_line()}: the array has {rank} dimension(s), "
                          f"but {rank - left} were indexed")
    if ellipses > 1:
        raise BoundsError(f"an index can only have a single ellipsis ('...'), at {user_line()}")
    item_axes: list[int] = []
    axes: list[int | None] = []
    axis = 0
    for kind in kinds if ellipses else (*kinds, _ELLIPSIS):
        consumes = kind is not _NONE and kind is not _ELLIPSIS
        item_axes.append(axis if consumes else -1)
        if kind is _ELLIPSIS:
            axes += range(axis, axis + left)
            axis += left
        elif kind is _NONE:
            axes.append(None)
        elif kind is slice:
            axes.append(axis)
        axis += consumes
    return _Pattern(tuple(item_axes), tuple(axes), ellipses > 0, axes != list(range(rank)))


def parse(index: Any, shape: tuple[int, ...]) -> Region:
    """Parse a basic index into an array of `shape`; raises BoundsError and UnsupportedError."""
    items = index if isinstance(index, tuple) else (index,)
    item_axes, axes, has_ellipsis, moves_axes = _pattern(tuple(map(type, items)), len(shape))
    starts, steps, counts = [0] * len(shape), [1] * len(shape), list(shape)
    for item, axis in zip(items, item_axes):
        if axis < 0:
            continue
        extent = shape[axis]
        if type(item) is int:
            starts[axis] = item % extent if -extent <= item < extent else _position(item, axis, shape)
            counts[axis] = 1
        elif type(item) is slice:
            start, stop, step = item.indices(extent)
            count = stop - start if step == 1 else len(range(start, stop, step))
            if count > 0:
                starts[axis], steps[axis], counts[axis] = start, step, count
            else:
                counts[axis] = 0
        else:
            starts[axis] = _position(item, axis, shape)
            counts[axis] = 1
    taken = tuple(counts)
    is_whole = taken == shape and not any(starts) and steps.count(1) == len(steps)
    extents = tuple([1 if a is None else taken[a] for a in axes]) if moves_axes else taken
    return made(Region, (tuple(starts), tuple(steps), taken, axes, has_ellipsis, extents, is_whole, moves_axes))


Key = tuple[Any, ...]
"""A hashable form of an index: its items, with slices as tuples of their bounds."""


def key_of(index: Any) -> Key | None:
    """Return the key of an index; None where items are traced, or other than ints, slices, newaxis and ellipsis.

    The bounds of its slices must be Python ints, not arrays of rank 0.
    """
    kind = type(index)
    if kind is int:
        return (index,)
    key: list[Any] = []
    for item in index if kind is tuple else (index,):
        kind = type(item)
        if kind is slice:
            start, stop, step = item.start, item.stop, item.step
            if not (type(start) in _BOUNDS and type(stop) in _BOUNDS and type(step) in _BOUNDS):
                return None
            key.append((start, stop, step))
        elif kind in _ITEMS:
            key.append(item)
        else:
            return None
    return tuple(key)


def _region(key: Key, index: Any, shape: tuple[int, ...]) -> Region:
    """Return `parse` of an index; the common part of indices that differ in ints alone is computed once."""
    zeros = tuple([0 if type(k) is int else k for k in key])
    if 0 not in zeros or 0 in shape:
        return parse(index, shape)
    axes, first, rest = _at_zero(zeros, shape)
    starts = list(first)
    numbers = iter(axes)
    for number in key:
        if type(number) is int:
            axis = next(numbers)
            extent = shape[axis]
            starts[axis] = number % extent if -extent <= number < extent else _position(number, axis, shape)
    return made(Region, (tuple(starts), *rest))


@lru_cache(maxsize=1024)
def _at_zero(key: Key, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[Any, ...]]:
    """Return the axes of the ints of an index, all of which are 0, its region's starts, and the region's other fields.
    """
    items = tuple([slice(*k) if type(k) is tuple else k for k in key])
    item_axes = _pattern(tuple(map(type, items)), len(shape)).item_axes
    region = parse(items, shape)
    return tuple([axis for item, axis in zip(items, item_axes) if type(item) is int]), region[0], tuple(region[1:])


class IndexedRegion:
    """A parsed index: its region, and the path of its slice (before axes are dropped or added)."""

    __slots__ = ("_view", "part", "region")

    def __init__(self, region: Region, part: ViewStep | None) -> None:
        self.region = region
        self.part = part
        self._view = None if region.moves_axes else part

    def view(self, paths: Paths) -> ViewStep | None:
        """Return the path of the indexed view."""
        region = self.region
        if self._view is None and region.moves_axes:
            self._view = paths.reshaped(self.part, region.counts, region.shape)
        return self._view


def region_at(x: Any, index: Any, key: Key | None) -> IndexedRegion:
    """Return the parsed basic index of a tensor; with a key, it is parsed once in a run."""
    path, shape, paths = x._path, x._meta.shape, x._run.paths
    full = shape if path is None else path, key
    found: IndexedRegion | None = None if key is None else paths.regions.get(full)
    if found is None:
        region = parse(index, shape) if key is None else _region(key, index, shape)
        part = path if region.is_whole else paths.sliced(path, shape, region.starts, region.steps, region.counts)
        found = IndexedRegion(region, part)
        if key is not None:
            paths.regions[full] = found
    return found


def note_slices(found: list[Any], index: Any, shape: tuple[int, ...]) -> None:
    """Record the slices of an index that are clipped at an end of their axis, or count from it, or may do so."""
    items = index if type(index) is tuple else (index,)
    counted = True  # whether the axis of the next item is known
    for axis, item in enumerate(items):
        if type(item) is slice:
            extent = shape[axis] if counted and axis < len(shape) else -1
            bounds = item.start, item.stop
            if not all(b is None or (type(b) is int and 0 <= b <= extent) for b in bounds):
                found.append((*bounds, item.step))
        counted = counted and (type(item) is int or type(item) is slice)


def _position(item: Any, axis: int, shape: tuple[int, ...]) -> int:
    if type(item) is int and -shape[axis] <= item < shape[axis]:
        return item % shape[axis]
    if is_mask(item):
        raise UnsupportedError(f"an index that is a single bool is not available inside a fused function, at "
                               f"{user_line()}. Use slices and np.where.")
    try:
        position = operator.index(item)
    except TypeError as error:
        if isinstance(item, AbstractTensor):
            raise
        raise BoundsError(
            "only integers, slices (`:`), ellipsis (`...`) and np.newaxis are valid indices, not "
            f"{type(item).__name__}, at {user_line()}"
        ) from error
    if not -shape[axis] <= position < shape[axis]:
        raise BoundsError(f"index {position} is out of bounds for axis {axis} with size {shape[axis]}, "
                          f"at {user_line()}")
    return position % shape[axis]


_ELLIPSIS: Final = type(...)
_NONE: Final = type(None)
_PLAIN: Final = frozenset({int, slice, tuple, _NONE, _ELLIPSIS})
_ITEMS: Final = frozenset({int, _NONE, _ELLIPSIS})
_BOUNDS: Final = frozenset({int, _NONE})
_BOOLS: Final = (bool, np.bool_)
_NUMBERS: Final = frozenset({bool, int, float, complex})
_ARRAYS: Final = (AbstractTensor, np.ndarray)


def is_mask(item: Any) -> bool:
    """Return whether an item of an index is a bool or an array of them."""
    if type(item) in _PLAIN:
        return False
    if isinstance(item, _BOOLS) and not isinstance(item, AbstractTensor):
        return True
    return isinstance(item, _ARRAYS) and item.dtype == "bool" and not getattr(item, "weak", False)


def get_item(x: Any, index: Any) -> Any:
    """Return `x[index]`: a view, or a scalar where every axis is dropped."""
    if is_mask(index):
        raise UnsupportedError(
            f"x[mask] has a shape that depends on data, at {user_line()}. Keep the shape: np.where(mask, x, 0), or "
            "reduce with np.sum(np.where(mask, x, 0)); x[mask] = value does work."
        )
    if not x._scalar and not x.weak:
        return x.at(region_at(x, index, None))
    region = parse(index, x.shape)
    view = x.call("slice", **region.attrs)
    if region.moves_axes:
        view = view.call("reshape", shape=region.shape)
    return view if region.shape or region.has_ellipsis else view.as_copy(scalar=True)


def set_item(x: Any, index: Any, value: Any, key: Key | None = None) -> None:
    """Carry out `x[index] = value`; the value is cast to the array's dtype and broadcast. `key`: `key_of(index)`."""
    selected = region_at(x, index, key)
    region, paths = selected.region, x._run.paths
    new: Any = given_to(x, value)
    if type(new) is type(x) and new._storage is x._storage and not new._scalar and new._path is selected.view(paths):
        return  # x[i:j] += v has already written; Python then assigns the view to itself
    if new.shape:
        if not region.shape and (not region.has_ellipsis or isinstance(value, list | tuple)):
            _check_element(x, new)
        new = _aligned(new, region)
    if 0 not in region.counts:
        x.assign_at(new, selected.part, region.counts)


def _check_element(x: Any, value: Any) -> None:
    """Raise or warn as NumPy does where an array with axes, or a list, is assigned to one element; torch allows it."""
    if not x._run.session.torch:
        element = np.zeros(1, numpy_dtype(str(x.dtype)))
        element[0] = np.broadcast_to(np.zeros((), numpy_dtype(str(value.dtype))), value.shape)


def _aligned(value: Any, region: Region) -> Any:
    """Return the value with one axis for each axis of the array, broadcastable to the region."""
    shape = value.shape
    if not shape:
        return value
    target = region.shape
    if shape == target:
        return value if shape == region.counts else value.with_ones(region.counts)
    while len(shape) > len(target) and shape[0] == 1:
        shape = shape[1:]
    fits = len(shape) <= len(target) and all(n in (1, m) for n, m in zip(shape[::-1], target[::-1]))
    if not fits:
        raise ShapeError(f"could not broadcast input array from shape {value.shape} into shape {target}, "
                         f"at {user_line()}")
    if not shape:
        return value if not value.shape else value.call("reshape", shape=())
    padded = (1,) * (len(target) - len(shape)) + shape
    extent = {a: padded[k] for k, a in enumerate(region.axes) if a is not None}
    aligned = tuple(extent.get(a, 1) for a in range(len(region.counts)))
    return value if aligned == value.shape else value.with_ones(aligned)


def given_to(like: Any, value: Any) -> Any:
    """Return a value that is written into an array as a tensor; Python sequences are converted to its dtype."""
    if isinstance(value, AbstractTensor):
        return value
    run = getattr(like, "_run", None)  # eager arrays have none
    if run is not None and type(value) in _NUMBERS:
        return like._lift(value)  # the same tensor each time
    torch = run is not None and run.session.torch
    if isinstance(value, list | tuple) and not torch and traced_among(*value) is None:
        value = np.array(value, numpy_dtype(str(like.dtype)))  # raises for ints that the dtype cannot hold
    elif isinstance(value, list | tuple) and not torch:
        _check_items(like, value)
    return like.as_tensor(value)


def _check_items(like: Any, values: Any) -> None:
    """Reject Python numbers, in a sequence with traced values, that an array's dtype cannot hold."""
    for value in values:
        if isinstance(value, list | tuple):
            _check_items(like, value)
        elif isinstance(value, AbstractTensor) or type(value) is int:
            like._check_assigned(value if isinstance(value, AbstractTensor) else like._lift(value))


def cast(value: Any, like: Any) -> Any:
    """Return a value in the dtype of the array that it is assigned to, also a weak literal."""
    value = like._check_assigned(value)
    if value.weak or value.dtype != like.dtype:
        return value.call("astype", dtype=like.dtype)
    return value
