"""Methods of NumPy's ufuncs over traced arrays without an operator: `reduce` by halves, `reduceat`.

Owns them for associative ufuncs, whose order of application is free up to rounding. Sums, products, extremes and logic
are reduction operators (`jitfuse.tracing.numpy_like.reduce`), `accumulate` is in `jitfuse.tracing.numpy_like.scans`.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.errors import ArgumentError, BoundsError, ShapeError, UnsupportedError
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numpy_like import shapes
from jitfuse.tracing.numpy_like.reduce import cast, given, masked
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor import gathering
from jitfuse.tracing.tensor.function_table import Tensor, deliver, lifted, strong

IDENTITIES: Final[dict[str, Any]] = {
    "bitwise_and": -1, "bitwise_or": 0, "bitwise_xor": 0, "logical_xor": False, "gcd": 0, "hypot": 0.0,
    "logaddexp": -math.inf, "logaddexp2": -math.inf, "fmax": None, "fmin": None, "lcm": None, "subtract": None,
}
"""Ufuncs that reduce by halves, with their result for no elements (None: they raise). `subtract` subtracts the sum of
the other elements from the first."""
_PIECES: Final = 64
"""`reduceat` reduces slices for up to so many indices; more of them must ascend, and use a scatter."""


def reduce(name: str, op_name: str, a: Tensor, out: Any, axis: Any = 0, dtype: Any = None, keepdims: Any = False,
           initial: Any = None, where: Any = True) -> Tensor:
    """Return a ufunc's `reduce` over axes, by halves."""
    x = cast(strong(lifted(a)[0]), dtype, name)
    if name == "logical_xor":
        x = x.call("astype", dtype="bool")
    shape_rules.reject_bools(axis)
    axes = shape_rules.normalize_axes(name, tuple(axis) if isinstance(axis, list | tuple) else axis, x.ndim)
    if name == "subtract" and len(axes) > 1:
        raise ArgumentError(f"reduction operation 'subtract' is not reorderable, so at most one axis may be specified, "
                            f"at {user_line()}")
    identity = IDENTITIES[name]
    if given(where) and where is not True:
        start = initial if given(initial) else identity
        if start is None:
            raise ArgumentError(f"np.{name}.reduce has no identity: to use a where mask one has to specify 'initial', "
                                f"at {user_line()}")
        x = masked(name, x, where, start)
    shape = shape_rules.reduced_shape(x.shape, axes, bool(keepdims))
    rest = [k for k in range(x.ndim) if k not in axes]
    count = math.prod(x.shape[k] for k in axes)
    x = x.call("transpose", axes=(*axes, *rest)).reshape((count, *(x.shape[k] for k in rest)))
    if not count:
        if identity is None and not given(initial):
            raise ShapeError(f"zero-size array to reduction operation {name} which has no identity, at {user_line()}")
        value = initial if given(initial) else identity
        return deliver(name, x.create("full", shape=shape, value=value, dtype=str(x.dtype)), out)
    if name == "subtract":
        x = x[0] - x[1:].call("sum", axis=0).astype(str(x.dtype), copy=False) if count > 1 else x[0]
    else:
        x = _halved(op_name, x)
    if given(initial):
        x = strong(lifted(initial, x)[0]).astype(str(x.dtype), copy=False).call(op_name, x)
    return deliver(name, x.reshape(shape) if count > 1 else x.reshape(shape).as_copy(scalar=not shape), out)


def _halved(op_name: str, x: Tensor) -> Tensor:
    """Apply an operator to halves of the first axis until one element is left."""
    while x.shape[0] > 1:
        half, odd = divmod(x.shape[0], 2)
        joined = x[:half].call(op_name, x[half : 2 * half])
        x = shapes.concatenate([joined, x[2 * half :]]) if odd else joined
    return x[0]


def reduceat(name: str, reduce_: Callable[..., Tensor], a: Tensor, indices: Any, axis: Any = 0, dtype: Any = None,
             out: Any = None) -> Tensor:
    """Return a ufunc's `reduceat`: reductions of the parts between indices, which are known while tracing."""
    if isinstance(indices, AbstractTensor):
        raise UnsupportedError(f"np.{name}.reduceat at traced indices is not available, at {user_line()}. Scatter: "
                               "np.add.at(np.zeros(n), which, x).")
    x = strong(lifted(a)[0])
    shape_rules.reject_bools(axis)
    along = shape_rules.normalize_axis(name, axis, x.ndim)
    begins = [int(k) for k in np.asarray(indices)]
    extent = x.shape[along]
    if any(not 0 <= k < extent for k in begins):
        wrong = next(k for k in begins if not 0 <= k < extent)
        raise BoundsError(f"index {wrong} out-of-bounds in {name}.reduceat [0, {extent}), at {user_line()}")
    lead = (slice(None),) * along
    ends = [*begins[1:], extent]
    ascending = all(i < j for i, j in zip(begins, ends, strict=True))
    if len(begins) > _PIECES and ascending and name in ("add", "multiply", "maximum", "minimum"):
        return deliver(name, _scattered(name, cast(x, dtype, name), along, begins), out)
    if len(begins) > 16 * _PIECES:
        raise UnsupportedError(f"np.{name}.reduceat at {len(begins)} indices is not available, at {user_line()}. Pass "
                               "indices that ascend, or reduce a reshaped array.")
    parts = [
        reduce_(x[(*lead, slice(i, j))] if i < j else x[(*lead, slice(i, i + 1))], axis=along, dtype=dtype,
                keepdims=True)
        for i, j in zip(begins, ends, strict=True)
    ]
    made = shapes.concatenate(parts, along) if parts else x[(*lead, slice(0, 0))].as_copy()
    return deliver(name, made, out)


def _scattered(name: str, x: Tensor, axis: int, begins: list[int]) -> Tensor:
    lead = (slice(None),) * axis
    result = x[(*lead, np.asarray(begins))]
    later = np.setdiff1d(np.arange(begins[0], x.shape[axis]), begins)
    which = np.searchsorted(begins, later, "right") - 1
    if later.size:
        gathering.set_item(result, (*lead, which), x[(*lead, later)], name)
    return result
