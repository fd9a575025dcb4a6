"""NumPy's sorting and order statistics over traced arrays: library steps.

Owns their entries in the table of `jitfuse.tracing.tensor.function_table`; each has NumPy's name and parameters.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitfuse import dtypes
from jitfuse.errors import ArgumentError, DTypeError, NumericError, ShapeError
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import NO_VALUE, Tensor, deliver, implements, lifted, reject_options, strong


def sorting(name: str, kind: str | None, stable: bool | None) -> str:
    """Return the sorting algorithm for `kind` and `stable`."""
    if kind is not None and stable is not None:
        raise ArgumentError(f"np.{name}: kind and stable cannot both be given, at {user_line()}")
    if stable is not None:
        return "stable" if stable else "quicksort"
    return {None: "quicksort", "mergesort": "stable"}.get(kind, str(kind))


def _one_axis(a: Any, axis: Any) -> tuple[Tensor, int]:
    """Return an array and the axis to sort along; None flattens."""
    x = strong(lifted(a)[0])
    return (x.ravel(), -1) if axis is None else (x, shape_rules.whole(axis))


@implements("sort")
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    """Return a sorted copy."""
    reject_options("sort", {"order": order})
    x, along = _one_axis(a, axis)
    return x.call("sort", axis=along, sorting=sorting("sort", kind, stable))


@implements("argsort")
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    """Return the indices that would sort."""
    reject_options("argsort", {"order": order})
    shape_rules.reject_bools(axis)
    x, along = _one_axis(a, axis)
    return x.call("argsort", axis=along, sorting=sorting("argsort", kind, stable))


@implements("partition")
def partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Tensor:
    """Return a copy with the elements at `kth` where a sort would put them."""
    reject_options("partition", {"order": order})
    x, along = _one_axis(a, axis)
    if not x.shape[along]:
        return x.as_copy()
    return x.call("partition", axis=along, positions=_positions(x, along, kth))


@implements("argpartition")
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Tensor:
    """Return the indices of a partition."""
    reject_options("argpartition", {"order": order})
    shape_rules.reject_bools(axis)
    x, along = _one_axis(a, axis)
    return x.call("argpartition", axis=along, positions=_positions(x, along, kth))


def _positions(x: Tensor, axis: int, kth: Any) -> tuple[int, ...]:
    extent = x.shape[shape_rules.normalize_axis("partition", axis, x.ndim)]
    given = tuple(kth) if isinstance(kth, Sequence | np.ndarray) else (kth,)
    if any(isinstance(k, bool | np.bool_) for k in given):
        raise NumericError(f"Booleans unacceptable as partition index, at {user_line()}")
    return tuple(int(k) + extent if -extent <= int(k) < 0 else int(k) for k in given)


@implements("searchsorted")
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Tensor:
    """Return the indices at which to insert values into a sorted array."""
    reject_options("searchsorted", {"sorter": sorter}, "Sort first: a[sorter].")
    within, values = (strong(t) for t in lifted(a, v))
    return within.call("searchsorted", values, side=side)


@implements("digitize")
def digitize(x: Any, bins: Any, right: bool = False) -> Tensor:
    """Return the indices of the bins of values; the bins ascend or descend."""
    values, edges = (strong(t) for t in lifted(x, bins))
    if dtypes.kind(str(values.dtype)) == "complex":
        raise DTypeError(f"np.digitize: x may not be complex, at {user_line()}")
    if edges.ndim != 1:
        raise ShapeError(f"np.digitize: bins of shape {edges.shape} need one axis, at {user_line()}")
    side = "left" if right else "right"
    if edges.size < 2:
        return searchsorted(edges, values, side)
    falls = edges[-1].call("less", edges[0])
    upward = falls.call("where", edges[::-1], edges)
    ordered = upward[1:].call("less", upward[:-1]).call("any").call("logical_not")
    found = searchsorted(upward.call("require", ordered), values, side)
    return falls.call("where", edges.size - found, found)


def _over(name: str, a: Any, axis: Any) -> tuple[Tensor, Any]:
    x = strong(lifted(a)[0])
    return x, tuple(axis) if isinstance(axis, list | tuple) else axis


def _keeps(keepdims: Any) -> bool:
    return keepdims is not NO_VALUE and bool(keepdims)


def _middle(name: str) -> Callable[..., Tensor]:
    @implements(name)
    def function(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
                 keepdims: Any = False) -> Tensor:
        x, axes = _over(name, a, axis)
        return deliver(name, x.call(name, axis=axes, keepdims=_keeps(keepdims)), out)

    function.__name__ = name
    function.__doc__ = f"Return np.{name} over axes."
    return function


def _quantile(name: str) -> Callable[..., Tensor]:
    @implements(name)
    def function(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
                 method: str = "linear", keepdims: Any = False, *, weights: Any = None,
                 interpolation: Any = None) -> Tensor:
        given = {"weights": weights, "interpolation": interpolation}
        reject_options(name, given, "Use method=... where that is meant.")
        x, fraction = lifted(a, q)
        x, axes = _over(name, x, axis)
        options = {"method": method, "keepdims": _keeps(keepdims), "weak": fraction.weak}
        return deliver(name, x.call(name, strong(fraction), axis=axes, **options), out)

    function.__name__ = name
    function.__doc__ = f"Return np.{name} over axes; the axis of q comes first."
    return function


median, nanmedian = _middle("median"), _middle("nanmedian")
quantile, percentile = _quantile("quantile"), _quantile("percentile")
nanquantile, nanpercentile = _quantile("nanquantile"), _quantile("nanpercentile")


@implements("i0")
def i0(x: Any) -> Tensor:
    """Return the modified Bessel function of order 0."""
    t = strong(lifted(x)[0])
    found = t.call("i0")
    if dtypes.kind(str(t.dtype)) == "float":
        found = found.astype(str(t.dtype), copy=False)
    return found if found.ndim else found.as_copy()
