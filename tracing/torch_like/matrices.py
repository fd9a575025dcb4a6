"""More of torch.linalg, and statistics of rows, over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`.
"""
from __future__ import annotations

import math
from typing import Any

import torch

from jitfuse.dtypes import kind
from jitfuse.errors import UnsupportedError
from jitfuse.tracing.numpy_like import linalg, products
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.torch_like.products import product, same_dtype, scaled_sum
from jitfuse.tracing.torch_like.promotion import cast, numbers, operand, strong
from jitfuse.tracing.torch_like.table import implements, of_floats
from jitfuse.tracing.torch_like.tensor import wrap

# ---------------------------------------------------------------- products


@of_floats("linalg.vecdot")
def vecdot(x: Any, y: Any, *, dim: Any = -1) -> Any:
    """Return the sum of products along an axis, the first operand conjugated."""
    a, b = same_dtype("vecdot", x, y)
    return wrap(cast(products.vecdot(a, b, axis=int(numbers(dim))), str(a.dtype)))


@implements("addbmm")
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return a matrix plus the sum of products of matrices."""
    made = product("addbmm", batch1, batch2)
    return scaled_sum(input, wrap(cast(made.call("sum", axis=0), str(made.dtype))), beta, alpha)


# ---------------------------------------------------------------- decompositions
@implements("linalg.eig")
def eig(A: Any) -> Any:
    """Return complex eigenvalues and eigenvectors."""
    return torch.return_types.linalg_eig(tuple(wrap(tuple(linalg.complex_eig(operand(A))))))


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


@implements("nanmedian")
def nanmedian(input: Any) -> Any:
    """Return the lower of the middle elements, ignoring NaN."""
    from jitfuse.tracing.torch_like.ordering import sort

    flat = strong(input).ravel()
    count = cast(flat.call("isnan").call("logical_not"), "int64").call("sum", axis=None, keepdims=False)
    ordered = operand(sort(wrap(flat)).values)
    return wrap(ordered[((count - 1).call("maximum", 0)).call("floor_divide", 2)].as_copy())

