"""Creation: constants, numbers derived from shapes, counting."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitfuse.errors import DTypeError, ShapeError
from jitfuse.ir import meta_rules, reference
from jitfuse.ir.op import CREATION, REQUIRED, Op, add
from jitfuse.ir.program import Meta


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
        _infer_creation, reference.full, doc="A constant; rank 0 and weak for a Python scalar."))
add(Op("extent", 0, CREATION, {"value": REQUIRED, "dtype": "int64", "weak": True}, _infer_creation,
        reference.extent, doc="A number derived from shapes, such as the divisor of a mean: never specialised."))
add(Op("arange", 0, CREATION, {"start": 0, "step": 1, "count": REQUIRED, "dtype": REQUIRED},
        _infer_arange, reference.arange, doc="start + step * i, computed in the dtype as NumPy does."))
add(Op("constant", 0, CREATION, {"shape": REQUIRED, "dtype": REQUIRED, "data": REQUIRED}, _infer_creation,
        reference.constant, doc="Literal array data (C order, little endian bytes)."))
