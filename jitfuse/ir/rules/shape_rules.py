"""Shape rules: axes, broadcasting, and the shapes of the results of reductions, views and products.

They take shapes and attributes, and raise typed errors that say what fits.
"""
from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitfuse.errors import ArgumentError, AxisError, ShapeError
from jitfuse.ir.schema import Meta


def broadcast(name: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the common shape by NumPy's rules; raise ShapeError naming all the shapes."""
    rank = max(map(len, shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for k, extent in enumerate(shape, rank - len(shape)):
            if extent != 1:
                if result[k] not in (1, extent):
                    raise ShapeError(
                        f"{name}: shapes {', '.join(map(str, shapes))} do not broadcast together: "
                        f"axis {k - rank} is both {result[k]} and {extent}. "
                        "Reshape one of them, or insert an axis with x[:, None]."
                    )
                result[k] = extent
    return tuple(result)


def whole(value: Any) -> int:
    """Return a value that Python accepts as an index as an int; raise ArgumentError for NumPy bools and floats."""
    try:
        return operator.index(value)
    except TypeError as error:
        raise ArgumentError(f"an integer is required: {error}") from None


def normalize_axis(name: str, axis: Any, ndim: int) -> int:
    """Return a non-negative axis; raise AxisError if it is out of range, and ArgumentError if it is no integer."""
    index = whole(axis)
    if not -ndim <= index < ndim:
        raise AxisError(f"{name}: axis {index} is out of bounds for an array of {ndim} dimension(s)")
    return index % ndim


def reject_bools(axis: Any) -> None:
    """Raise ArgumentError for an axis or extent that is a bool, or a sequence with one, as NumPy does."""
    if type(axis) is int or axis is None:
        return
    for a in axis if isinstance(axis, tuple | list) else (axis,):
        if isinstance(a, bool | np.bool_):
            raise ArgumentError("an integer is required, not a bool")


def normalize_axes(name: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """Return sorted, non-negative, distinct axes; None means all."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = [normalize_axis(name, a, ndim) for a in given]
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{name}: axis {tuple(given)} names one axis twice")
    return tuple(sorted(axes))


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """Return the shape after reducing `axes`."""
    if keepdims:
        return tuple(1 if k in axes else n for k, n in enumerate(shape))
    return tuple(n for k, n in enumerate(shape) if k not in axes)


def require_nonempty(name: str, m: Meta, axes: tuple[int, ...]) -> None:
    """Raise ShapeError if a reduction without identity has no elements, as NumPy does."""
    if math.prod(m.shape[a] for a in axes) == 0:
        raise ShapeError(f"{name}: zero-size array of shape {m.shape} to a reduction without identity")


def reshape_shape(name: str, shape: tuple[int, ...], new: Sequence[int]) -> tuple[int, ...]:
    """Return the new shape with a single -1 filled in; raise ShapeError if the sizes differ."""
    size = math.prod(shape)
    if min(new, default=0) >= 0 and math.prod(new) == size:
        return tuple(new)
    unknown = [k for k, n in enumerate(new) if n == -1]
    if any(n < -1 for n in new) or len(unknown) > 1:
        raise ShapeError(f"{name}: {tuple(new)} may hold one -1 and no other negative extent")
    known = math.prod(n for n in new if n != -1)
    if unknown:
        if known == 0 or size % known:
            raise ShapeError(f"{name}: cannot reshape {shape} ({size} elements) into {tuple(new)}")
        result = tuple(size // known if n == -1 else n for n in new)
    else:
        result = tuple(new)
    if math.prod(result) != size:
        raise ShapeError(f"{name}: cannot reshape {shape} ({size} elements) into {tuple(new)}")
    return result


def matmul_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a @ b by NumPy's rules for ranks 1 and up."""
    if not a or not b:
        raise ShapeError(f"matmul: operands of shapes {a} and {b} need at least one axis; use * for scalars")
    inner_b = b[0] if len(b) == 1 else b[-2]
    if a[-1] != inner_b:
        raise ShapeError(
            f"matmul: {a} @ {b}: the last axis of the first ({a[-1]}) must equal "
            f"axis {-1 if len(b) == 1 else -2} of the second ({inner_b})"
        )
    batch = broadcast("matmul", [a[:-2], b[:-2]])
    return batch + (a[-2:-1] if len(a) > 1 else ()) + (b[-1:] if len(b) > 1 else ())
