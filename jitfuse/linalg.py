"""Linear algebra of the Python array API standard: `jf.linalg.solve(a, b)`.

Inside a fused function the decompositions are library steps, LAPACK's, and the rest fuses around them. Owns the
standard's names and parameters; what they do is in `jitfuse.tracing.numpy_linalg`.
"""
from __future__ import annotations

from typing import Any

from jitfuse.errors import DTypeError
from jitfuse.standard import functions
from jitfuse.standard.dispatch import over_tensors
from jitfuse.tracing import numpy_linalg, numpy_products
from jitfuse.tracing.numpy_linalg import (
    EighResult,
    EigResult,
    QRResult,
    SlogdetResult,
    SVDResult,
)

Tensor = Any

__all__ = [
    "EigResult", "EighResult", "QRResult", "SVDResult", "SlogdetResult", "cholesky", "cross", "det", "diagonal", "eig",
    "eigh", "eigvals", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose",
    "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]

det = over_tensors(numpy_linalg.det)
inv = over_tensors(numpy_linalg.inv)
slogdet = over_tensors(numpy_linalg.slogdet)
eig = over_tensors(numpy_linalg.eig)
eigvals = over_tensors(numpy_linalg.eigvals)
svdvals = over_tensors(numpy_linalg.svdvals)
solve = over_tensors(numpy_linalg.solve)
cholesky = over_tensors(numpy_linalg.cholesky)
diagonal = over_tensors(numpy_linalg.diagonal)
trace = over_tensors(numpy_linalg.trace)
matrix_norm = over_tensors(numpy_linalg.matrix_norm)
vector_norm = over_tensors(numpy_linalg.vector_norm)
matrix_power = over_tensors(numpy_linalg.matrix_power)
matrix_transpose = over_tensors(numpy_linalg.matrix_transpose)
outer = over_tensors(numpy_products.linalg_outer)
tensordot = over_tensors(numpy_products.tensordot)
matmul = functions.matmul
vecdot = functions.vecdot


@over_tensors
def eigh(x: Tensor, /) -> EighResult:
    """Return the eigenvalues in ascending order and the eigenvectors of a Hermitian matrix."""
    result: EighResult = numpy_linalg.eigh(x)
    return result


@over_tensors
def eigvalsh(x: Tensor, /) -> Tensor:
    """Return the eigenvalues of a Hermitian matrix in ascending order."""
    return numpy_linalg.eigvalsh(x)


@over_tensors
def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """Return U, S and Vh with x = (U * S) @ Vh."""
    result: SVDResult = numpy_linalg.svd(x, full_matrices)
    return result


@over_tensors
def qr(x: Tensor, /, *, mode: str = "reduced") -> QRResult:
    """Return Q and R with x = Q @ R; `mode` is "reduced" or "complete"."""
    result: QRResult = numpy_linalg.qr(x, mode)
    return result


@over_tensors
def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Return the pseudo-inverse; singular values up to rtol times the largest count as zero."""
    return numpy_linalg.pinv(x, rtol=rtol)


@over_tensors
def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Return how many singular values are above rtol times the largest."""
    return numpy_linalg.matrix_rank(x, rtol=rtol)


@over_tensors
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """Return the cross products of vectors of three elements along an axis."""
    if any(str(t.dtype) == "bool" for t in (x1, x2) if hasattr(t, "dtype")):
        raise DTypeError("cross takes numbers, not bool; cast first with astype")
    return numpy_linalg.cross(x1, x2, axis=axis)
