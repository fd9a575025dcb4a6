"""torch's clamps, selections between elements, and tests of equality and dtype over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`.
"""
from __future__ import annotations

import math
from typing import Any

import torch

from jitfuse.dtypes import kind
from jitfuse.errors import ArgumentError, DTypeError
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.torch_like.elementwise import delivered
from jitfuse.tracing.torch_like.promotion import (
    cast,
    operand,
    result_dtype,
    strong,
)
from jitfuse.tracing.torch_like.table import implements, method
from jitfuse.tracing.torch_like.tensor import wrap


# ---------------------------------------------------------------- limits and choices
@implements("clamp", "clip")
def clamp(input: Any, min: Any = None, max: Any = None, *, out: Any = None) -> Any:
    """Limit the values to [min, max]; either may be None."""
    if min is None and max is None:
        raise ArgumentError(f"torch.clamp: At least one of 'min' or 'max' must not be None, at {user_line()}")
    bounds = [operand(b) for b in (min, max) if b is not None]
    common = result_dtype([operand(input), *bounds])
    x = cast(operand(input), common)
    for name, bound in (("maximum", min), ("minimum", max)):
        if bound is not None:  # of two zeros the element stays: the second of two equal ones, in float16 the first
            limit = cast(operand(bound), common)
            x = x.call(name, limit) if common == "float16" else limit.call(name, x)
    return delivered(x, out)


@implements("clamp_min")
def clamp_min(input: Any, min: Any) -> Any:
    """Limit the values from below."""
    return clamp(input, min)


@implements("clamp_max")
def clamp_max(input: Any, max: Any) -> Any:
    """Limit the values from above."""
    return clamp(input, None, max)


@implements("where")
def where(condition: Any, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """Return elements of input where the condition holds, else of other."""
    if input is None:
        from jitfuse.tracing.torch_like.data_dependent import nonzero

        return nonzero(condition, as_tuple=True)
    c, a, b = strong(condition), operand(input), operand(other)
    if str(c.dtype) not in ("bool", "uint8"):
        raise DTypeError(f"where expected condition to be a boolean tensor, but got {c.dtype}, at {user_line()}")
    common = result_dtype([a, b])
    return delivered(cast(c, "bool").call("where", cast(a, common), cast(b, common)), out)


@method("where")
def where_method(self: Any, condition: Any, other: Any) -> Any:
    """Return elements of self where the condition holds, else of other."""
    return where(condition, self, other)


@implements("masked_fill")
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """Return the tensor with a value where a mask holds."""
    x = strong(input)
    if str(operand(mask).dtype) != "bool":
        raise DTypeError(f"masked_fill only supports boolean masks, but got {operand(mask).dtype}, at {user_line()}")
    if isinstance(value, float) and not math.isfinite(value) and kind(str(x.dtype)) != "float":
        raise ArgumentError(f"masked_fill: value cannot be converted to type {x.dtype} without overflow, at "
                            f"{user_line()}")
    return wrap(operand(mask).call("where", cast(operand(value), str(x.dtype)), x).as_copy())


# ---------------------------------------------------------------- closeness


@implements("equal")
def equal(input: Any, other: Any) -> bool:
    """Read whether two tensors are equal in shape and elements."""
    a, b = strong(input), strong(other)
    return a.shape == b.shape and bool(a.call("equal", b).call("all"))


@implements("is_floating_point")
def is_floating_point(input: Any) -> bool:
    """Return whether the dtype is a floating-point one."""
    return kind(str(strong(input).dtype)) == "float"


@implements("is_complex")
def is_complex(input: Any) -> bool:
    """Return whether the dtype is complex."""
    return kind(str(strong(input).dtype)) == "complex"


@implements("result_type")
def result_type(tensor1: Any, tensor2: Any) -> Any:
    """Return the dtype that two operands have in common."""
    return getattr(torch, result_dtype([operand(tensor1), operand(tensor2)]))
