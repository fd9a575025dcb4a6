"""The functions of the Python array API standard, as `jf.sin(x)`, with jitfuse's operators and more NumPy functions.

Owns the names and the choice of implementation: traced arrays record, eager arrays compute, NumPy arrays use NumPy.
Elementwise functions come from the op table. Functions with NumPy's name and parameters are NumPy's own, which
dispatch on the array. The rest is in `jitfuse.array_api`, `jitfuse.linalg` and `jitfuse.fft`.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.array_api import creation, data_types, functions
from jitfuse.array_api.entry_points import entry_point
from jitfuse.dtypes import SUPPORTED
from jitfuse.ir.operators import ops
from jitfuse.tracing.record.dtype_name import DType
from jitfuse.tracing.tensor.function_table import lifted, strong, traced_among

_STANDARD_NAMES: Final = {"power": "pow"}
_INTERNAL: Final = frozenset({"require", "python_number", "stop_gradient"})
"""Operators that only traces of Python's numbers use."""
_SHARED_WITH_NUMPY: Final = (
    "sum", "mean", "var", "std", "min", "max", "any", "all", "count_nonzero", "ptp", "prod", "argmin", "argmax",
    "cumsum", "cumprod", "cumulative_sum", "cumulative_prod", "nansum", "nanprod", "nanargmin", "nanargmax",
    "nanmin", "nanmax",
    "nanmean", "nanvar", "nanstd", "average",
    "permute_dims", "matrix_transpose", "expand_dims", "squeeze", "moveaxis", "flip", "broadcast_to",
    "broadcast_arrays", "concat", "stack",
    "tensordot", "einsum", "outer", "dot",
    "roll", "pad", "tril", "triu", "diagonal", "meshgrid", "median", "quantile", "isclose", "nan_to_num",
)
def operate(name: str, *operands: Any, **attrs: Any) -> Any:
    """Carry out an operator of the table: by a tensor's method, or by NumPy for other operands."""
    near = traced_among(*operands)
    if near is not None:
        tensors = lifted(*operands)
        if all(t.weak for t in tensors):
            tensors = [strong(t) for t in tensors]
        return tensors[0].call(name, *tensors[1:], **attrs)
    op = ops.get(name)
    assert op is not None, name
    return op.numpy(*operands, **op.check_attrs(attrs))


def _operator(op: ops.Op) -> Callable[..., Any]:
    name = op.name

    def unary(x: Any, /) -> Any:
        return operate(name, x)

    def binary(x1: Any, x2: Any, /) -> Any:
        return operate(name, x1, x2)

    def function(*operands: Any, **attrs: Any) -> Any:
        return operate(name, *operands, **attrs)

    made: Any = {1: unary, 2: binary}.get(op.arity, function) if not op.attrs else function
    made.__name__ = made.__qualname__ = _STANDARD_NAMES.get(name, name)
    return made  # type: ignore[no-any-return]


def softmax(x: Any, /, *, axis: int | tuple[int, ...] = -1) -> Any:
    """Return exp(x - max) / sum(exp(x - max)) over the axes."""
    return operate("softmax", x, axis=axis)


def log_softmax(x: Any, /, *, axis: int | tuple[int, ...] = -1) -> Any:
    """Return the logarithm of softmax, computed without its rounding errors."""
    return operate("log_softmax", x, axis=axis)


def cummax(x: Any, /, *, axis: int) -> Any:
    """Return the largest of all elements up to each one along an axis."""
    return operate("cummax", x, axis=axis)


def cummin(x: Any, /, *, axis: int) -> Any:
    """Return the smallest of all elements up to each one along an axis."""
    return operate("cummin", x, axis=axis)


def logsumexp(x: Any, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Any:
    """Return log(sum(exp(x))) over the axes, without overflow."""
    return operate("logsumexp", x, axis=axis, keepdims=keepdims)


def _public(module: Any) -> dict[str, Callable[..., Any]]:
    return {name: value for name, value in vars(module).items()
            if getattr(value, "__module__", None) == module.__name__ and not name.startswith("_") and name.islower()
            and callable(value) and not isinstance(value, type)}


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **{_STANDARD_NAMES.get(op.name, op.name): _operator(op) for op in ops.table()
       if op.kind == ops.ELEMENTWISE and op.name not in _INTERNAL},
    **{op.name: _operator(op) for op in ops.table() if op.kind == ops.LIBRARY and op.loop is not None},
    **{name: getattr(np, name) for name in _SHARED_WITH_NUMPY},
    **_public(functions),
    **_public(creation),
    **{name: getattr(data_types, name) for name in ("astype", "isdtype", "can_cast", "result_type", "finfo", "iinfo")},
    "softmax": softmax,
    "log_softmax": log_softmax,
    "logsumexp": logsumexp,
    "cummax": cummax,
    "cummin": cummin,
    "__array_namespace_info__": data_types.namespace_info,
}
"""Every function of the namespace by name; `jitfuse` exposes their entry points."""

CONSTANTS: Final[dict[str, Any]] = {"e": math.e, "pi": math.pi, "inf": math.inf, "nan": math.nan, "newaxis": None,
                                  **{name: DType(name) for name in SUPPORTED}}
"""Every constant and dtype of the namespace by name."""


@functools.cache
def _shown(name: str) -> Callable[..., Any]:
    return entry_point(name, FUNCTIONS[name])


def __getattr__(name: str) -> Any:
    if name in FUNCTIONS:
        return _shown(name)
    if name in CONSTANTS:
        return CONSTANTS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*FUNCTIONS, *CONSTANTS})
