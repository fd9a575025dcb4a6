"""More of torch.linalg, and statistics of rows, over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from jitfuse.dtypes import kind
from jitfuse.errors import ShapeError, UnsupportedError
from jitfuse.tracing.numpy_like import linalg, products
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.torch_like.elementwise import delivered
from jitfuse.tracing.torch_like.products import product, same_dtype, scaled_sum
from jitfuse.tracing.torch_like.promotion import cast, numbers, operand, strong
from jitfuse.tracing.torch_like.reductions import axes, norm
from jitfuse.tracing.torch_like.table import implements, in_float32, of_floats
from jitfuse.tracing.torch_like.tensor import wrap


# ---------------------------------------------------------------- products
@implements("vdot")
def vdot(input: Any, other: Any) -> Any:
    """Return the sum of products, the first operand conjugated."""
    x, y = same_dtype("vdot", input, other)
    if x.ndim != 1 or x.shape != y.shape:
        raise ShapeError(f"vdot: 1D tensors of one size are expected, got {x.shape} and {y.shape}, at {user_line()}")
    return wrap(cast(products.vdot(x, y), str(x.dtype)))


@of_floats("linalg.vecdot")
def vecdot(x: Any, y: Any, *, dim: Any = -1) -> Any:
    """Return the sum of products along an axis, the first operand conjugated."""
    a, b = same_dtype("vecdot", x, y)
    return wrap(cast(products.vecdot(a, b, axis=int(numbers(dim))), str(a.dtype)))


@implements("linalg.multi_dot", "chain_matmul")
def multi_dot(*tensors: Any) -> Any:
    """Return the product of matrices."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    found = same_dtype("multi_dot", *given)
    return wrap(cast(products.multi_dot(found), str(found[0].dtype)))


@implements("addbmm")
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return a matrix plus the sum of products of matrices."""
    made = product("addbmm", batch1, batch2)
    return scaled_sum(input, wrap(cast(made.call("sum", axis=0), str(made.dtype))), beta, alpha)


@implements("addr")
def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return a matrix plus the products of all pairs of elements."""
    x, y = operand(vec1), operand(vec2)
    return scaled_sum(input, wrap(x.reshape((-1, 1)) * y), beta, alpha)


@implements("dist")
@in_float32
def dist(input: Any, other: Any, p: Any = 2) -> Any:
    """Return the norm of a difference."""
    return norm(wrap(strong(input) - strong(other)), p)


# ---------------------------------------------------------------- decompositions
def _of_matrices(name: str, *names: str) -> Callable[..., Any]:
    @implements(*names)
    def function(A: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("out", None)
        return wrap(getattr(linalg, name)(operand(A), *map(numbers, args), **kwargs))

    function.__name__ = name
    return function


_of_matrices("matrix_power", "matrix_power", "linalg.matrix_power")
_of_matrices("complex_eigvals", "linalg.eigvals")


@implements("linalg.eig")
def eig(A: Any) -> Any:
    """Return complex eigenvalues and eigenvectors."""
    return torch.return_types.linalg_eig(tuple(wrap(tuple(linalg.complex_eig(operand(A))))))


@implements("linalg.inv_ex")
def inv_ex(A: Any, *, check_errors: bool = False) -> Any:
    """Return the inverse, and 0 as the status; a singular matrix raises."""
    x = operand(A)
    info = x.create("zeros", shape=x.shape[:-2], dtype="int32")
    return torch.return_types.linalg_inv_ex((wrap(linalg.inv(x)), wrap(info)))


@implements("cholesky")
def cholesky(input: Any, upper: bool = False) -> Any:
    """Return the Cholesky factor."""
    return wrap(linalg.cholesky(operand(input), upper=bool(upper)))


@implements("logdet")
def logdet(input: Any) -> Any:
    """Return the logarithm of the determinant; NaN for negative ones."""
    x = operand(input)
    sign, size = linalg.slogdet(x)
    missing = x.create("full", shape=(), value=math.nan, dtype=str(x.dtype))
    return wrap(sign.call("less", 0).call("where", missing, size))


@implements("slogdet")
def slogdet(input: Any) -> Any:
    """Return the sign of the determinant, and the logarithm of its magnitude."""
    return torch.return_types.slogdet(tuple(wrap(tuple(linalg.slogdet(operand(input))))))


@implements("linalg.solve_triangular")
def solve_triangular(A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """Return the solution of triangular systems."""
    a, b = same_dtype("solve_triangular", A, B)
    if unitriangular or not left:
        raise UnsupportedError(f"solve_triangular(left=False) and unitriangular are not available, at {user_line()}")
    return wrap(linalg.solve(a.call("triu" if upper else "tril", k=0), b))


@implements("cholesky_solve")
def cholesky_solve(input: Any, input2: Any, upper: bool = False) -> Any:
    """Return the solution of systems whose Cholesky factor is given."""
    b, factor = same_dtype("cholesky_solve", input, input2)
    if kind(str(b.dtype)) == "complex":
        raise UnsupportedError(f"cholesky_solve of complex numbers is not available, at {user_line()}")
    turned = factor.swapaxes(-1, -2)
    whole = product("cholesky_solve", turned, factor) if upper else product("cholesky_solve", factor, turned)
    return wrap(linalg.solve(whole, b))


@implements("linalg.matrix_rank")
def matrix_rank(A: Any) -> Any:
    """Return the ranks of matrices."""
    return wrap(cast(linalg.matrix_rank(operand(A)), "int64"))


@implements("linalg.diagonal")
def diagonal(A: Any, *, offset: Any = 0, dim1: Any = -2, dim2: Any = -1) -> Any:
    """Return the diagonals of matrices."""
    from jitfuse.tracing.torch_like.shapes import diagonal as of_axes

    return of_axes(A, offset, dim1, dim2)


@implements("nanmedian")
def nanmedian(input: Any) -> Any:
    """Return the lower of the middle elements, ignoring NaN."""
    from jitfuse.tracing.torch_like.ordering import sort

    flat = strong(input).ravel()
    count = cast(flat.call("isnan").call("logical_not"), "int64").call("sum", axis=None, keepdims=False)
    ordered = operand(sort(wrap(flat)).values)
    return wrap(ordered[((count - 1).call("maximum", 0)).call("floor_divide", 2)].as_copy())


@implements("norm_except_dim")
def norm_except_dim(v: Any, pow: Any = 2, dim: Any = 0) -> Any:
    """Return the norms over all axes but one, for weight normalisation."""
    x, kept = operand(v), int(numbers(dim))
    return norm(wrap(x), pow, tuple(k for k in range(x.ndim) if k != kept), keepdim=True)


@implements("frobenius_norm")
def frobenius_norm(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Return the root of the sum of squares over axes."""
    x = operand(input)
    return delivered((x * x).call("sum", axis=axes(x, dim), keepdims=bool(keepdim)).call("sqrt"))
