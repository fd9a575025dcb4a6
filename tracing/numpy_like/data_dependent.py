"""NumPy's functions whose results have data-dependent shapes: each call is a graph break.

Owns their entries in the table of `jitfuse.tracing.tensor.function_table`, each with NumPy's name and parameters.
Python reads only the number of elements; finding and gathering the elements are steps of the program
(`jitfuse.ir.operators.counted`). Does not own graph breaks (`jitfuse.tracing.record.value_reads`).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from jitfuse.errors import ArgumentError, ShapeError, UnsupportedError
from jitfuse.ir.operators import ops
from jitfuse.ir.rules import shape_rules
from jitfuse.ir.semantics import counted
from jitfuse.tracing.numpy_like import masked_selection
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.data_extents import KEEP, extent, indices_by_axis, made_of, nonzero_indices_of, values_of
from jitfuse.tracing.tensor.function_table import Tensor, implements, lifted, strong
from jitfuse.tracing.tensor.traced import TracedTensor

_OUTSIDE = "Call it outside the fused function."


def distinct(
    name: str, op_name: str, tensors: Sequence[Tensor], attrs: dict[str, Any], axes: Sequence[int | None],
) -> tuple[Tensor, ...]:
    """Call an operator with padded results, and cut the padding off.

    `axes` has the padded axis of each result, or None for a result without padding.
    """
    op, values = ops.get(op_name), values_of(tensors)
    assert op is not None
    if values is None:
        *made, count = tensors[0].call(op_name, *tensors[1:], **attrs)
        size = extent(name, count, _OUTSIDE)
    else:
        *arrays, size = op.numpy(*values, **op.check_attrs(attrs))
        made = list(made_of(tensors[0], arrays))
    return tuple(
        (m if axis is None else m[(*(slice(None),) * axis, slice(0, size))]).as_copy()
        for m, axis in zip(made, axes, strict=True)
    )


def _picked(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Return parts along an axis, in C order, as `take` does."""
    found: Tensor = x[(*(slice(None),) * axis, indices)]
    return found.laid_out(None)


def _along(name: str, a: Any, axis: Any) -> tuple[Tensor, int]:
    x = strong(lifted(a)[0])
    return (x.ravel(), 0) if axis is None else (x, shape_rules.normalize_axis(name, axis, x.ndim))


# ---------------------------------------------------------------- indices
@implements("nonzero")
def nonzero(a: Any) -> tuple[Tensor, ...]:
    """Return the indices of elements that are not zero, one array for each axis."""
    x = strong(lifted(a)[0])
    if not x.ndim:
        np.nonzero(np.zeros(()))  # raises
    if x.ndim == 1 and isinstance(x, TracedTensor) and values_of((x,)) is None:
        return (masked_selection.selected_indices(x if x.dtype == "bool" else x.call("not_equal", 0)),)
    return indices_by_axis("nonzero", x)


@implements("flatnonzero")
def flatnonzero(a: Any) -> Tensor:
    """Return the indices of elements that are not zero in the flattened array."""
    return nonzero(strong(lifted(a)[0]).ravel())[0]


@implements("argwhere")
def argwhere(a: Any) -> Tensor:
    """Return the indices of elements that are not zero, one row for each element."""
    return rows_of_indices("argwhere", strong(lifted(a)[0]))


def rows_of_indices(name: str, x: Tensor, way_out: str = KEEP) -> Tensor:
    """Return the indices of elements that are not zero, one row each; the rows are empty for rank 0."""
    found: Tensor = nonzero_indices_of(name, x if x.ndim else x.reshape((1,)), way_out).T
    return found if x.ndim else found[:, :0]


# ---------------------------------------------------------------- elements
@implements("extract")
def extract(condition: Any, arr: Any) -> Tensor:
    """Return the elements of the flattened array for which the condition holds."""
    c, x = lifted(condition, arr)
    return _picked(strong(x).ravel(), flatnonzero(c), 0)


@implements("compress")
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Tensor:
    """Return the parts along an axis for which the condition holds."""
    if out is not None:
        raise UnsupportedError(f"np.compress(out=) is not available inside a fused function, at {user_line()}")
    c, x = lifted(condition, a)
    if c.ndim != 1:
        np.compress(np.zeros(c.shape, bool), np.zeros(3))  # raises
    shape_rules.reject_bools(axis)
    x, along = _along("compress", x, axis)
    return _picked(x, flatnonzero(c), along)


def repeat_each(x: Tensor, counts: Tensor, axis: int) -> Tensor:
    """Repeat each part of an array along an axis; the counts are traced."""
    often = counts.call("broadcast_to", shape=(x.shape[axis],)) if counts.size == 1 else counts
    if often.shape != (x.shape[axis],):
        raise ShapeError(f"np.repeat: counts of shape {counts.shape} for an axis of extent {x.shape[axis]}, at "
                         f"{user_line()}")
    values = values_of((often,))
    if values is None:
        size = extent("repeat", often.call("sum"), "Pass Python integers.")
        indices = often.call("repeat_counted", size=size)
    else:
        (indices,) = made_of(x, [np.repeat(np.arange(x.shape[axis]), values[0])])
    return _picked(x, indices, axis)


# ---------------------------------------------------------------- sets
@implements("unique")
def unique(ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
           axis: int | None = None, *, equal_nan: bool = True, sorted: bool = True) -> Any:
    """Return the distinct elements in order; on request their indices and counts."""
    x = strong(lifted(ar)[0])
    asked = {"return_index": bool(return_index), "return_inverse": bool(return_inverse),
             "return_counts": bool(return_counts)}
    made = unique_of("unique", x, {**asked, "axis": axis, "equal_nan": bool(equal_nan), "sorted": bool(sorted)})
    return made if any(asked.values()) else made[0]


class UniqueAll(NamedTuple):
    """The result of `unique_all`."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The result of `unique_inverse`."""

    values: Tensor
    inverse_indices: Tensor


def standard_unique(name: str, x: Tensor, *asked: str) -> tuple[Tensor, ...]:
    """Return the distinct elements as the array API standard has them (each NaN is distinct), and requested extras."""
    attrs = {f"return_{what}": True for what in asked}
    return unique_of(name, x, {**attrs, "equal_nan": False, "sorted": bool(asked)})


def _of_array_api(name: str, *asked: str) -> None:
    def function(x: Any) -> Any:
        made = standard_unique(name, strong(lifted(x)[0]), *asked)
        return type(getattr(np, name)(np.zeros(1)))(*made) if asked else made[0]

    function.__name__ = name
    function.__doc__ = f"NumPy's {name}, over the data of the call."
    implements(name)(function)


_of_array_api("unique_all", "index", "inverse", "counts")
_of_array_api("unique_counts", "counts")
_of_array_api("unique_inverse", "inverse")
_of_array_api("unique_values")


def unique_of(name: str, x: Tensor, attrs: dict[str, Any]) -> tuple[Tensor, ...]:
    """Return NumPy's `unique` under a name, as a tuple."""
    row = ops.get("unique_padded")
    assert row is not None
    full = row.check_attrs(attrs)
    if full["axis"] is not None:
        full["axis"] = shape_rules.normalize_axis(name, full["axis"], x.ndim)
    return distinct(name, "unique_padded", (x,), full, counted.unique_axes(full))


def _of_sets(name: str) -> None:
    plain: Callable[..., Any] = getattr(np, name)

    def function(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
        attrs = {"assume_unique": bool(assume_unique), "return_indices": bool(return_indices)}
        if not all(attrs[k] is False or k in taken for k in attrs):
            plain(np.zeros(1), np.zeros(1), **attrs)  # raises
        given = {k: v for k, v in attrs.items() if k in taken}
        made = distinct(name, f"{name}_padded", [strong(t) for t in lifted(ar1, ar2)], given,
                        [0] * (3 if return_indices else 1))
        return made if return_indices else made[0]

    taken = _OPTIONS[name]
    function.__name__ = name
    function.__doc__ = f"NumPy's {name}, over the data of the call."
    implements(name)(function)


_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "intersect1d": ("assume_unique", "return_indices"), "setdiff1d": ("assume_unique",),
    "setxor1d": ("assume_unique",), "union1d": (),
}
for _name in _OPTIONS:
    _of_sets(_name)


@implements("trim_zeros")
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Tensor:
    """Return an array without its leading and trailing zeros."""
    x = strong(lifted(filt)[0])
    if trim.lower() not in ("f", "b", "fb", "bf"):
        raise ArgumentError(f"np.trim_zeros: trim is 'f', 'b' or 'fb', not {trim!r}, at {user_line()}")
    there = x.call("not_equal", 0)
    index = [slice(None)] * x.ndim
    for k in shape_rules.normalize_axes("trim_zeros", axis, x.ndim):
        index[k] = _between(there, k, trim.lower())
    return x[tuple(index)]


def _between(there: Tensor, axis: int, trim: str) -> slice:
    """Return the slice along an axis from the first to the last index where `there` holds; empty if there is none."""
    others = tuple(k for k in range(there.ndim) if k != axis)
    along = there.call("any", axis=others) if others else there
    size = along.shape[0]
    if not size:
        return slice(0, 0)
    count = along.call("any").call("astype", dtype="int64")  # without any, both ends are the start
    first = along.call("argmax") if "f" in trim else 0
    last = size - along[::-1].call("argmax") if "b" in trim else size
    begin, end = (
        bound if isinstance(bound, int) else extent("trim_zeros", bound * count, _OUTSIDE) for bound in (first, last)
    )
    if isinstance(last, int) and not extent("trim_zeros", count, _OUTSIDE):
        end = 0
    return slice(begin, end)
