"""Direct functions of eager arrays: implementations of namespace functions over ndarrays alone.

An implementation is NumPy's own behind its dispatch, the op table's reference, the function's body if that calls NumPy
only, or one of the few written here. For an argument that it does not handle it returns NotImplemented or raises, and
the namespace function itself is called. Does not own the conversion between eager arrays and ndarrays
(`direct_function` of their classes).
"""
from __future__ import annotations

import math
from collections.abc import Callable
from types import NoneType
from typing import Any, Final

import numpy as np

from jitfuse.arrays.direct_lapack import LAPACK, svdvals
from jitfuse.arrays.direct_order import ORDER, undispatched
from jitfuse.arrays.direct_transforms import TRANSFORMS
from jitfuse.dtypes import numpy_dtype
from jitfuse.ir.operators import ops
from jitfuse.tracing.record.dtype_name import DType, DTypeName, dtype_name
from jitfuse.tracing.tensor.function_table import NO_VALUE

Function = Callable[..., Any]
Array = np.ndarray[Any, Any]
_NUMPYS: Final = (np.ndarray, np.generic)

PASSED: Final = frozenset({
    int, float, bool, complex, NoneType, str, type, np.ndarray, DType, DTypeName, type(NO_VALUE), slice,
})
"""Types of arguments that are passed on unchanged."""
_BODIES: Final = frozenset({
    "clip", "tile", "diff", "where", "unstack", "repeat",
})
"""Functions whose bodies call NumPy's functions only."""
OPERATORS: Final = {"pow": "power"}
"""Function name -> operator name, where they differ."""


class UndecidedError(Exception):
    """Raised for an operand that a direct function does not handle; then the namespace function itself is called."""


def over_arrays(name: str, function: Function) -> Function | None:
    """Return the implementation of a namespace function over ndarrays, or None."""
    if name in _OWN:
        return _OWN[name]
    if name in _BODIES:
        return getattr(function, "__wrapped__", function)
    implementation = getattr(function, "_implementation", None)
    if implementation is not None:
        return implementation  # type: ignore[no-any-return]
    op = ops.get(OPERATORS.get(name, name)) if function.__module__ == "jitfuse.array_api.namespace" else None
    if op is None or op.kind != ops.ELEMENTWISE or op.attrs or op.arity > 2 or name == "python_number":
        return None
    return op.numpy


# ---------------------------------------------------------------- elements
def _conj(x: Array, /) -> Any:
    return np.conjugate(x) if x.dtype.kind == "c" else x


def _round(x: Array, /, decimals: int = 0) -> Any:
    return x.round(decimals)


def _but_complex(function: Function) -> Function:
    def real(x: Array, /) -> Any:
        return NotImplemented if x.dtype.kind == "c" else function(x)

    return real


_SUMMED: Final = frozenset("fd")
"""The codes of dtypes whose products BLAS adds up without warnings: float32 and float64."""
_WHOLE: Final = frozenset("bhilqBHILQ")


def _sum_of_products(a: Array, b: Array) -> Any:
    return a.dot(b) if a.ndim == 1 else np.vdot(a, b)


def _is_bounded(value: Any) -> bool:
    """Return whether an operand surely has no infinite element.

    The test is whether the sum of the squares is finite, which costs less than testing each element. It may be
    infinite or NaN for NaN and large numbers, too.
    """
    kind = type(value)
    if kind is float:
        return math.isfinite(value)
    if kind is int:
        return True
    code = value.dtype.char if kind is np.ndarray else ""
    return code in _WHOLE or (code in _SUMMED and math.isfinite(_sum_of_products(value, value)))


def is_quotient_numpys(a: Any, b: Any) -> bool:
    """Return whether NumPy's quotient rounded down is surely the right one.

    It is not where a float is infinite (`jitfuse.array_api.functions.floor_divide`).
    """
    if type(a) is np.ndarray and type(b) is np.ndarray and a.dtype is b.dtype and a.shape == b.shape:
        code = a.dtype.char  # 0 times infinity is NaN
        return code in _WHOLE or (code in _SUMMED and math.isfinite(_sum_of_products(a, b)))
    return (type(a) is np.ndarray or type(b) is np.ndarray) and _is_bounded(a) and _is_bounded(b)


def floor_divide(a: Any, b: Any, /) -> Any:
    """Return the quotient rounded down, or NotImplemented for operands where NumPy's may be wrong."""
    return np.floor_divide(a, b) if is_quotient_numpys(a, b) else NotImplemented


# ---------------------------------------------------------------- shapes and creation
def _reshape(x: Array, /, shape: Any, *, copy: bool | None = None) -> Any:
    return x.reshape(shape) if copy is None else NotImplemented


def _astype(x: Array, dtype: Any, /, *, copy: bool = True, device: str | None = None) -> Any:
    return x.astype(numpy_dtype(dtype_name(dtype))) if copy and device is None else NotImplemented


def _like(plain: Function) -> Function:
    def like(x: Array, /, dtype: Any = None, *, device: str | None = None) -> Any:
        if device is not None:
            return NotImplemented
        return plain(x.shape, x.dtype if dtype is None else numpy_dtype(dtype_name(dtype)))

    return like


_FILLS: Final = {bool: "bfciu", int: "fciu", float: "fc"}
"""Type of a Python number -> the kinds of dtypes that hold it."""


def _full_like(x: Array, /, fill_value: Any, dtype: Any = None, *, device: str | None = None) -> Any:
    own = x.dtype if dtype is None else numpy_dtype(dtype_name(dtype))
    if device is not None or own.kind not in _FILLS.get(type(fill_value), ""):
        return NotImplemented
    made = np.empty(x.shape, own)
    made.fill(fill_value)
    return made


def _meshgrid(*arrays: Array, indexing: str = "xy") -> Any:
    last = len(arrays) - 1
    places = [1, 0, *range(2, last + 1)] if indexing == "xy" and last else range(last + 1)
    shape = [arrays[place].size for place in places]
    made = []
    for array, place in zip(arrays, places, strict=True):
        if array.ndim > 1:
            return NotImplemented
        grid = np.empty(shape, array.dtype)
        grid[...] = array if place == last else array.reshape((-1,) + (1,) * (last - place))
        made.append(grid)
    return tuple(made) if indexing in ("xy", "ij") else NotImplemented


# ---------------------------------------------------------------- reductions and scans
_multiplied: Final[Function] = np.multiply.reduce
_added_up, _multiplied_up = np.add.accumulate, np.multiply.accumulate


def prod(x: Array, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Return the product of elements along one axis or all axes."""
    return _multiplied(x, axis, keepdims=True) if keepdims else _multiplied(x, axis)


def _argmin(x: Array, axis: Any = None, *, keepdims: bool = False) -> Any:
    return x.argmin(axis, keepdims=keepdims)


def _argmax(x: Array, axis: Any = None, *, keepdims: bool = False) -> Any:
    return x.argmax(axis, keepdims=keepdims)


def _scan(function: Function) -> Function:
    def scan(x: Array, /, *, axis: Any = None) -> Any:
        return NotImplemented if x.ndim != 1 and (axis is None or not x.ndim) else function(x, axis or 0)

    return scan


# ---------------------------------------------------------------- products and decompositions
_NUMBERS: Final = "fciu"
_numpy_vecdot: Any = np.vecdot
_cross_numbers, _library_pinv = undispatched(np.linalg.cross), undispatched(np.linalg.pinv)


def _vecdot(x1: Array, x2: Any, /, *, axis: int = -1) -> Any:
    if type(x2) is not np.ndarray or x1.dtype is not x2.dtype or x1.dtype.kind not in _NUMBERS or type(axis) is not int:
        return NotImplemented
    return _numpy_vecdot(x1, x2, axis=axis) if x1.shape[axis] == x2.shape[axis] else NotImplemented


_NEXT, _AFTER = np.array([[1, 2, 0], [2, 0, 1]]), np.array([[2, 0, 1], [1, 2, 0]])


def _cross(x1: Array, x2: Any, /, *, axis: int = -1) -> Any:
    if type(x2) is not np.ndarray or x1.dtype.kind not in _NUMBERS or x2.dtype.kind not in _NUMBERS:
        return NotImplemented
    if x1.ndim != x2.ndim or x1.shape[axis] != 3 or x2.shape[axis] != 3:
        return _cross_numbers(x1, x2, axis=axis)
    before: tuple[Any, ...] = (slice(None),) * (axis % x1.ndim)
    products = x1.take(_NEXT, axis) * x2.take(_AFTER, axis)  # the axis becomes two, of 2 and 3
    return products[(*before, 0)] - products[(*before, 1)]


def _matmul(x1: Array, x2: Any, /) -> Any:
    numbers = type(x2) is np.ndarray and x1.dtype.kind in _NUMBERS and x2.dtype.kind in _NUMBERS
    return np.matmul(x1, x2) if numbers else NotImplemented


_EPSILONS: Final = {code: np.finfo(code).eps for code in _SUMMED}


def _matrix_rank(x: Array, /, *, rtol: Any = None) -> Any:
    if rtol is not None or x.ndim < 2 or not x.size or x.dtype.char not in _SUMMED:
        return NotImplemented
    values = svdvals(x)
    least = values.max(-1, keepdims=True) * (max(x.shape[-2:]) * _EPSILONS[x.dtype.char])
    return np.add.reduce(values > least, -1, np.intp)


def _pinv(x: Array, /, *, rtol: Any = None) -> Any:
    return _library_pinv(x, rtol=rtol)


_OWN: Final[dict[str, Function]] = {
    "conj": _conj, "round": _round, "floor_divide": floor_divide, "expm1": _but_complex(np.expm1),
    "tanh": _but_complex(np.tanh), "reshape": _reshape, "astype": _astype, "zeros_like": _like(np.zeros),
    "ones_like": _like(np.ones), "empty_like": _like(np.empty), "full_like": _full_like, "meshgrid": _meshgrid,
    "prod": prod, "argmin": _argmin, "argmax": _argmax, "cumulative_sum": _scan(_added_up),
    "cumulative_prod": _scan(_multiplied_up), **ORDER, **TRANSFORMS,
    "vecdot": _vecdot, "matmul": _matmul, "linalg.vecdot": _vecdot, "linalg.matmul": _matmul, "linalg.cross": _cross,
    "linalg.pinv": _pinv, "linalg.matrix_rank": _matrix_rank, **LAPACK,
}

MAKING: Final = frozenset({
    "prod", "argmin", "argmax", "cumulative_sum", "cumulative_prod", "searchsorted", "linalg.cholesky",
    "linalg.svdvals", "linalg.eigvals", "linalg.eigvalsh", "linalg.qr", "unique_counts", "unique_inverse", *TRANSFORMS,
})
"""Functions whose result is a new ndarray: it may be written into, and has no negative stride."""
