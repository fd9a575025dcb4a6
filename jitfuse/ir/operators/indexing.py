"""Indexing by integer arrays: gathers, through which kernels read, and scatters, which the host runs in order."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitfuse.dtypes import can_cast, is_integer
from jitfuse.errors import ArgumentError, BoundsError, DTypeError, ShapeError
from jitfuse.ir.operators.op import LIBRARY, REQUIRED, VARIADIC, VIEW, Op, add
from jitfuse.ir.rules import shape_rules
from jitfuse.ir.rules.ufunc_dtypes import loop_of
from jitfuse.ir.schema import Meta
from jitfuse.ir.semantics import gathers

MODES: Final = ("raise", "wrap", "clip")


def _require_indices(name: str, indices: Sequence[Meta]) -> None:
    for m in indices:
        if not is_integer(m.dtype):
            raise DTypeError(f"{name}: indices are integers, not {m.dtype}")


def _gathered(name: str, m: Meta, indices: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    """Return the meta of the elements that a gather reads or a scatter writes."""
    axes, place = attrs["axes"], attrs["place"]
    _require_indices(name, indices)
    if len(axes) != len(indices) or list(axes) != sorted(set(axes)) or any(not 0 <= a < m.ndim for a in axes):
        raise ShapeError(f"{name}: axes {axes} do not name one axis of {m.shape} for each of {len(indices)} indices")
    common = shape_rules.broadcast(name, [i.shape for i in indices])
    if 0 not in common:
        for axis in axes:
            if not m.shape[axis]:
                raise BoundsError(f"{name}: every index is out of bounds for axis {axis} with size 0")
    rest = tuple(n for a, n in enumerate(m.shape) if a not in axes)
    if place > len(rest):
        raise ShapeError(f"{name}: place {place} lies beyond the {len(rest)} axes that are left")
    return Meta((*rest[:place], *common, *rest[place:]), m.dtype, m.device)


def _infer_gather(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    if not metas:
        raise ArgumentError("gather needs an array and indices")
    return _gathered("gather", metas[0], metas[1:], attrs)


def _check_combined(name: str, m: Meta, value: Meta) -> None:
    """Raise DTypeError if a ufunc does not combine the array with a value, or its result does not fit the array."""
    ufunc = gathers.COMBINE[name]
    if ufunc is not None:
        made = loop_of(ufunc)(name, [Meta((), m.dtype), Meta((), value.dtype)]).result
        if not can_cast(made, m.dtype, "same_kind"):
            raise DTypeError(f"scatter: {name} makes {made}, which is not cast to {m.dtype}")


def _infer_scatter(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    if len(metas) < 2:
        raise ArgumentError("scatter needs an array, values and indices")
    m, value, *indices = metas
    if attrs["combine"] not in gathers.COMBINE:
        raise ArgumentError(f"scatter: combine is one of {', '.join(gathers.COMBINE)}, not {attrs['combine']!r}")
    _check_combined(attrs["combine"], m, value)
    region = _gathered("scatter", m, indices, attrs).shape
    if shape_rules.broadcast("scatter", [value.shape, region]) != region:
        raise ShapeError(f"could not broadcast an array of shape {value.shape} into the indexed shape {region}")
    return Meta(m.shape, m.dtype, m.device)


def _infer_take(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    m, index = metas
    if attrs["mode"] not in MODES:
        raise ArgumentError(f"take: mode is one of {', '.join(MODES)}, not {attrs['mode']!r}")
    axis = shape_rules.normalize_axis("take", attrs["axis"], m.ndim)
    return _gathered("take", m, [index], {"axes": (axis,), "place": axis})


def _infer_along(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    m, index = metas
    _require_indices("take_along_axis", [index])
    axis = shape_rules.normalize_axis("take_along_axis", attrs["axis"], m.ndim)
    if index.ndim != m.ndim:
        raise ShapeError(f"take_along_axis: indices of shape {index.shape} need as many axes as {m.shape}")
    shapes = [tuple(1 if k == axis else n for k, n in enumerate(i.shape)) for i in (m, index)]
    shape = list(shape_rules.broadcast("take_along_axis", shapes))
    shape[axis] = index.shape[axis]
    if not m.shape[axis] and 0 not in shape:
        raise BoundsError(f"take_along_axis: every index is out of bounds for axis {axis} with size 0")
    return Meta(tuple(shape), m.dtype, m.device)


_GATHER_ATTRS: Final = {"axes": REQUIRED, "place": 0}
add(Op("gather", VARIADIC, VIEW, _GATHER_ATTRS, _infer_gather, gathers.gather,
       doc="(x, index, ...): elements at broadcast indices of some axes, whose axes stand at `place` of the result.",
       cost=6))
add(Op("take_along_axis", 2, VIEW, {"axis": REQUIRED}, _infer_along, lambda x, index, *, axis:
       np.take_along_axis(x, index, axis), doc="Elements along an axis at an index for each of the other positions.",
       cost=6))
add(Op("take", 2, VIEW, {"axis": REQUIRED, "mode": "raise"}, _infer_take, lambda x, index, *, axis, mode:
       np.take(x, index, axis, mode=mode), decompose=gathers.take, doc="Elements along an axis at indices."))
add(Op("scatter", VARIADIC, LIBRARY, {**_GATHER_ATTRS, "combine": "set"}, _infer_scatter, gathers.scatter,
       into=gathers.scatter_into,
       doc="(x, value, index, ...): x with a value set at indices, or combined with what is there, in order."))
