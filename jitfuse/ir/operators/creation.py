"""Creation: constants, numbers derived from shapes, ranges."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jitfuse.dtypes import integer_range, is_integer, itemsize, kind, weak_dtype
from jitfuse.errors import DTypeError, OutOfRangeError, ShapeError
from jitfuse.ir.operators.op import CREATION, REQUIRED, Op, add
from jitfuse.ir.rules import meta_rules
from jitfuse.ir.schema import Meta
from jitfuse.ir.semantics import reference

_RANKS: Final = {"bool": 0, "int": 1, "uint": 1, "float": 2, "complex": 3}


def _check_number(value: Any, dtype: str, weak: bool) -> None:
    """Raise an error if a dtype does not hold a number: one of a higher kind, or an integer out of its range.

    A Python number has the dtype of its own kind.
    """
    own = weak_dtype(value)
    if own != dtype if weak else _RANKS[kind(own)] > _RANKS[kind(dtype)]:
        raise DTypeError(f"{value!r} is no constant of {dtype}{' weak' if weak else ''}")
    if is_integer(own) and is_integer(dtype) and not integer_range(dtype)[0] <= value <= integer_range(dtype)[1]:
        raise OutOfRangeError(f"Python integer {value} out of bounds for {dtype}")


def _infer_full(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    made = _infer_creation(metas, attrs)
    _check_number(attrs["value"], made.dtype, made.weak)
    return made


def _infer_constant(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    made, data = _infer_creation(metas, attrs), attrs["data"]
    if len(data) != made.size * itemsize(made.dtype):
        raise ShapeError(f"constant: {len(data)} bytes for {made}")
    if made.dtype == "bool" and data.translate(None, b"\0\1"):
        raise DTypeError("constant: the bytes of bools are 0 and 1")
    return made


def _infer_creation(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    dtype = meta_rules.check_dtype("creation", attrs["dtype"])
    shape = tuple(attrs.get("shape", ()))
    if any(n < 0 for n in shape):
        raise ShapeError(f"negative dimensions are not allowed: {shape}")
    return Meta(shape, dtype, weak=bool(attrs.get("weak", False)))


def _infer_arange(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    if attrs["dtype"] == "bool":
        raise DTypeError("arange counts in integers or floats, not in bool")
    return Meta((attrs["count"],), meta_rules.check_dtype("arange", attrs["dtype"]))


add(Op("zeros", 0, CREATION, {"shape": REQUIRED, "dtype": "float64"}, _infer_creation, reference.zeros))
add(Op("full", 0, CREATION, {"shape": (), "value": REQUIRED, "dtype": REQUIRED, "weak": False},
        _infer_full, reference.full, doc="A constant; rank 0 and weak for a Python scalar."))
add(Op("extent", 0, CREATION, {"value": REQUIRED, "dtype": "int64", "weak": True}, _infer_full,
        reference.extent, doc="A number derived from shapes, such as the divisor of a mean: never specialised."))
add(Op("arange", 0, CREATION, {"start": 0, "step": 1, "count": REQUIRED, "dtype": REQUIRED},
        _infer_arange, reference.arange, doc="start + step * i, computed in the dtype as NumPy does."))
add(Op("constant", 0, CREATION, {"shape": REQUIRED, "dtype": REQUIRED, "data": REQUIRED}, _infer_constant,
        reference.constant, doc="Literal array data (C order, little endian bytes)."))
