"""References of linear algebra steps: NumPy's LAPACK, one array in and one array out.

Decompositions with several results return them in one array: the elements of each part in row-major order, one part
after the other along the last axis, in the dtype that holds all of them. `parts` gives their shapes. So one library
call makes all of them, and an unused part costs only its memory. Does not own the rows.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = Any
Shape = tuple[int, ...]


def parts(name: str, shape: Shape, **attrs: Any) -> list[Shape]:
    """Return the shapes of a decomposition's parts for one matrix (M, N), with K the smaller of both.

    svd (U, S, Vh), qr (Q, R), eigh and eig (eigenvalues, eigenvectors), slogdet (sign, logarithm).
    """
    m, n = shape[-2:]
    k = min(m, n)
    if name == "svd":
        whole = attrs["full_matrices"]
        return [(m, m if whole else k), (k,), (n if whole else k, n)]
    if name == "qr":
        inner = m if attrs["mode"] == "complete" else k
        return [(m, inner), (inner, n)]
    if name == "slogdet":
        return [(), ()]
    return [(n,), (n, n)]


def offsets(shapes: Sequence[Shape]) -> list[int]:
    """Return where each part begins on the last axis, and where the last one ends."""
    ends = [0]
    for shape in shapes:
        ends.append(ends[-1] + math.prod(shape))
    return ends


def _side_by_side(name: str, x: Array, made: Sequence[Array], **attrs: Any) -> Array:
    shapes = parts(name, x.shape, **attrs)
    lead = x.shape[:-2]
    flat = [np.reshape(a, (*lead, math.prod(s))) for a, s in zip(made, shapes, strict=True)]
    return np.concatenate(flat, axis=-1)


def cholesky(x: Array, *, upper: bool) -> Array:
    """Return the triangular factor."""
    return np.linalg.cholesky(x, upper=upper)


def det(x: Array) -> Array:
    """Return the determinant."""
    return np.linalg.det(x)


def inv(x: Array) -> Array:
    """Return the inverse."""
    return np.linalg.inv(x)


def solve(a: Array, b: Array) -> Array:
    """Return x with a @ x = b."""
    return np.linalg.solve(a, b)


def pinv(x: Array, rtol: Array) -> Array:
    """Return the pseudo-inverse; singular values up to rtol times the largest count as zero."""
    return np.linalg.pinv(x, rtol)


def svd(x: Array, *, full_matrices: bool) -> Array:
    """Return U, S and Vh in one array."""
    return _side_by_side("svd", x, np.linalg.svd(x, full_matrices=full_matrices), full_matrices=full_matrices)


def svdvals(x: Array) -> Array:
    """Return the singular values in descending order."""
    return np.linalg.svd(x, compute_uv=False)


def qr(x: Array, *, mode: Any) -> Array:
    """Return Q and R in one array."""
    return _side_by_side("qr", x, np.linalg.qr(x, mode=mode), mode=mode)


def slogdet(x: Array) -> Array:
    """Return the sign and the logarithm of the determinant in one array."""
    return _side_by_side("slogdet", x, np.linalg.slogdet(x))


def eigh(x: Array, *, lower: bool) -> Array:
    """Return the eigenvalues and eigenvectors of a Hermitian matrix in one array."""
    return _side_by_side("eigh", x, np.linalg.eigh(x, "L" if lower else "U"))


def eigvalsh(x: Array, *, lower: bool) -> Array:
    """Return the eigenvalues of a Hermitian matrix in ascending order."""
    return np.linalg.eigvalsh(x, "L" if lower else "U")


def _complex(values: Array, x: Array) -> Array:
    return values.astype("complex64" if x.dtype in ("float32", "complex64") else "complex128", copy=False)


def eig(x: Array) -> Array:
    """Return the eigenvalues and eigenvectors in one array, always complex."""
    return _side_by_side("eig", x, [_complex(part, x) for part in np.linalg.eig(x)])


def eigvals(x: Array) -> Array:
    """Return the eigenvalues, always complex."""
    return _complex(np.linalg.eigvals(x), x)
