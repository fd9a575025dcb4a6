"""Python's `min` and `max` of traced numbers, computed by the program with Python's rules.

Owns which arguments are supported. Others go to Python's own functions, which read the values.
"""
from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from jitfuse.dtypes import kind, numpy_dtype
from jitfuse.tracing.numbers import arithmetic
from jitfuse.tracing.scalars import branch_values
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor

_DTYPES: Final[dict[type, str]] = {int: "int64", float: "float64"}


def largest(*values: Any, **options: Any) -> Any:
    """Replace `max`: return the first of the largest values."""
    return _chosen(max, operator.gt, values, options)


def smallest(*values: Any, **options: Any) -> Any:
    """Replace `min`: return the first of the smallest values."""
    return _chosen(min, operator.lt, values, options)


def _chosen(
    original: Callable[..., Any], beats: Callable[[Any, Any], Any], values: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    several = values[0] if len(values) == 1 and isinstance(values[0], list | tuple) else values
    if options or not _are_numbers(several):
        return original(*values, **options)
    found = several[0]
    try:
        for value in several[1:]:
            better = beats(value, found)
            found = _either(better, value, found) if isinstance(better, TracedTensor) else value if better else found
    except branch_values.NoCommonValueError:  # Python ints and floats are mixed
        return original(*values)
    return found


def _either(condition: TracedTensor, value: Any, other: Any) -> Any:
    """Return the selected one of two numbers, a Python number if both are."""
    one, two = lift(condition._run, value), lift(condition._run, other)
    numpy = [v._meta.dtype for v in (one, two) if not v.weak]
    if not numpy:
        return branch_values.as_python(condition.call("where", one, two))
    return branch_values.either(condition, one, two, numpy[0])


def _are_numbers(values: Sequence[Any]) -> bool:
    """Return whether values are traced numbers of one real dtype, and Python numbers that fit it."""
    traced = [v for v in values if isinstance(v, TracedTensor) and not v.weak]
    dtypes = {v._meta.dtype for v in traced}
    if not traced:
        return _are_pythons(values)
    if len(values) < 2 or len(dtypes) != 1 or not all(v._scalar for v in traced):
        return False
    dtype, = dtypes
    return kind(dtype) in ("int", "uint", "float") and all(
        (isinstance(v, TracedTensor) and not v.weak) or _fits(v, dtype) for v in values
    )


def _are_pythons(values: Sequence[Any]) -> bool:
    """Return whether values are numbers of one Python type, and some are computed from data."""
    kinds = {v._meta.dtype if isinstance(v, TracedTensor) else _DTYPES.get(type(v)) for v in values}
    of_data = any(
        isinstance(v, TracedTensor) and arithmetic.is_of_data(v._run.session, v._id()) for v in values
    )
    return len(values) > 1 and of_data and kinds in ({"int64"}, {"float64"})


def _fits(value: Any, dtype: str) -> bool:
    if kind(dtype) == "float":
        return type(value) in (int, float) and float(numpy_dtype(dtype).type(value)) == value
    bounds = np.iinfo(numpy_dtype(dtype))
    return type(value) is int and int(bounds.min) <= value <= int(bounds.max)
