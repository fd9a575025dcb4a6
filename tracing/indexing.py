"""Basic indexing and item assignment of traced tensors, as `slice` and `reshape` steps.

Owns the reading of index expressions: ints, slices, newaxis, ellipsis, and boolean masks on the left-hand
side of an assignment. Index arrays belong to `jitfuse.tracing.gathering`, views and writes themselves to
`jitfuse.tracing.traced` and `jitfuse.tracing.recorder`.
"""
from __future__ import annotations

import operator
from typing import Any, Final

import numpy as np

from jitfuse.errors import BoundsError, ShapeError, UnsupportedError
from jitfuse.ir.program import Attrs, make_attrs
from jitfuse.records import NamedTuple, made
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.memory import Path
from jitfuse.tracing.source import user_line


class Region(NamedTuple):
    """A basic index: one (start, step, count) for each axis, and how each axis of the result comes about.

    `axes` holds for each axis of the result the axis that it slices, or None for a new axis; axes that an
    int dropped are absent. `shape` is that of the result; `is_whole` says that all elements are in it, in order.
    """

    starts: tuple[int, ...]
    steps: tuple[int, ...]
    counts: tuple[int, ...]
    axes: tuple[int | None, ...]
    has_ellipsis: bool
    shape: tuple[int, ...]
    is_whole: bool

    @property
    def moves_axes(self) -> bool:
        """Whether the result has other axes than the array: some are dropped, or new."""
        return self.axes != tuple(range(len(self.counts)))

    @property
    def frozen(self) -> Attrs:
        """The attributes of the slice step, in canonical order."""
        return ("counts", self.counts), ("starts", self.starts), ("steps", self.steps)

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes of the slice step."""
        return {"starts": self.starts, "steps": self.steps, "counts": self.counts}


def parse(index: Any, shape: tuple[int, ...]) -> Region:
    """Read a basic index of an array of `shape`; raises BoundsError and UnsupportedError."""
    items = index if isinstance(index, tuple) else (index,)
    rank = len(shape)
    kinds = list(map(type, items))
    if kinds.count(int) == rank == len(items):
        ones = (1,) * rank
        starts = tuple([_position(i, axis, shape) for axis, i in enumerate(items)])
        return made(Region, (starts, ones, ones, (), False, (), shape == ones))
    ellipses = kinds.count(_ELLIPSIS)
    consuming = len(items) - ellipses - kinds.count(_NONE)
    if consuming > rank:
        raise BoundsError(f"too many indices at {user_line()}: the array has {rank} dimension(s), "
                          f"but {consuming} were indexed")
    if ellipses > 1:
        raise BoundsError(f"an index can only have a single ellipsis ('...'), at {user_line()}")
    if not ellipses and consuming < rank:
        items = (*items, Ellipsis)
    return _region(items, rank - consuming, shape, bool(ellipses))


def _region(items: tuple[Any, ...], left: int, shape: tuple[int, ...], has_ellipsis: bool) -> Region:
    """Return the region of an index whose ellipsis stands for so many axes."""
    spans: list[tuple[int, int, int]] = []
    axes: list[int | None] = []
    extents: list[int] = []
    for item in items:
        axis = len(spans)
        if item is None:
            axes.append(None)
            extents.append(1)
        elif item is Ellipsis:
            for a in range(axis, axis + left):
                spans.append((0, 1, shape[a]))
                axes.append(a)
                extents.append(shape[a])
        elif isinstance(item, slice):
            span = _span(item, shape[axis])
            spans.append(span)
            axes.append(axis)
            extents.append(span[2])
        else:
            spans.append((_position(item, axis, shape), 1, 1))
    starts, steps, counts = zip(*spans) if spans else ((), (), ())
    is_whole = counts == shape and not any(starts) and steps.count(1) == len(steps)
    return made(Region, (starts, steps, counts, tuple(axes), has_ellipsis, tuple(extents), is_whole))


def _span(span: slice, extent: int) -> tuple[int, int, int]:
    start, stop, step = span.indices(extent)
    count = stop - start if step == 1 else len(range(start, stop, step))
    return (start, step, count) if count > 0 else (0, 1, 0)


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
_BOOLS: Final = (bool, np.bool_)
_ARRAYS: Final = (AbstractTensor, np.ndarray)


def is_mask(item: Any) -> bool:
    """Return whether an item of an index is a bool or an array of them."""
    if type(item) in _PLAIN:
        return False
    if isinstance(item, _BOOLS) and not isinstance(item, AbstractTensor):
        return True
    return isinstance(item, _ARRAYS) and item.dtype == "bool" and not getattr(item, "weak", False)


def extend_path(path: Path, name: str, attrs: dict[str, Any], before: tuple[int, ...]) -> Path:
    """Return a view's path with one more step, merged into the last where both are of one kind."""
    if path and path[-1][0] == name and name != "diagonal":
        _, last, shape, _ = path[-1]
        old: dict[str, Any] = dict(last)
        if name == "slice":
            merged: dict[str, Any] = {
                "starts": tuple(a + b * s for a, b, s in zip(old["starts"], attrs["starts"], old["steps"])),
                "steps": tuple(s * t for s, t in zip(old["steps"], attrs["steps"])),
                "counts": attrs["counts"],
            }
        elif name == "transpose":
            merged = {"axes": tuple(old["axes"][a] for a in attrs["axes"])}
        else:
            merged = attrs
        return (*path[:-1], (name, make_attrs(merged), shape, ()))
    return (*path, (name, make_attrs(attrs), before, ()))


def get_item(x: Any, index: Any) -> Any:
    """Return `x[index]`: a view, or a scalar where every axis is dropped."""
    if is_mask(index):
        raise UnsupportedError(
            f"x[mask] has a shape that depends on data, at {user_line()}. Keep the shape: np.where(mask, x, 0), or "
            "reduce with np.sum(np.where(mask, x, 0)); x[mask] = value does work."
        )
    region = parse(index, x.shape)
    if not x._scalar and not x.weak:
        return x.region(region)
    view = x.call("slice", **region.attrs)
    if region.moves_axes:
        view = view.call("reshape", shape=region.shape)
    return view if region.shape or region.has_ellipsis else view.as_copy(scalar=True)


def set_item(x: Any, index: Any, value: Any) -> None:
    """Carry out `x[index] = value`; the value is cast to the array's dtype and broadcast."""
    if is_mask(index):
        _set_masked(x, index, value)
        return
    region = parse(index, x.shape)
    new = value if isinstance(value, AbstractTensor) else x._lift(value)
    if _is_own_view(x, region, new):
        return  # x[i:j] += v has written already; Python then assigns the view to itself
    new = _aligned(new, region)
    if 0 not in region.counts:
        x._assign(new, slice_path(x, region), region.counts)


def slice_path(x: Any, region: Region) -> Path:
    """Return the path of the region of a tensor, with all of the tensor's axes."""
    path: Path = x._path
    if region.is_whole:
        return path
    if path:
        return extend_path(path, "slice", region.attrs, x.shape)
    return (("slice", region.frozen, x.shape, ()),)


def view_path(x: Any, region: Region) -> Path:
    """Return the path of the view of a region."""
    path = slice_path(x, region)
    if not region.moves_axes:
        return path
    if path and path[-1][0] == "reshape":
        return extend_path(path, "reshape", {"shape": region.shape}, region.counts)
    return (*path, ("reshape", (("shape", region.shape),), region.counts, ()))


def _is_own_view(x: Any, region: Region, value: Any) -> bool:
    if getattr(value, "_storage", None) is not x._storage or value.ndim != len(region.shape) or value._scalar:
        return False
    return bool(view_path(x, region) == value._path)


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


def _set_masked(x: Any, mask: Any, value: Any) -> None:
    where = mask if isinstance(mask, AbstractTensor) else x._lift(np.asarray(mask))
    lead, rest = x.shape[: where.ndim], x.shape[where.ndim :]
    if where.shape != lead:
        raise BoundsError(f"boolean index of shape {where.shape} does not match the array's {x.shape}, "
                          f"at {user_line()}")
    new = value if isinstance(value, AbstractTensor) else x._lift(value)
    fits = len(new.shape) <= len(rest) and all(n in (1, m) for n, m in zip(new.shape[::-1], rest[::-1]))
    if new.ndim > len(rest) + 1:
        raise ShapeError(
            f"x[mask] = value with a value of shape {new.shape}, which has parts for places where the mask holds in "
            f"{len(rest) + 1} axes at most, at {user_line()}. Or write x[...] = np.where(mask, value, x)."
        )
    if not fits:  # one value for each element or row for which the mask holds
        from jitfuse.tracing import gathering  # a cycle: it reads basic indices here

        gathering.set_item(x, where, new)
        return
    if where.ndim != x.ndim:
        where = where.call("reshape", shape=lead + (1,) * len(rest))
    x._assign(where.call("where", cast(new, x), x))


def cast(value: Any, like: Any) -> Any:
    """Return a value in the dtype of the array that it is assigned to; weak literals are made in it."""
    value = like._check_assigned(value)
    if value.weak or value.dtype != like.dtype:
        return value.call("astype", dtype=like.dtype)
    return value
