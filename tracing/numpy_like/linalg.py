"""np.linalg over traced arrays: LAPACK's functions as library steps, norms and powers in terms of operators.

Owns their entries in the table of `jitfuse.tracing.tensor.function_table`, each with NumPy's name and parameters, and
the views of a decomposition's parts, which share one array. Imported when one of them is first used.
Products are in `jitfuse.tracing.numpy_like.products`, np.linalg.norm in `jitfuse.tracing.numpy_like.norms`.
"""
from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from jitfuse import dtypes
from jitfuse.base.later import Later
from jitfuse.errors import ArgumentError, ShapeError, UnsupportedError
from jitfuse.ir.rules import shape_rules
from jitfuse.ir.semantics import linear_algebra
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numpy_like import arrangements
from jitfuse.tracing.numpy_like.reduce import given
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.record.try_blocks import reject_in_try
from jitfuse.tracing.tensor.function_table import NO_VALUE, Tensor, implements, lifted, reject_options, strong

library_calls = Later("jitfuse.tracing.numpy_like.library_calls")

_ONE: Final = np.eye(1)
SVDResult: Final[Any] = type(np.linalg.svd(_ONE))
QRResult: Final[Any] = type(np.linalg.qr(_ONE))
EighResult: Final[Any] = type(np.linalg.eigh(_ONE))
EigResult: Final[Any] = type(np.linalg.eig(_ONE))
SlogdetResult: Final[Any] = type(np.linalg.slogdet(_ONE))
"""NumPy's own named tuples."""


def _one(a: Any) -> Tensor:
    return strong(lifted(a)[0])


def _fallible(name: str, a: Any) -> Tensor:
    """Return the operand of a function that may raise at run time; raises UntraceableError inside `try`."""
    reject_in_try(f"np.linalg.{name}")
    return _one(a)


def _parts(name: str, a: Any, **attrs: Any) -> list[Tensor]:
    """Return the parts of a decomposition: views of the one array that LAPACK's step makes."""
    x = _fallible(name, a)
    whole = x.call(name, **attrs)
    shapes = linear_algebra.parts(name, x.shape, **attrs)
    at = linear_algebra.offsets(shapes)
    lead = x.shape[:-2]
    return [whole[..., at[k] : at[k + 1]].reshape((*lead, *shape)) for k, shape in enumerate(shapes)]


# ---------------------------------------------------------------- LAPACK's
@implements("linalg.cholesky")
def cholesky(a: Any, /, *, upper: bool = False) -> Tensor:
    """Return the lower or upper triangular factor of a positive definite matrix."""
    return _fallible("cholesky", a).call("cholesky", upper=bool(upper))


@implements("linalg.det")
def det(a: Any) -> Tensor:
    """Return the determinant."""
    return _one(a).call("det")


@implements("linalg.inv")
def inv(a: Any) -> Tensor:
    """Return the inverse."""
    return _fallible("inv", a).call("inv")


@implements("linalg.solve")
def solve(a: Any, b: Any) -> Tensor:
    """Return x with a @ x = b; a vector b is solved for every matrix."""
    x, y = (strong(t) for t in lifted(_fallible("solve", a), b))
    return x.call("solve", y)


@implements("linalg.svd")
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Return U, S and Vh with a = (U * S) @ Vh, or S alone."""
    reject_options("linalg.svd", {"hermitian": hermitian or None}, "Use np.linalg.eigh.")
    if not compute_uv:
        return svdvals(a)
    u, s, vh = _parts("svd", a, full_matrices=bool(full_matrices))
    return SVDResult(u, s.call("real"), vh)


@implements("linalg.svdvals")
def svdvals(x: Any, /) -> Tensor:
    """Return the singular values in descending order."""
    return _one(x).call("svdvals")


@implements("linalg.qr")
def qr(a: Any, mode: str = "reduced") -> Any:
    """Return Q and R with a = Q @ R, or R alone."""
    if mode == "r":
        return _parts("qr", a, mode="reduced")[1]
    if mode not in ("reduced", "complete"):
        raise UnsupportedError(f"np.linalg.qr(mode={mode!r}) is not available, at {user_line()}. Use 'reduced'.")
    return QRResult(*_parts("qr", a, mode=mode))


@implements("linalg.slogdet")
def slogdet(a: Any) -> Any:
    """Return the sign of the determinant and the logarithm of its magnitude."""
    sign, logarithm = (part.as_copy(scalar=not part.shape) for part in _parts("slogdet", a))
    return SlogdetResult(sign, logarithm.call("real"))


def _lower(name: str, uplo: str) -> bool:
    if uplo.upper() not in ("L", "U"):
        raise ArgumentError(f"np.linalg.{name}: UPLO is 'L' or 'U', not {uplo!r}, at {user_line()}")
    return uplo.upper() == "L"


@implements("linalg.eigh")
def eigh(a: Any, UPLO: str = "L") -> Any:
    """Return the eigenvalues in ascending order and the eigenvectors of a Hermitian matrix."""
    values, vectors = _parts("eigh", a, lower=_lower("eigh", UPLO))
    return EighResult(values.call("real"), vectors)


@implements("linalg.eigvalsh")
def eigvalsh(a: Any, UPLO: str = "L") -> Tensor:
    """Return the eigenvalues of a Hermitian matrix in ascending order."""
    return _one(a).call("eigvalsh", lower=_lower("eigvalsh", UPLO))


@implements("linalg.eig")
def eig(a: Any) -> Any:
    """Return eigenvalues and eigenvectors; whether those of a real matrix are complex depends on its elements."""
    return complex_eig(a) if _is_complex(a) else library_calls.call(np.linalg.eig, "np.linalg.eig", (a,), {})


@implements("linalg.eigvals")
def eigvals(a: Any) -> Any:
    """Return eigenvalues, as `eig` does."""
    return complex_eigvals(a) if _is_complex(a) else (
        library_calls.call(np.linalg.eigvals, "np.linalg.eigvals", (a,), {}))


def _is_complex(a: Any) -> bool:
    return bool(dtypes.kind(_one(a).dtype) == "complex")


def complex_eig(a: Any) -> Any:
    """Return the eigenvalues and eigenvectors, always complex."""
    return EigResult(*_parts("eig", a))


def complex_eigvals(a: Any) -> Tensor:
    """Return the eigenvalues, always complex."""
    return _one(a).call("eigvals")


@implements("linalg.pinv")
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = NO_VALUE) -> Tensor:
    """Return the pseudo-inverse; singular values up to rcond (or rtol) times the largest count as zero."""
    reject_options("linalg.pinv", {"hermitian": hermitian or None}, "Use np.linalg.eigh.")
    x = _one(a)
    chosen = rtol if rcond is None else rcond
    if chosen is NO_VALUE:
        chosen = 1e-15
    elif chosen is None:
        chosen = tolerance(x)
    return x.call("pinv", strong(lifted(chosen, x)[0]))


def tolerance(x: Tensor) -> float:
    """Return the relative bound below which singular values are rounding errors of the dtype."""
    if x.ndim < 2:
        raise ShapeError(f"a matrix has two axes, not the shape {x.shape}, at {user_line()}")
    dtype = dtypes.component(str(x.dtype))
    exact = dtypes.kind(dtype) != "float"
    size: int = max(x.shape[-2:])
    return size * float(np.finfo("float64" if exact else dtype).eps)


@implements("linalg.matrix_rank")
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Tensor:
    """Return the number of singular values above tol, or above rtol times the largest."""
    reject_options("linalg.matrix_rank", {"hermitian": hermitian or None}, "Use np.linalg.eigvalsh.")
    x = _one(A)
    values = svdvals(x)
    if given(tol):
        bound = strong(lifted(tol, x)[0])
        return values.call("greater", bound.reshape((*bound.shape, 1))).call("count_nonzero", axis=-1)
    relative = strong(lifted(rtol if given(rtol) else tolerance(x), x)[0])
    if not values.shape[-1]:
        return values.call("count_nonzero", axis=-1)
    largest = values.call("max", axis=-1, keepdims=True)
    return values.call("greater", largest * relative.reshape((*relative.shape, 1))).call("count_nonzero", axis=-1)


# ---------------------------------------------------------------- norms
def floating(name: str, a: Any) -> Tensor:
    """Return an array of floats or complex numbers; other dtypes become float64."""
    x = _one(a)
    kind = dtypes.kind(str(x.dtype))
    return x if kind in ("float", "complex") else x.call("astype", dtype="float64")


@implements("linalg.vector_norm")
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """Return the norm of order `ord` of all elements, or of those along axes."""
    a = floating("vector_norm", x)
    axes = tuple(axis) if isinstance(axis, list | tuple) else axis
    size = a.call("abs")
    if ord == math.inf or ord == -math.inf:
        return _extreme("max" if ord > 0 else "min", size, axes, keepdims)
    if ord == 0:
        return size.call("count_nonzero", axis=axes, keepdims=keepdims).call("astype", dtype=size.dtype)
    if ord == 2:
        return size.call("square").call("sum", axis=axes, keepdims=keepdims).call("sqrt")
    total = (size if ord == 1 else size ** ord).call("sum", axis=axes, keepdims=keepdims)
    return total if ord == 1 else total ** (1 / ord)


def _extreme(name: str, size: Tensor, axes: Any, keepdims: bool) -> Tensor:
    """Return the largest or smallest magnitude; the norm of no elements is 0."""
    over = shape_rules.normalize_axes("norm", axes, size.ndim)
    if not math.prod(size.shape[k] for k in over):
        return size.call("sum", axis=axes, keepdims=keepdims)
    return size.call(name, axis=axes, keepdims=keepdims)


@implements("linalg.matrix_norm")
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """Return the norm of matrices in the last two axes: fro, nuc, 1, -1, 2, -2, inf or -inf."""
    a = floating("matrix_norm", x)
    if a.ndim < 2:
        raise ShapeError(f"np.linalg.matrix_norm: {a.shape} is no matrix, at {user_line()}")
    if ord in ("fro", None):
        return a.call("abs").call("square").call("sum", axis=(-2, -1), keepdims=keepdims).call("sqrt")
    if ord in (1, -1, math.inf, -math.inf):
        along, then = (-2, -1) if abs(ord) == 1 else (-1, -2)
        sums = a.call("abs").call("sum", axis=along, keepdims=True)
        result = _extreme("max" if ord > 0 else "min", sums, then, True)
    elif ord in (2, -2, "nuc"):
        values = svdvals(a)
        if ord == "nuc":
            result = values.call("sum", axis=-1, keepdims=True)
        else:
            result = _extreme("max" if ord > 0 else "min", values, -1, True)
        result = result.reshape((*result.shape, 1))
    else:
        raise ArgumentError(f"np.linalg.matrix_norm: there is no norm of order {ord!r}, at {user_line()}")
    if keepdims:
        return result
    return result.reshape(result.shape[:-2]) if result.ndim > 2 else result[0, 0]


# ---------------------------------------------------------------- products and parts
@implements("linalg.matrix_power")
def matrix_power(a: Any, n: int) -> Tensor:
    """Return the n-th power of square matrices; of their inverses for negative n."""
    x, power = _one(a), int(n.__index__())
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"np.linalg.matrix_power takes square matrices, not {x.shape}, at {user_line()}")
    if power < 0:
        x, power = inv(x), -power
    if power == 0:
        rows = x.create("arange", count=x.shape[-1], dtype="int64")
        one = rows.reshape((-1, 1) if x.size else (x.shape[-1], 1)).call("equal", rows).call("astype", dtype=x.dtype)
        return one.call("broadcast_to", shape=x.shape).as_copy()
    result: Tensor = None
    while power:
        if power & 1:
            result = x if result is None else result.call("matmul", x)
        power >>= 1
        if power:
            x = x.call("matmul", x)
    return result if int(n) > 1 or int(n) < 0 else result.as_copy()


@implements("linalg.diagonal")
def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """Return the diagonals of matrices in the last two axes."""
    return arrangements.diagonal(_one(x), offset, -2, -1)


@implements("linalg.trace")
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """Return the sums along the diagonals of matrices in the last two axes."""
    return arrangements.trace(_one(x), offset, -2, -1, dtype)


@implements("linalg.matrix_transpose")
def matrix_transpose(x: Any, /) -> Tensor:
    """Exchange the last two axes."""
    if isinstance(x, AbstractTensor) and x.ndim < 2:
        raise ShapeError(f"matrix_transpose: {x.shape} is no matrix, at {user_line()}")
    return _one(x).swapaxes(-1, -2)
