"""torch's products and linear algebra over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`. The operands of a product have one dtype, as in torch.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from jitfuse.dtypes import is_integer, kind
from jitfuse.errors import DTypeError, ShapeError, UnsupportedError
from jitfuse.tracing.numpy_like import linalg, products, shapes
from jitfuse.tracing.record.foreign import tensor_as_array
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor import gathering
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.torch_like.arithmetic import add, mul
from jitfuse.tracing.torch_like.promotion import cast, numbers, operand
from jitfuse.tracing.torch_like.real_tensors import run_of_trace
from jitfuse.tracing.torch_like.table import implements, in_float32, of_floats
from jitfuse.tracing.torch_like.tensor import wrap


def same_dtype(name: str, *values: Any) -> list[Tensor]:
    """Return operands; raises DTypeError unless they have one dtype."""
    found = [operand(v) for v in values]
    names = {str(t.dtype) for t in found}
    if len(names) > 1:
        raise DTypeError(f"{name}: expected operands of the same dtype, but got: {', '.join(sorted(names))}, at "
                         f"{user_line()}. Cast one of them with x.to(dtype).")
    return found


def product(name: str, a: Any, b: Any) -> Tensor:
    """Return the matrix product of operands of one dtype, in that dtype."""
    x, y = same_dtype(name, a, b)
    return cast(x.call("matmul", y), str(x.dtype))


implements("matmul", "linalg.matmul")(lambda input, other: wrap(product("matmul", input, other)))


def _of_ranks(name: str, first: int, second: int) -> Callable[..., Any]:
    def function(input: Any, other: Any) -> Any:
        x, y = operand(input), operand(other)
        if (x.ndim, y.ndim) != (first, second):
            raise ShapeError(f"{name}: operands of {first} and {second} axes are expected, not {x.shape} and "
                             f"{y.shape}, at {user_line()}")
        return wrap(product(name, x, y))

    return function


for _name, _ranks in {"mm": (2, 2), "bmm": (3, 3), "mv": (2, 1), "dot": (1, 1)}.items():
    implements(_name)(_of_ranks(_name, *_ranks))


def scaled_sum(input: Any, made: Any, beta: Any, alpha: Any) -> Any:
    """Return beta * input + alpha * made; with beta 0, NaN of the input does not count."""
    if kind(str(made.tensor.dtype)) not in ("float", "complex"):
        beta, alpha = int(numbers(beta)), int(numbers(alpha))
    made = made if isinstance(alpha, int | float) and alpha == 1 else mul(made, alpha)  # bools give a bool
    if isinstance(beta, int | float) and beta == 0:
        return made
    return add(made, input if isinstance(beta, int | float) and beta == 1 else mul(input, beta))


def _added(name: str) -> Callable[..., Any]:
    def function(input: Any, one: Any, two: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        same_dtype(name, input, one, two)
        return scaled_sum(input, wrap(product(name, one, two)), beta, alpha)

    return function


for _name in ("addmm", "baddbmm", "addmv"):
    implements(_name)(_added(_name))


@implements("einsum")
def einsum(equation: Any, *operands: Any) -> Any:
    """Return the sum of products that an equation describes."""
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
    found = same_dtype("einsum", *given)
    if str(found[0].dtype) not in ("int64", "uint64") and is_integer(str(found[0].dtype)):
        # which sums torch widens depends on how it carries the equation out
        raise UnsupportedError(f"einsum of integers is not available, at {user_line()}")
    return wrap(cast(products.einsum(equation, *found), str(found[0].dtype)))


implements("cross", "linalg.cross")(lambda input, other, dim=-1: wrap(
    products.cross(*same_dtype("cross", input, other), axis=int(numbers(dim)))))


@implements("cdist")
@in_float32
def cdist(x1: Any, x2: Any, p: Any = 2.0, compute_mode: Any = None) -> Any:
    """Return the distances of all pairs of rows."""
    x, y = same_dtype("cdist", x1, x2)
    difference = shapes.expand_dims(x, -2) - shapes.expand_dims(y, -3)
    return torch.linalg.vector_norm(wrap(difference), numbers(p), -1)


@implements("pdist")
@in_float32
def pdist(input: Any, p: Any = 2.0) -> Any:
    """Return the distances of each pair of rows, once."""
    x = operand(input)
    first, second = (lift(run_of_trace(), at) for at in np.triu_indices(x.shape[0], 1))
    difference = gathering.take(x, first, 0) - gathering.take(x, second, 0)
    return torch.linalg.vector_norm(wrap(difference), numbers(p), -1)


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
def _of_nothing(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what torch makes of tensors without elements: it depends on their shapes alone."""
    if any(isinstance(value, torch.Tensor) and operand(value).size for value in args):
        raise UnsupportedError(f"{original.__name__} of nothing and something is not available, at {user_line()}")
    with torch._C.DisableTorchFunctionSubclass():
        made = original(*[torch.zeros(v.shape, dtype=v.dtype) if isinstance(v, torch.Tensor) else v for v in args],
                        **kwargs)
    if isinstance(made, torch.Tensor):
        return _constant(made)
    return type(made)([_constant(part) for part in made])


def _constant(made: Any) -> Any:
    return wrap(lift(run_of_trace(), tensor_as_array(made)))


def _of_matrices(name: str) -> Callable[..., Any]:
    def function(A: Any, *args: Any, **kwargs: Any) -> Any:
        x = operand(A)
        if kind(str(x.dtype)) not in ("float", "complex"):
            raise DTypeError(f"linalg.{name}: expected a floating point tensor, not {x.dtype}, at {user_line()}")
        if not x.size:
            return _of_nothing(getattr(torch.linalg, name), A, *args, **kwargs)
        return wrap(getattr(linalg, name)(x, *(operand(a) for a in args), **kwargs))

    return function


for _name in ("inv", "det", "solve", "cholesky", "matrix_power", "svdvals", "eigvalsh"):
    implements(f"linalg.{_name}")(_of_matrices(_name))
implements("det")(_of_matrices("det"))
implements("inverse")(_of_matrices("inv"))


def _structured(name: str, torch_name: str) -> None:
    made = _of_matrices(name)

    @implements(f"linalg.{torch_name}")
    def function(A: Any, *args: Any, **kwargs: Any) -> Any:
        result = made(A, *args, **kwargs)
        return getattr(torch.return_types, f"linalg_{torch_name}")(tuple(result))


for _name in ("svd", "qr", "eigh", "slogdet"):
    _structured(_name, _name)


@implements("linalg.pinv", "pinverse")
def pinv(input: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None, atol: Any = None) -> Any:
    """Return the pseudo-inverse; singular values up to rtol times the largest count as zero."""
    x, given = operand(input), rtol if rcond is None else rcond
    if not x.size:
        return _of_nothing(torch.linalg.pinv, input)
    if hermitian:  # torch reads the lower half, and the real part of the diagonal
        below = x.call("tril", k=-1)
        x = below + (x.call("tril", k=0) - below).real + below.swapaxes(-1, -2).call("conj")
    if given is None:
        given = max(input.shape[-2:]) * torch.finfo(input.dtype).eps if atol is None else 0.0
    limit = operand(given) if isinstance(given, torch.Tensor) else numbers(given)
    if atol is not None:
        bound = operand(atol) if isinstance(atol, torch.Tensor) else numbers(atol)
        largest = linalg.svdvals(x).call("max", axis=-1)
        limit = (bound / largest).call("maximum", limit).call("stop_gradient")
    return wrap(linalg.pinv(x, rtol=limit))


@implements("linalg.eig")
def eig(A: Any) -> Any:
    """Return complex eigenvalues and eigenvectors."""
    return torch.return_types.linalg_eig(tuple(wrap(tuple(linalg.complex_eig(operand(A))))))


implements("cholesky")(lambda input, upper=False: wrap(linalg.cholesky(operand(input), upper=bool(upper))))


@implements("logdet")
def logdet(input: Any) -> Any:
    """Return the logarithm of the determinant; NaN for negative real ones."""
    x = operand(input)
    sign, size = linalg.slogdet(x)
    if kind(str(x.dtype)) == "complex":
        return wrap(sign.call("log") + size)
    missing = x.create("full", shape=(), value=math.nan, dtype=str(x.dtype))
    return wrap(sign.call("less", 0).call("where", missing, size))


@implements("linalg.solve_triangular")
def solve_triangular(A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """Return the solution of triangular systems."""
    a, b = same_dtype("solve_triangular", A, B)
    if unitriangular:
        line = a.create("arange", count=a.shape[-1], dtype="int64")
        unit = cast(line.expand_dims(-1).call("equal", line), str(a.dtype))
        a = a.call("triu", k=1) + unit if upper else a.call("tril", k=-1) + unit
    else:
        a = a.call("triu" if upper else "tril", k=0)
    if left:
        return wrap(linalg.solve(a, b))
    return wrap(linalg.solve(a.swapaxes(-1, -2), b.swapaxes(-1, -2)).swapaxes(-1, -2))


@implements("triangular_solve")
def triangular_solve(input: Any, A: Any, upper: bool = True, transpose: bool = False,
                     unitriangular: bool = False) -> Any:
    """Return the solution of triangular systems, and a copy of the matrix."""
    a = operand(A)
    turned = wrap(a.swapaxes(-1, -2)) if transpose else A
    found = solve_triangular(turned, input, upper=bool(upper) != bool(transpose), unitriangular=unitriangular)
    return torch.return_types.triangular_solve((found, wrap(a.as_copy())))


@implements("cholesky_solve")
def cholesky_solve(input: Any, input2: Any, upper: bool = False) -> Any:
    """Return the solution of systems whose Cholesky factor is given."""
    b, factor = same_dtype("cholesky_solve", input, input2)
    if kind(str(b.dtype)) == "complex":
        raise UnsupportedError(f"cholesky_solve of complex numbers is not available, at {user_line()}")
    turned = factor.swapaxes(-1, -2)
    whole = product("cholesky_solve", turned, factor) if upper else product("cholesky_solve", factor, turned)
    return wrap(linalg.solve(whole, b))
