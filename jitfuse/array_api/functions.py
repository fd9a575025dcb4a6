"""Functions of the standard whose parameters differ from those of NumPy's function of the same name.

Each is written over AbstractTensors, for traced and eager arrays alike; those with data-dependent shapes are
graph breaks in a trace.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitfuse.array_api.dispatch import over_tensors, tensor
from jitfuse.dtypes import kind
from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numpy_like.data_dependent import (
    UniqueAll,
    UniqueCounts,
    UniqueInverse,
    standard_unique,
)
from jitfuse.tracing.record.device_array import HostArray
from jitfuse.tracing.tensor import function_table
from jitfuse.tracing.tensor.data_extents import indices_by_axis
from jitfuse.tracing.tensor.function_table import lifted, strong

Tensor = Any
_np: Any = np  # its type hints omit traced and eager arrays


# ---------------------------------------------------------------- elements
@over_tensors
def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Limit the values to [min, max] in the dtype of x; either may be None."""
    return _np.clip(x, min, max)


@over_tensors
def conj(x: Tensor, /) -> Tensor:
    """Return the complex conjugate, or a real array itself."""
    return strong(x).conj()


@over_tensors
def round(x: Tensor, /, decimals: int = 0) -> Tensor:
    """Round to a number of decimals, halves to even."""
    return strong(x).round(decimals)


# ---------------------------------------------------------------- special values that differ from NumPy's
@over_tensors
def floor_divide(x1: Any, x2: Any, /) -> Tensor:
    """Return the quotient rounded down; if a float is infinite, the quotient itself (NumPy has NaN or -1 there)."""
    a, b = (strong(t) for t in lifted(x1, x2)) if _all_weak(x1, x2) else lifted(x1, x2)
    result = a.call("floor_divide", b)
    if kind(str(result.dtype)) != "float":
        return result
    infinite = a.call("isinf").call("logical_or", b.call("isinf"))
    return infinite.call("where", a.call("divide", b), result)


def _all_weak(*values: Any) -> bool:
    return all(v.weak for v in values if isinstance(v, AbstractTensor))


@over_tensors
def expm1(x: Tensor, /) -> Tensor:
    """Return exp(x) - 1; for complex infinities the standard's values, where NumPy has NaN."""
    x = strong(x)
    result = x.call("expm1")
    if kind(str(x.dtype)) != "complex":
        return result
    real, imag = x.call("real"), x.call("imag")
    turning = imag.call("isfinite").call("logical_not")
    up, down = (real.call("equal", end).call("logical_and", turning) for end in (math.inf, -math.inf))
    whole = down.call("where", -1.0, up.call("where", math.inf, result.call("real")))
    whole = real.call("equal", 0).call("logical_and", imag.call("equal", 0)).call("where", 0.0, whole)
    part = down.call("where", 0.0, imag.call("equal", 0).call("where", imag, result.call("imag")))
    return whole.call("make_complex", part)


@over_tensors
def tanh(x: Tensor, /) -> Tensor:
    """Return the hyperbolic tangent; for infinite real parts the imaginary part is a zero with the sign of x's."""
    x = strong(x)
    result = x.call("tanh")
    if kind(str(x.dtype)) != "complex":
        return result
    imag = x.call("imag")
    at_end = x.call("real").call("isinf").call("logical_and", imag.call("isfinite"))
    zero = imag.call("multiply", 0)
    return result.call("real").call("make_complex", at_end.call("where", zero, result.call("imag")))


# ---------------------------------------------------------------- order
@over_tensors
def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the elements in ascending or descending order along an axis."""
    result = _np.sort(x, axis, stable=bool(stable))
    return _np.flip(result, axis) if descending else result


@over_tensors
def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the indices that would sort along an axis; with `stable` equal elements keep their order."""
    if not descending:
        return _np.argsort(x, axis, stable=bool(stable))
    turned = _np.argsort(_np.flip(x, axis), axis, stable=bool(stable))
    return x.shape[shape_rules.normalize_axis("argsort", axis, x.ndim)] - 1 - _np.flip(turned, axis)


@over_tensors
def searchsorted(x1: Tensor, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Tensor:
    """Return the indices at which to insert the values x2 into x1, which is sorted or put in order by `sorter`."""
    return _np.searchsorted(x1 if sorter is None else _np.take(x1, sorter), x2, side)


# ---------------------------------------------------------------- positions
@over_tensors
def take(x: Tensor, indices: Any, /, *, axis: int | None = None, mode: str = "raise") -> Tensor:
    """Return elements along an axis at indices; an array of one axis needs no `axis`."""
    if axis is None and x.ndim > 1:
        raise ArgumentError(f"take: x has {x.ndim} axes; pass axis=")
    return _np.take(x, indices, axis, mode=mode)


@over_tensors
def take_along_axis(x: Tensor, indices: Any, /, *, axis: int = -1) -> Tensor:
    """Return elements along an axis; each position along the other axes has its own indices."""
    return _np.take_along_axis(x, indices, axis)


@over_tensors
def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Repeat each element along an axis: all equally often, or each by its own count."""
    if not isinstance(repeats, AbstractTensor) or not repeats.ndim or repeats.shape == (1,):
        count = repeats.item() if isinstance(repeats, HostArray) else repeats  # type: ignore[attr-defined]
        return _np.repeat(x, count, axis)
    return _np.repeat(x, repeats.array if isinstance(repeats, HostArray) else repeats, axis)


# ---------------------------------------------------------------- shapes
@over_tensors
def reshape(x: Tensor, /, shape: Any, *, copy: bool | None = None) -> Tensor:
    """Return the elements in row-major order under another shape; one extent may be -1."""
    return x.reshape(shape, copy=copy) if isinstance(x, HostArray) else (  # type: ignore[attr-defined]
        strong(x).reshape(function_table.extents(shape), copy=copy)
    )


@over_tensors
def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the parts of x along an axis; views."""
    lead = (slice(None),) * shape_rules.normalize_axis("unstack", axis, x.ndim)
    return tuple(x[(*lead, k)] for k in range(x.shape[len(lead)]))


@over_tensors
def tile(x: Tensor, repetitions: Any, /) -> Tensor:
    """Repeat the whole array along each axis."""
    return _np.tile(x, repetitions)


@over_tensors
def diff(x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Tensor:
    """Return the n-th differences of neighbours along an axis."""
    edges = {"prepend": prepend, "append": append}
    return _np.diff(x, n, axis, **{k: v for k, v in edges.items() if v is not None})


@over_tensors
def where(condition: Any, x1: Any, x2: Any, /) -> Tensor:
    """Return elements of x1 where the condition holds, and of x2 elsewhere."""
    return _np.where(condition, x1, x2)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that shapes broadcast to; raises ShapeError where they do not."""
    return shape_rules.broadcast("broadcast_shapes", shapes)


@over_tensors
def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """Return where the elements of x1 are among those of x2."""
    x, among = (strong(t) for t in lifted(*((x1, x2) if isinstance(x1, AbstractTensor) else (x1, tensor(x2)))))
    if not among.size:
        found = x.call("not_equal", x).call("logical_and", x.call("equal", x))
    else:
        found = x.reshape((*x.shape, 1)).call("equal", among.reshape((-1,))).call("any", axis=-1)
    return found.call("logical_not") if invert else found


# ---------------------------------------------------------------- data-dependent shapes
@over_tensors
def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Return the indices of the elements that are not zero, one array for each axis."""
    if not x.ndim:
        raise ArgumentError("nonzero of an array of rank 0; use x.reshape(1)")
    return indices_by_axis("jf.nonzero", x, "Keep the shape: jf.where(condition, a, b).")


@over_tensors
def unique_all(x: Tensor, /) -> UniqueAll:
    """Return the distinct elements, their first indices, the inverse indices and the counts."""
    return UniqueAll(*standard_unique("jf.unique_all", x, "index", "inverse", "counts"))


@over_tensors
def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Return the distinct elements and their counts."""
    return UniqueCounts(*standard_unique("jf.unique_counts", x, "counts"))


@over_tensors
def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Return the distinct elements and the inverse indices."""
    return UniqueInverse(*standard_unique("jf.unique_inverse", x, "inverse"))


@over_tensors
def unique_values(x: Tensor, /) -> Tensor:
    """Return the distinct elements."""
    return standard_unique("jf.unique_values", x)[0]


# ---------------------------------------------------------------- products
@over_tensors
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """Return the sum of products along an axis, the first operand conjugated."""
    from jitfuse.tracing.numpy_like import products

    x, y = (strong(t) for t in lifted(x1, x2))
    extents = [t.shape[shape_rules.normalize_axis("vecdot", axis, t.ndim)] for t in (x, y)]
    if extents[0] != extents[1]:
        raise ShapeError(f"vecdot: axis {axis} has {extents[0]} and {extents[1]} elements")
    return products.vecdot(x, y, axis=axis)


@over_tensors
def matmul(x1: Any, x2: Any, /) -> Tensor:
    """Return the matrix product over the last two axes, of all dtypes but bool; one axis is a vector."""
    x, y = (strong(t) for t in lifted(x1, x2))
    if str(x.dtype) == "bool" or str(y.dtype) == "bool":
        raise DTypeError("matmul takes numbers, not bool; cast first with astype")
    return x.call("matmul", y)
