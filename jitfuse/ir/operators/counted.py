"""Data-dependent shapes: library steps for indices of elements, distinct elements, sets.

Owns their rows. The number of elements is an attribute, or the last of several results.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from jitfuse.dtypes import can_cast, numpy_dtype
from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.ir.operators.op import LIBRARY, REQUIRED, InferResults, Op, add
from jitfuse.ir.rules import meta_rules, shape_rules
from jitfuse.ir.schema import Meta
from jitfuse.ir.semantics import counted


def _infer_nonzero(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    (m,) = metas
    if not m.ndim:
        raise ShapeError("nonzero_counted takes an array of at least one axis")
    if not 0 <= attrs["size"] <= m.size:
        raise ShapeError(f"nonzero_counted: {attrs['size']} indices among {m.size} elements")
    return Meta((m.ndim, attrs["size"]), "int64", m.device)


def _infer_repeat(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    (m,) = metas
    if m.ndim != 1 or attrs["size"] < 0:
        raise ShapeError(f"repeat_counted: {attrs['size']} indices by counts of shape {m.shape}")
    if not can_cast(m.dtype, "int64", "safe"):
        raise DTypeError(f"repeat_counted: counts are integers that int64 holds, not {m.dtype}")
    return Meta((attrs["size"],), "int64", m.device)


def _infer_unique(metas: Sequence[Meta], attrs: dict[str, Any]) -> tuple[Meta, ...]:
    (m,) = metas
    axis = attrs["axis"]
    if axis is not None:
        shape_rules.normalize_axis("unique_padded", axis, m.ndim)
    room = m.size if axis is None else m.shape[axis]
    shape = (room,) if axis is None else m.shape
    made = [Meta(shape, m.dtype, m.device)]
    for along in counted.unique_axes(attrs)[1:]:
        made.append(Meta(m.shape if along is None and axis is None else (room,), "int64", m.device))
    return (*made, Meta((), "int64", m.device))


def _infer_sets(name: str) -> InferResults:
    def infer(metas: Sequence[Meta], attrs: dict[str, Any]) -> tuple[Meta, ...]:
        a, b = metas
        dtype, device = _dtype_of_sets(name, a.dtype, b.dtype), meta_rules.common_device(name, metas)
        made = [dtype, *(["int64", "int64"] if attrs.get("return_indices") else [])]
        return (*(Meta((a.size + b.size,), d, device) for d in made), Meta((), "int64", device))

    return infer


@cache
def _dtype_of_sets(name: str, *dtypes: str) -> str:
    try:
        return str(getattr(np, name)(*(np.zeros(1, numpy_dtype(d)) for d in dtypes)).dtype.name)
    except TypeError as error:  # bfloat16 and a dtype that it has no common one with
        raise DTypeError(f"{name} does not take {', '.join(dtypes)}: {error}") from error


def _of_many(
    name: str, arity: int, attrs: dict[str, Any], results: InferResults, reference: Callable[..., Any], doc: str
) -> None:
    def infer(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        raise ArgumentError(f"{name} makes several values, not one")

    add(Op(name, arity, LIBRARY, attrs, infer, reference, doc=doc, infer_results=results))


add(Op("nonzero_counted", 1, LIBRARY, {"size": REQUIRED}, _infer_nonzero, counted.nonzero,
       doc="The indices of so many elements that are not zero, a row for each axis."))
add(Op("repeat_counted", 1, LIBRARY, {"size": REQUIRED}, _infer_repeat, counted.repeat,
       doc="Each index as often as its count says, so many in all."))
_of_many("unique_padded", 1, {
    "return_index": False, "return_inverse": False, "return_counts": False, "axis": None, "equal_nan": True,
    "sorted": True,
}, _infer_unique, counted.unique,
    "The distinct elements and what else is asked for, with room for all, and how many there are.")
for _name, _attrs in {
    "intersect1d": {"assume_unique": False, "return_indices": False}, "union1d": {},
    "setdiff1d": {"assume_unique": False}, "setxor1d": {"assume_unique": False},
}.items():
    _of_many(f"{_name}_padded", 2, _attrs, _infer_sets(_name), counted.of_sets(_name),
             f"NumPy's {_name}, with room for the elements of both, and how many there are.")
