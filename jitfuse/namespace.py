"""The functions of the Python array API standard, as `jf.sin(x)`: traced arrays record, NumPy arrays compute.

Owns the names and the choice between the two; operators come from the op table, what NumPy dispatches to
traced arrays by itself goes through NumPy. Creation functions make traced arrays inside a trace, so that these
accept traced values in item assignment, and NumPy arrays outside.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.errors import ArgumentError
from jitfuse.ir import ops
from jitfuse.tracing import substitutes
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.device_array import DeviceArray
from jitfuse.tracing.dtype_name import dtype_name
from jitfuse.tracing.numpy_functions import lifted, strong, traced_among
from jitfuse.tracing.recorder import active

_STANDARD_NAMES: Final = {"power": "pow"}
_SHARED_WITH_NUMPY: Final = (
    "sum", "mean", "var", "std", "min", "max", "any", "all", "count_nonzero", "ptp", "prod", "argmin", "argmax",
    "cumsum", "cumprod", "cumulative_sum", "cumulative_prod", "diff", "nansum", "nanprod", "nanargmin", "nanargmax",
    "nanmin", "nanmax",
    "nanmean", "nanvar", "nanstd", "average", "where", "clip", "reshape",
    "permute_dims", "matrix_transpose", "expand_dims", "squeeze", "moveaxis", "flip", "broadcast_to",
    "broadcast_arrays", "concat", "stack",
    "tensordot", "vecdot", "einsum", "outer", "dot", "take", "take_along_axis",
    "roll", "tile", "repeat", "pad", "tril", "triu", "diagonal", "meshgrid",
    "sort", "argsort", "searchsorted", "median", "quantile",
    "round", "isclose", "nan_to_num", "zeros_like", "ones_like", "full_like", "empty_like", "result_type",
)
_CREATION: Final = ("zeros", "ones", "full", "empty", "eye", "arange", "linspace")


def operate(name: str, *operands: Any, **attrs: Any) -> Any:
    """Carry out an operator of the table: on traced or other tensors by their method, else by NumPy."""
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
    def function(*operands: Any, **attrs: Any) -> Any:
        return operate(op.name, *operands, **attrs)

    function.__name__ = function.__qualname__ = _STANDARD_NAMES.get(op.name, op.name)
    function.__doc__ = op.doc or f"Return the {op.kind} operator {op.name} of the operands."
    return function


def _creation(name: str) -> Callable[..., Any]:
    plain = getattr(np, name)
    traced = substitutes.substitute(plain)
    assert traced is not None, name

    def function(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs) if active() is None else traced(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return what np.{name} returns: a traced array inside a trace."
    return function


_plain_asarray = _creation("asarray")


def asarray(obj: Any, /, dtype: Any = None, *, device: str | None = None, copy: bool | None = None) -> Any:
    """Return what np.asarray returns, or with device="gpu" an array on the GPU; see `jitfuse.gpu.asarray`."""
    if active() is not None:
        if device is not None:
            raise ArgumentError("asarray(device=) inside a fused function: a call runs on one device, jf.fuse(device=)")
        return _plain_asarray(obj, dtype, copy=copy)
    if device is None and not isinstance(obj, DeviceArray):
        return np.asarray(obj, dtype, copy=copy)
    from jitfuse.gpu.tensor import asarray as on_device

    if isinstance(obj, DeviceArray):
        placed = on_device(obj, device)
        return placed if dtype is None else astype(placed, dtype, copy=False)
    return on_device(np.asarray(obj, dtype), device)


def astype(x: Any, dtype: Any, /, *, copy: bool = True) -> Any:
    """Return x cast to a dtype; x itself where `copy` is false and nothing changes."""
    if isinstance(x, AbstractTensor):
        return x.astype(dtype, copy=copy)  # type: ignore[attr-defined]
    return np.asarray(x).astype(dtype_name(dtype, "astype"), copy=copy)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Return the parts of x along an axis; views."""
    return tuple(np.moveaxis(x, axis, 0))


def softmax(x: Any, /, *, axis: int | tuple[int, ...] = -1) -> Any:
    """Return exp(x - max) / sum(exp(x - max)) over the axes."""
    return operate("softmax", x, axis=axis)


def log_softmax(x: Any, /, *, axis: int | tuple[int, ...] = -1) -> Any:
    """Return the logarithm of softmax, without its rounding errors."""
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


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **{_STANDARD_NAMES.get(op.name, op.name): _operator(op) for op in ops.table() if op.kind == ops.ELEMENTWISE},
    **{op.name: _operator(op) for op in ops.table() if op.kind == ops.LIBRARY and op.loop is not None},
    "matmul": _operator(next(op for op in ops.table() if op.name == "matmul")),
    **{name: getattr(np, name) for name in _SHARED_WITH_NUMPY},
    "unstack": unstack,
    **{name: _creation(name) for name in _CREATION},
    "asarray": asarray,
    "astype": astype,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "logsumexp": logsumexp,
    "cummax": cummax,
    "cummin": cummin,
}
"""Every function of the namespace by name; `jitfuse` re-exports them."""


def __getattr__(name: str) -> Any:
    try:
        return FUNCTIONS[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *FUNCTIONS})
