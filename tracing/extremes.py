"""Python's `min` and `max` of traced numbers: chosen as Python chooses, when the compiled program runs.

Owns which arguments are compared so. All others are left to Python, which looks at values.
"""
from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitfuse.dtypes import kind, numpy_dtype
from jitfuse.tracing.traced import TracedTensor


def largest(*values: Any, **options: Any) -> Any:
    """Return what `max` returns: the first of the largest ones."""
    return _chosen(max, operator.gt, values, options)


def smallest(*values: Any, **options: Any) -> Any:
    """Return what `min` returns: the first of the smallest ones."""
    return _chosen(min, operator.lt, values, options)


def _chosen(
    original: Callable[..., Any], beats: Callable[[Any, Any], Any], values: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    several = values[0] if len(values) == 1 and isinstance(values[0], list | tuple) else values
    if options or not _are_numbers(several):
        return original(*values, **options)
    found = several[0]
    for value in several[1:]:
        better = beats(value, found)
        found = better.call("where", value, found) if isinstance(better, TracedTensor) else value if better else found
    return found


def _are_numbers(values: Sequence[Any]) -> bool:
    """Return whether values are computed numbers of one real dtype, and Python numbers that this dtype holds."""
    traced = [v for v in values if isinstance(v, TracedTensor) and not v.weak]
    dtypes = {v._meta.dtype for v in traced}
    if len(values) < 2 or len(dtypes) != 1 or any(v.shape != () for v in traced):
        return False
    dtype, = dtypes
    return kind(dtype) in ("int", "uint", "float") and all(
        (isinstance(v, TracedTensor) and not v.weak) or _fits(v, dtype) for v in values
    )


def _fits(value: Any, dtype: str) -> bool:
    if kind(dtype) == "float":
        return type(value) in (int, float)
    bounds = np.iinfo(numpy_dtype(dtype))
    return type(value) is int and int(bounds.min) <= value <= int(bounds.max)
