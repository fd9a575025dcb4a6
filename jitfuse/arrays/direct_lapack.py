"""Decompositions over ndarrays: calls of the LAPACK ufuncs inside NumPy's functions, with the same results.

NumPy's wrappers take as long as LAPACK for a small matrix. Rare cases (other dtypes, empty matrices, other modes) are
left to them. The ufuncs are private to NumPy: where a version lacks one of these names, NumPy's functions are used
throughout. Where LAPACK fails, a ufunc raises FloatingPointError, and NumPy's function is called for its own error.
"""
from __future__ import annotations

import contextvars
import functools
import importlib
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.arrays.direct_order import undispatched
from jitfuse.base.later import Later

linalg = Later("jitfuse.tracing.numpy_like.linalg")

Function = Callable[..., Any]
Array = np.ndarray[Any, Any]
_FLOAT32, _FLOAT64 = np.dtype("float32"), np.dtype("float64")
_COMPLEX: Final = {"f": np.dtype("complex64"), "d": np.dtype("complex128"), "F": np.dtype("complex64"),
                   "D": np.dtype("complex128")}
_NAMES: Final = ("svd_f", "svd_s", "svd", "eig", "eigvals", "eigh_lo", "eigvalsh_lo", "cholesky_lo", "qr_r_raw",
                 "qr_reduced")
_LARGE: Final = 1 << 14
"""Matrices with more elements are left to NumPy: the mask of a triangle is not cached, and the wrappers cost little."""


def _module(name: str, needed: tuple[str, ...]) -> Any:
    try:
        found = importlib.import_module(name)
    except ImportError:
        return None
    return found if all(hasattr(found, n) for n in needed) else None


_results: Final[Any] = _module("numpy.linalg._linalg", ("SVDResult", "EighResult", "QRResult"))
_lapack: Final[Any] = _module("numpy.linalg._umath_linalg", _NAMES) if _results is not None else None
_failing = contextvars.copy_context()
"""A context in which LAPACK's failures raise. If two threads enter it at once, one takes the slow path."""
_failing.run(np.seterr, divide="ignore", over="ignore", under="ignore", invalid="raise")


def _is_plain(x: Array) -> bool:
    """Return whether this is a small float64 or float32 matrix, which NumPy's functions solve in float64."""
    dtype = x.dtype
    return (dtype is _FLOAT64 or dtype is _FLOAT32) and x.ndim > 1 and 0 < x.size <= _LARGE and _lapack is not None


def _solved(name: str, x: Array) -> Any:
    """Return LAPACK's results for float64 numbers; the caller casts them to the dtype of `x`."""
    return _failing.run(getattr(_lapack, name), x if x.dtype is _FLOAT64 else x.astype(_FLOAT64))


def _cast(parts: Any, x: Array) -> Any:
    return parts if x.dtype is _FLOAT64 else [part.astype(_FLOAT32) for part in parts]


def _one(name: str, function: Function) -> Function:
    """Return a function with one result in the matrix's own dtype, by the ufunc of that name."""
    library = undispatched(function)

    def one(x: Array, /, **options: Any) -> Any:
        if options or not _is_plain(x):
            return library(x, **options)
        found = _solved(name, x)
        return found if x.dtype is _FLOAT64 else found.astype(_FLOAT32)

    return one


# ---------------------------------------------------------------- singular values
_library_svd, _library_qr = undispatched(np.linalg.svd), undispatched(np.linalg.qr)
_library_eigh, _library_eig = undispatched(np.linalg.eigh), undispatched(np.linalg.eig)
_library_eigvals = undispatched(np.linalg.eigvals)


def _svd(x: Array, /, *, full_matrices: bool = True) -> Any:
    if not _is_plain(x):
        return _library_svd(x, full_matrices=full_matrices)
    return _results.SVDResult(*_cast(_solved("svd_f" if full_matrices else "svd_s", x), x))


def svdvals(x: Array, /) -> Any:
    """Return the singular values in descending order."""
    if not _is_plain(x):
        return _library_svd(x, compute_uv=False)
    found = _solved("svd", x)
    return found if x.dtype is _FLOAT64 else found.astype(_FLOAT32)


# ---------------------------------------------------------------- eigenvalues
def _eigh(x: Array, /) -> Any:
    return _results.EighResult(*_cast(_solved("eigh_lo", x), x)) if _is_plain(x) else _library_eigh(x)


def _is_solvable(x: Array) -> bool:
    """Return whether surely no element is infinite or NaN: for those LAPACK does not terminate, and NumPy raises."""
    return _is_plain(x) and math.isfinite(np.vdot(x, x))


def _eig(x: Array, /) -> Any:
    dtype = _COMPLEX.get(x.dtype.char, _COMPLEX["d"])
    found = _solved("eig", x) if _is_solvable(x) else _library_eig(x)
    return linalg.EigResult(*(part.astype(dtype, copy=False) for part in found))


def _eigvals(x: Array, /) -> Any:
    found = _solved("eigvals", x) if _is_solvable(x) else _library_eigvals(x)
    return found.astype(_COMPLEX.get(x.dtype.char, _COMPLEX["d"]), copy=False)


# ---------------------------------------------------------------- factors
_ZERO: Final = np.array(0.0)


@functools.lru_cache(128)
def _below(rows: int, columns: int) -> Array:
    """Return the indices of the elements below the diagonal of a matrix, row by row."""
    return np.flatnonzero(np.tri(rows, columns, -1, bool))


def _factored(x: Array) -> tuple[Array, Array]:
    """Return the orthogonal factor, and an array with the other factor on and above its diagonal."""
    factors = x.astype(_FLOAT64)
    return _lapack.qr_reduced(factors, _lapack.qr_r_raw(factors)), factors


def _qr(x: Array, /, *, mode: str = "reduced") -> Any:
    if mode != "reduced" or not _is_plain(x):
        return _library_qr(x, mode=mode)
    q, r = _failing.run(_factored, x)
    if x.ndim == 2:
        rows, columns = x.shape
        if rows > columns:
            r = r[:columns]
        r.put(_below(min(rows, columns), columns), _ZERO)
    else:
        r = r[..., : x.shape[-1], :]
        r[..., np.tri(r.shape[-2], r.shape[-1], -1, bool)] = 0
    return tuple.__new__(_results.QRResult, (q, r) if x.dtype is _FLOAT64 else _cast((q, r), x))


LAPACK: Final[dict[str, Function]] = {
    "linalg.svd": _svd, "linalg.svdvals": svdvals, "linalg.eigh": _eigh, "linalg.eig": _eig, "linalg.eigvals": _eigvals,
    "linalg.eigvalsh": _one("eigvalsh_lo", np.linalg.eigvalsh), "linalg.cholesky": _one("cholesky_lo",
    np.linalg.cholesky), "linalg.qr": _qr,
}
"""Implementations by name in the namespace."""
