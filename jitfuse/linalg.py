"""Linear algebra of the Python array API standard: `jf.linalg.solve(a, b)`.

Inside a fused function the decompositions are library steps, LAPACK's, and the rest fuses around them. Owns the
standard's names and parameters; the implementation is NumPy's for eager arrays, and in
`jitfuse.tracing.numpy_like.linalg` for traced ones.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from jitfuse.array_api import functions
from jitfuse.array_api.dispatch import over_tensors
from jitfuse.array_api.entry_points import entry_point
from jitfuse.errors import DTypeError
from jitfuse.tracing.numpy_like import linalg

Tensor = Any

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals",
    "tensordot", "trace", "vecdot", "vector_norm",
]


def __dir__() -> list[str]:
    return __all__


_library: Any = np.linalg  # its functions take traced and eager arrays, unlike its types
det, inv, slogdet, solve, cholesky = (getattr(_library, n) for n in ("det", "inv", "slogdet", "solve", "cholesky"))
svdvals, matrix_power, outer = _library.svdvals, _library.matrix_power, _library.outer
diagonal, trace, matrix_transpose = _library.diagonal, _library.trace, _library.matrix_transpose
matrix_norm, vector_norm, tensordot = _library.matrix_norm, _library.vector_norm, _library.tensordot
eig, eigvals = over_tensors(linalg.complex_eig), over_tensors(linalg.complex_eigvals)
matmul, vecdot = functions.matmul, functions.vecdot


def eigh(x: Tensor, /) -> Any:
    """Return the eigenvalues in ascending order and the eigenvectors of a Hermitian matrix."""
    return _library.eigh(x)


def eigvalsh(x: Tensor, /) -> Tensor:
    """Return the eigenvalues of a Hermitian matrix in ascending order."""
    return _library.eigvalsh(x)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    """Return U, S and Vh with x = (U * S) @ Vh."""
    return _library.svd(x, full_matrices=full_matrices)


def qr(x: Tensor, /, *, mode: str = "reduced") -> Any:
    """Return Q and R with x = Q @ R; `mode` is "reduced" or "complete"."""
    return _library.qr(x, mode=mode)


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Return the pseudo-inverse; singular values up to rtol times the largest count as zero."""
    return _library.pinv(x, rtol=rtol)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Return how many singular values are above rtol times the largest."""
    return _library.matrix_rank(x, rtol=rtol)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """Return the cross products of vectors of three elements along an axis."""
    if any(str(t.dtype) == "bool" for t in (x1, x2) if hasattr(t, "dtype")):
        raise DTypeError("cross takes numbers, not bool; cast first with astype")
    return _library.cross(x1, x2, axis=axis)


globals().update({name: entry_point(f"linalg.{name}", globals()[name]) for name in __all__})
