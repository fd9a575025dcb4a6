"""NumPy's functions of shape, of joining, and of creation like another array, over traced arrays.

Owns their entries in the table of `jitfuse.tracing.tensor.function_table`; each has NumPy's name and parameters.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitfuse.dtypes import WEAK_DTYPE, numpy_dtype
from jitfuse.errors import ShapeError
from jitfuse.ir.operators import ops
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numbers import weak
from jitfuse.tracing.record.dtype_name import dtype_name
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import (
    Tensor,
    deliver,
    extents,
    implements,
    lifted,
    require_cast,
    strong,
    traced_among,
)


# ---------------------------------------------------------------- shapes
@implements("reshape")
def reshape(a: Tensor, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None) -> Tensor:
    """Return the elements in row-major order under another shape."""
    return a.reshape(extents(newshape if shape is None else shape), order=order, copy=copy)


@implements("ravel")
def ravel(a: Tensor, order: str = "C") -> Tensor:
    """Return all elements as one axis."""
    return a.ravel(order)


@implements("transpose", "permute_dims")
def transpose(a: Tensor, axes: Any = None) -> Tensor:
    """Permute the axes; without `axes`, reverse them."""
    return a.T if axes is None else a.transpose(tuple(axes))


@implements("matrix_transpose")
def matrix_transpose(x: Tensor, /) -> Tensor:
    """Exchange the last two axes."""
    return x.swapaxes(-1, -2)


@implements("swapaxes")
def swapaxes(a: Tensor, axis1: int, axis2: int) -> Tensor:
    """Exchange two axes."""
    return a.swapaxes(axis1, axis2)


@implements("moveaxis")
def moveaxis(a: Tensor, source: Any, destination: Any) -> Tensor:
    """Move axes to new positions; the others keep their order."""
    sources = [shape_rules.normalize_axis("moveaxis", k, a.ndim) for k in extents(source)]
    targets = [shape_rules.normalize_axis("moveaxis", k, a.ndim) for k in extents(destination)]
    if len(sources) != len(targets):
        raise ShapeError(f"moveaxis: {len(sources)} source axes but {len(targets)} destinations, at {user_line()}")
    order = [k for k in range(a.ndim) if k not in sources]
    for target, source_axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, source_axis)
    return a.call("transpose", axes=tuple(order))


@implements("expand_dims")
def expand_dims(a: Tensor, axis: Any) -> Tensor:
    """Insert axes of extent 1."""
    given = extents(axis)
    rank = a.ndim + len(given)
    new = shape_rules.normalize_axes("expand_dims", given, rank)
    old = iter(a.shape)
    return a.reshape(tuple(1 if k in new else next(old) for k in range(rank)))


@implements("squeeze")
def squeeze(a: Tensor, axis: Any = None) -> Tensor:
    """Drop axes of extent 1."""
    return a.squeeze(axis)


@implements("broadcast_to")
def broadcast_to(array: Tensor, shape: Any, subok: bool = False) -> Tensor:
    """Repeat along axes of extent 1 and new leading axes; a read-only view."""
    shape_rules.reject_bools(shape)
    return strong(array).call("broadcast_to", shape=extents(shape))


@implements("broadcast_arrays")
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Tensor, ...]:
    """Broadcast arrays against each other."""
    tensors = lifted(*args)
    shape = shape_rules.broadcast("broadcast_arrays", [t.shape for t in tensors])
    return tuple(broadcast_to(t, shape) for t in tensors)


@implements("flip")
def flip(m: Tensor, axis: Any = None) -> Tensor:
    """Reverse the order of elements along axes; a view."""
    axes = shape_rules.normalize_axes("flip", axis, m.ndim)
    return m[tuple(slice(None, None, -1) if k in axes else slice(None) for k in range(m.ndim))]


@implements("atleast_1d")
def atleast_1d(*arys: Any) -> Any:
    """View inputs as arrays with at least one axis."""
    made = tuple(t if t.ndim else strong(t).reshape((1,)) for t in lifted(*arys))
    return made[0] if len(made) == 1 else made


@implements("atleast_2d")
def atleast_2d(*arys: Any) -> Any:
    """View inputs as arrays with at least two axes."""
    made = tuple(
        t if t.ndim >= 2 else strong(t).reshape((1, -1) if t.size else (1, *t.shape)) for t in lifted(*arys)
    )
    return made[0] if len(made) == 1 else made


# ---------------------------------------------------------------- joins
@implements("concatenate", "concat")
def concatenate(arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None,
                casting: str = "same_kind") -> Tensor:
    """Join along an axis; None joins the flattened arrays."""
    parts = [strong(t) for t in (lifted(*arrays) if traced_among(*arrays) is not None else lifted(*arrays, out)[:-1])]
    if axis is None:
        parts, axis = [p.ravel() for p in parts], 0
    if not all(p.ndim for p in parts):
        raise ShapeError(f"zero-dimensional arrays cannot be concatenated, at {user_line()}. Use np.stack.")
    if dtype is not None:
        parts = cast_all("concatenate", parts, dtype, casting)
    elif _is_among(out, parts):
        return _joined_into(out, parts, axis)
    result = parts[0].copy("K") if len(parts) == 1 else parts[0].call("concat", *parts[1:], axis=axis)
    return deliver("concatenate", result, out)


def _is_among(out: Any, parts: list[Tensor]) -> bool:
    """Return whether the output shares memory with a part."""
    storage = getattr(out, "_storage", None)
    return storage is not None and any(getattr(p, "_storage", None) is storage for p in parts)


def _joined_into(out: Tensor, parts: list[Tensor], axis: int) -> Tensor:
    """Write the parts in order, as NumPy does: an earlier write may change a later part."""
    joined = ops.get("concat")
    assert joined is not None
    meta = joined.infer([p._meta for p in parts], {"axis": axis})
    if meta.shape != out.shape:
        raise ShapeError(f"np.concatenate: the result of shape {meta.shape} does not fit the output of shape "
                         f"{out.shape}, at {user_line()}")
    for p in parts:
        require_cast("concatenate", str(p.dtype), str(out.dtype), "same_kind")
    along, begin = shape_rules.normalize_axis("concatenate", axis, out.ndim), 0
    for p in parts:
        end = begin + p.shape[along]
        out[(*(slice(None),) * along, slice(begin, end))] = p
        begin = end
    return out


def cast_all(name: str, parts: list[Tensor], dtype: Any, casting: str) -> list[Tensor]:
    """Return parts in a dtype; the casting rule must allow it."""
    for p in parts:
        require_cast(name, str(p.dtype), dtype_name(dtype), casting)
    return [p.astype(dtype, copy=False) for p in parts]


@implements("stack")
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    """Join along a new axis."""
    parts = lifted(*arrays)
    if len({p.shape for p in parts}) > 1:
        raise ShapeError(f"all input arrays of np.stack must have the same shape, not "
                         f"{', '.join(str(p.shape) for p in parts)}, at {user_line()}")
    parts = [strong(p) for p in parts]
    if dtype is not None:
        parts = cast_all("stack", parts, dtype, casting)
    along = shape_rules.normalize_axis("stack", axis, parts[0].ndim + 1)
    if dtype is None and _is_among(out, parts):
        return _joined_into(out, [p.expand_dims(along) for p in parts], along)
    return deliver("stack", parts[0].call("stack", *parts[1:], axis=along), out)


@implements("vstack")
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    """Join as rows."""
    return concatenate([atleast_2d(t) for t in lifted(*tup)], 0, dtype=dtype, casting=casting)


@implements("hstack")
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    """Join along the second axis, or the only one."""
    parts = [atleast_1d(t) for t in lifted(*tup)]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@implements("column_stack")
def column_stack(tup: Any) -> Tensor:
    """Join arrays of one axis as columns."""
    return concatenate([t if t.ndim >= 2 else strong(t).reshape((-1, 1)) for t in lifted(*tup)], 1)


@implements("split")
def split(ary: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Split into equal parts, or at given indices; the parts are views."""
    axis = shape_rules.normalize_axis("split", axis, ary.ndim)
    extent = ary.shape[axis]
    if isinstance(indices_or_sections, Sequence | np.ndarray) and not isinstance(indices_or_sections, str):
        cuts = [0, *map(shape_rules.whole, indices_or_sections), extent]
    else:
        parts = int(indices_or_sections)
        if parts < 0 or extent % parts:
            raise ShapeError(f"np.split: {extent} elements do not divide into {parts} equal parts, at {user_line()}")
        cuts = list(range(0, extent + 1, extent // parts)) if extent else [0] * (parts + 1)
    lead = (slice(None),) * axis
    return [ary[(*lead, slice(a, b))] for a, b in itertools.pairwise(cuts)]


# ---------------------------------------------------------------- creation like another array
def _filled(a: Tensor, value: Any, dtype: Any, shape: Any) -> Tensor:
    name = dtype_name(a.dtype if dtype is None else dtype, "dtype")
    new = tuple(a.shape) if shape is None else extents(shape)
    if isinstance(value, AbstractTensor):
        weak.check_filling(value, name)
        cast = value.astype(name, copy=False)  # type: ignore[attr-defined]
        return cast.call("broadcast_to", shape=new).as_copy()
    if type(value) in WEAK_DTYPE:  # NumPy raises where the dtype does not hold it
        number = np.full((), value, numpy_dtype(name)).item()
    else:
        number = np.asarray(value).astype(numpy_dtype(name)).item()
    if number == 0 and not any(math.copysign(1.0, part) < 0 for part in (number.real, number.imag)):
        return a.create("zeros", shape=new, dtype=name)
    return a.create("full", shape=new, value=number, dtype=name)


@implements("zeros_like", "empty_like")
def zeros_like(a: Tensor, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
               device: Any = None) -> Tensor:
    """Return zeros of an array's shape and dtype."""
    return _filled(a, 0, dtype, shape).ordered("zeros_like", order, a)


@implements("ones_like")
def ones_like(a: Tensor, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
              device: Any = None) -> Tensor:
    """Return ones of an array's shape and dtype."""
    return _filled(a, 1, dtype, shape).ordered("ones_like", order, a)


@implements("full_like")
def full_like(a: Tensor, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
              shape: Any = None, *, device: Any = None) -> Tensor:
    """Return an array filled with one value, of another's shape and dtype."""
    like, value = lifted(a, fill_value)
    if value.ndim:
        fill_value = value
    return _filled(like, fill_value, dtype, shape).ordered("full_like", order, like)


# ---------------------------------------------------------------- facts about arrays
@implements("shape")
def shape(a: Tensor) -> tuple[int, ...]:
    """Return the extents."""
    return tuple(a.shape)


@implements("ndim")
def ndim(a: Tensor) -> int:
    """Return the number of axes."""
    return int(a.ndim)


@implements("size")
def size(a: Tensor, axis: int | None = None) -> int:
    """Return the number of elements, or the extent of one axis."""
    return int(a.size if axis is None else a.shape[axis])


@implements("result_type")
def result_type(*args: Any) -> Any:
    """Return the dtype that operands promote to."""
    zero = {"bool": False, "int64": 0, "uint64": 0, "float64": 0.0, "complex128": 0j}
    traced = [a if isinstance(a, AbstractTensor) else None for a in args]
    plain = [a if t is None else zero[str(t.dtype)] if t.weak else numpy_dtype(str(t.dtype))
             for a, t in zip(args, traced, strict=True)]
    return np.result_type(*plain)
