"""The table of namespace functions over ndarrays: NumPy's function of the name, or what differs from it.

What a row does not decide it leaves to the namespace function itself: it returns NotImplemented or raises. Does not own
the conversion between eager arrays and ndarrays (`jitfuse.arrays.base.direct`).
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.base.later import Later
from jitfuse.dtypes import numpy_dtype
from jitfuse.ir.operators import ops
from jitfuse.tracing.numpy_like.data_dependent import UniqueAll, UniqueCounts, UniqueInverse
from jitfuse.tracing.record.dtype_name import dtype_name

linalg = Later("jitfuse.tracing.numpy_like.linalg")

Function = Callable[..., Any]
Array = np.ndarray[Any, Any]

OPERATORS: Final = {"pow": "power"}
"""Function name -> operator name, where they differ."""
_BODIES: Final = frozenset({
    "clip", "tile", "diff", "where", "unstack", "repeat", "sort", "argsort", "searchsorted", "take", "take_along_axis",
    "linalg.svd", "linalg.qr", "linalg.eigh", "linalg.eigvalsh", "linalg.pinv",
})
"""Functions whose bodies call NumPy's functions only."""


def over_arrays(name: str, function: Any) -> Function | None:
    """Return the implementation of a namespace function, or of an operator (without a function), over ndarrays."""
    if name in _OWN:
        return _OWN[name]
    if name in _BODIES:
        return getattr(function, "__wrapped__", function)  # type: ignore[no-any-return]
    if hasattr(function, "_implementation"):  # NumPy's own, behind its dispatch
        return function._implementation  # type: ignore[no-any-return]
    op = ops.get(OPERATORS.get(name, name))
    plain = op is not None and op.kind == ops.ELEMENTWISE and not op.attrs and op.arity <= 2
    return op.numpy if op is not None and plain and name != "python_number" else None


def _unless(kinds: str, function: Function) -> Function:
    """Return a function of arrays that leaves some kinds of dtypes to the namespace function."""
    def decided(*arrays: Any, **options: Any) -> Any:
        for array in arrays:
            if type(array) is not np.ndarray or array.dtype.kind in kinds:
                return NotImplemented
        return function(*arrays, **options)

    return decided


# ---------------------------------------------------------------- elements
def _is_finite(value: Any) -> bool:
    """Return whether an operand surely has finite elements only; False for NaN and large numbers too.

    A sum of squares costs less than a test of each element.
    """
    kind = type(value)
    if kind is np.ndarray:
        return value.dtype.kind in "iub" or (value.dtype.char in "fd" and math.isfinite(np.vdot(value, value)))
    return kind is int or (kind is float and math.isfinite(value))


def _floor_divide(a: Any, b: Any, /) -> Any:
    return np.floor_divide(a, b) if _is_finite(a) and _is_finite(b) else NotImplemented


# ---------------------------------------------------------------- shapes and creation
def _reshape(x: Array, /, shape: Any, *, copy: bool | None = None) -> Any:
    return x.reshape(shape) if copy is None else NotImplemented


def _astype(x: Array, dtype: Any, /, *, copy: bool = True) -> Any:
    return x.astype(numpy_dtype(dtype_name(dtype))) if copy else NotImplemented


def _like(plain: Function) -> Function:
    return lambda x, /, dtype=None: plain(x.shape, x.dtype if dtype is None else numpy_dtype(dtype_name(dtype)))


_FILLS: Final = {bool: "bfciu", int: "fciu", float: "fc"}
"""Type of a Python number -> the kinds of dtypes that hold it."""


def _full_like(x: Array, /, fill_value: Any, dtype: Any = None) -> Any:
    made = _like(np.empty)(x, dtype)
    if made.dtype.kind not in _FILLS.get(type(fill_value), ""):
        return NotImplemented
    made.fill(fill_value)
    return made


# ---------------------------------------------------------------- products, decompositions, transforms
_products: Final[Any] = np.vecdot  # its types lack `axis`


def _vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Any:
    plain = x1.dtype is x2.dtype and type(axis) is int and x1.shape[axis] == x2.shape[axis]
    return _products(x1, x2, axis=axis) if plain else NotImplemented


_COMPLEX: Final = {"f": np.dtype("complex64"), "F": np.dtype("complex64")}
_COMPLEX128: Final = np.dtype("complex128")


def _complex(values: Array, x: Array) -> Array:
    return values.astype(_COMPLEX.get(x.dtype.char, _COMPLEX128), copy=False)


def _eig(x: Array, /) -> Any:
    values, vectors = np.linalg.eig(x)
    return linalg.EigResult(_complex(values, x), _complex(vectors, x))


def _matrix_rank(x: Array, /, *, rtol: Any = None) -> Any:
    return np.linalg.matrix_rank(x, rtol=rtol) if x.ndim > 1 else NotImplemented


def _transform(name: str) -> Function:
    function = getattr(np.fft, name)

    def transform(x: Array, /, **options: Any) -> Any:
        # NumPy transforms float16 in another dtype, and makes nothing of no elements
        return NotImplemented if x.dtype.char == "e" or not x.size or not x.ndim else function(x, **options)

    return transform


def _isin(x1: Array, x2: Array, /, *, invert: bool = False) -> Any:
    return np.isin(x1, x2, invert=invert)[()] if x1.dtype == x2.dtype and x2.size else NotImplemented


_TRANSFORMS: Final = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "ifftn", "rfftn", "irfftn", "fftshift",
                      "ifftshift")
_OWN: Final[dict[str, Function]] = {
    "conj": _unless("biuf", np.conjugate), "expm1": _unless("c", np.expm1), "tanh": _unless("c", np.tanh),
    "round": lambda x, /, decimals=0: NotImplemented if x.dtype.kind == "b" else x.round(decimals),
    "floor_divide": _floor_divide, "reshape": _reshape, "astype": _astype, "zeros_like": _like(np.zeros),
    "ones_like": _like(np.ones), "empty_like": _like(np.empty), "full_like": _full_like,
    "nonzero": lambda x, /: x.nonzero() if x.ndim else NotImplemented, "isin": _unless("", _isin),
    "unique_all": lambda x, /: UniqueAll(*np.unique_all(x)),
    "unique_counts": lambda x, /: UniqueCounts(*np.unique_counts(x)),
    "unique_inverse": lambda x, /: UniqueInverse(*np.unique_inverse(x)), "unique_values": np.unique_values,
    **dict.fromkeys(("matmul", "linalg.matmul"), _unless("b", np.matmul)),
    **dict.fromkeys(("vecdot", "linalg.vecdot"), _unless("b", _vecdot)),
    "linalg.cross": _unless("b", np.linalg.cross), "linalg.matrix_rank": _matrix_rank, "linalg.eig": _eig,
    "linalg.eigvals": lambda x, /: _complex(np.linalg.eigvals(x), x),
    **{f"fft.{name}": _transform(name) for name in _TRANSFORMS},
}
