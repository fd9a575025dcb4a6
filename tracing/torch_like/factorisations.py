"""torch's factorisations that have no library step, in functions that are differentiated.

A derivative cannot have a graph break, at which torch itself computes them elsewhere. Here they are loops over columns
or compositions of other operators. What fails raises at run time: the `info` of the functions `..._ex` is 0 otherwise.
Owns their entries in `jitfuse.tracing.torch_like.table`.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from jitfuse.dtypes import kind
from jitfuse.errors import ArgumentError, DerivativeError
from jitfuse.tracing.control import combinators
from jitfuse.tracing.numpy_like import linalg, systems
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.torch_like.dispatcher import missing
from jitfuse.tracing.torch_like.promotion import cast, numbers, operand
from jitfuse.tracing.torch_like.real_tensors import run_of_trace
from jitfuse.tracing.torch_like.table import FUNCTIONS, implements
from jitfuse.tracing.torch_like.tensor import wrap

LONGEST = 512
"""Rounds of a loop over columns whose derivative is taken: it keeps a matrix for each."""


def _where_differentiated(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function for `jf.grad` and its kin; elsewhere torch's own is faster, or has autograd's derivative."""
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            run = run_of_trace()
            if not run.differentiated or run.keeps_gradients:
                raise missing(f"torch.{names[0]}")
            return function(*args, **kwargs)

        return implements(*names)(call)

    return register


def _loop(name: str, count: int, body: Callable[[Any, Any], Any], start: tuple[Tensor, ...]) -> Any:
    if count > LONGEST:
        raise DerivativeError(f"{name} at {user_line()} has a derivative for up to {LONGEST} columns, not {count}")
    return combinators.fori_loop(run_of_trace(), 0, count, body, start)


def _line(x: Tensor, count: int) -> Tensor:
    return x.create("arange", count=count, dtype="int64")


def _chosen(condition: Tensor, a: Any, b: Any) -> Tensor:
    return condition.call("where", a, b)


def _column(x: Tensor) -> Tensor:
    return x.reshape((*x.shape, 1))


def _adjoint(x: Tensor) -> Tensor:
    turned = x.swapaxes(-1, -2)
    return turned.call("conj") if kind(str(x.dtype)) == "complex" else turned


def _identity(like: Tensor, rows: int, columns: int) -> Tensor:
    return cast(_column(_line(like, rows)).call("equal", _line(like, columns)), str(like.dtype))


# ---------------------------------------------------------------- LU
def _swapped(order: Tensor, i: Any, other: Tensor) -> Tensor:
    """Return indices along the last axis that exchange position i and another."""
    rows, other = _line(order, order.shape[-1]), _column(other)
    return _chosen(rows.call("equal", i), other, _chosen(rows.call("equal", other), i, rows))


def _size(x: Tensor) -> Tensor:
    """Return the magnitudes by which LAPACK chooses pivots."""
    return x.real.call("abs") + x.imag.call("abs") if kind(str(x.dtype)) == "complex" else x.call("abs")


def _factored(name: str, A: Any, pivot: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return L and U in one matrix, the rows that were exchanged in each round, and the order of the rows."""
    if not pivot:
        raise ArgumentError(f"{name}: LU without pivoting is not implemented on the CPU, at {user_line()}")
    x = operand(A)
    m, n = x.shape[-2:]
    rows, columns = _line(x, m), _line(x, n)

    def body(i: Any, carry: Any) -> Any:
        a, pivots, order = carry
        here = columns.call("equal", i)
        below = _chosen(rows.call("greater_equal", i), _size(_chosen(here, a, 0).call("sum", axis=-1)), -1.0)
        best = below.call("argmax", axis=-1)
        swaps = _swapped(order, i, best)
        a = a.call("take_along_axis", _column(swaps).call("broadcast_to", shape=a.shape), axis=-2)
        row = _chosen(_column(rows.call("equal", i)), a, 0).call("sum", axis=-2, keepdims=True)
        first = _chosen(here, row, 0).call("sum", axis=-1, keepdims=True)
        column = _chosen(here, a, 0).call("sum", axis=-1, keepdims=True)
        later = _column(rows.call("greater", i))
        factor = _chosen(later, column / _chosen(first.call("equal", 0), 1, first), 0)
        a = _chosen(columns.call("greater", i), a - factor * row, _chosen(here.call("logical_and", later), factor, a))
        pivots = _chosen(_line(x, pivots.shape[-1]).call("equal", i), _column(best), pivots)
        return a, pivots, order.call("take_along_axis", swaps, axis=-1)

    lead = x.shape[:-2]
    start = _line(x, m).call("broadcast_to", shape=(*lead, m)).as_copy()
    pivots = x.create("zeros", shape=(*lead, min(m, n)), dtype="int64")
    a, pivots, order = _loop(name, min(m, n), body, (x, pivots, start))
    return a, cast(pivots + 1, "int32"), order


def _triangles(whole: Tensor) -> tuple[Tensor, Tensor]:
    m, n = whole.shape[-2:]
    k = min(m, n)
    lower = whole[..., :, :k].call("tril", k=-1) + _identity(whole, m, k)
    return lower, whole[..., :k, :].call("triu", k=0)


def _permutation(order: Tensor, dtype: str) -> Tensor:
    """Return the matrix that takes rows in an order back to where they were."""
    return cast(_column(_line(order, order.shape[-1])).call("equal", order.expand_dims(-2)), dtype)


@_where_differentiated("linalg.lu_factor_ex", "_lu_with_info")
def lu_factor_ex(A: Any, pivot: bool = True, check_errors: bool = False) -> Any:
    """Return L and U in one matrix, the rows that were exchanged, and where U has the first 0 on its diagonal."""
    whole, pivots, _ = _factored("lu_factor_ex", A, bool(pivot))
    missed = whole.call("diagonal").call("equal", 0)
    info = _chosen(missed.call("any", axis=-1), missed.call("argmax", axis=-1) + 1, 0)
    return wrap(whole), wrap(pivots), wrap(cast(info, "int32"))


@_where_differentiated("linalg.lu_factor")
def lu_factor(A: Any, *, pivot: bool = True) -> Any:
    """Return L and U in one matrix, and the rows that were exchanged."""
    whole, pivots, _ = _factored("lu_factor", A, bool(pivot))
    return torch.return_types.linalg_lu_factor((wrap(whole), wrap(pivots)))


@_where_differentiated("linalg.lu")
def lu(A: Any, *, pivot: bool = True) -> Any:
    """Return P, L and U."""
    whole, _, order = _factored("lu", A, bool(pivot))
    parts = _permutation(order, str(whole.dtype)), *_triangles(whole)
    return torch.return_types.linalg_lu(tuple(map(wrap, parts)))


def _order_of(pivots: Tensor, rows: int) -> Tensor:
    def body(i: Any, carry: Any) -> Any:
        (order,) = carry
        at = _chosen(_line(pivots, pivots.shape[-1]).call("equal", i), pivots - 1, 0).call("sum", axis=-1)
        return (order.call("take_along_axis", _swapped(order, i, cast(at, "int64")), axis=-1),)

    start = _line(pivots, rows).call("broadcast_to", shape=(*pivots.shape[:-1], rows)).as_copy()
    return _loop("lu_unpack", pivots.shape[-1], body, (start,))[0]


@_where_differentiated("lu_unpack")
def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """Return P, L and U."""
    whole, pivots = operand(LU_data), operand(LU_pivots)
    nothing = whole.create("zeros", shape=(0,), dtype=str(whole.dtype))
    exchange = _permutation(_order_of(pivots, whole.shape[-2]), str(whole.dtype)) if unpack_pivots else nothing
    lower, upper = _triangles(whole) if unpack_data else (nothing, nothing)
    return torch.return_types.lu_unpack(tuple(map(wrap, (exchange, lower, upper))))


@_where_differentiated("linalg.lu_solve")
def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """Return the solution of systems with the matrix P L U."""
    if not left:
        return wrap(_adjoint(operand(lu_solve(LU, pivots, wrap(_adjoint(operand(B))), adjoint=not adjoint))))
    whole = operand(LU)
    exchange = _permutation(_order_of(operand(pivots), whole.shape[-1]), str(whole.dtype))
    (lower, upper), b = _triangles(whole), operand(B)
    if adjoint:
        found = linalg.solve(_adjoint(lower), linalg.solve(_adjoint(upper), b))
        return wrap(exchange.call("matmul", found))
    return wrap(linalg.solve(upper, linalg.solve(lower, exchange.swapaxes(-1, -2).call("matmul", b))))


_where_differentiated("lu_solve")(lambda input, LU_data, LU_pivots: lu_solve(LU_data, LU_pivots, input))


# ---------------------------------------------------------------- what torch reports errors of
def _reporting(name: str, made: Callable[..., Any]) -> None:
    @_where_differentiated(f"linalg.{name}_ex")
    def function(A: Any, *args: Any, check_errors: bool = False, **kwargs: Any) -> Any:
        result = made(A, *args, **kwargs)
        info = operand(A).create("zeros", shape=tuple(operand(A).shape[:-2]), dtype="int32")
        return getattr(torch.return_types, f"linalg_{name}_ex")((result, wrap(info)))


for _name in ("inv", "solve", "cholesky"):
    _reporting(_name, FUNCTIONS[f"linalg.{_name}"])


@_where_differentiated("cholesky_inverse")
def cholesky_inverse(input: Any, upper: bool = False) -> Any:
    """Return the inverse of the matrix with a Cholesky factor."""
    x = operand(input).call("triu" if upper else "tril", k=0)
    return wrap(linalg.inv(_adjoint(x).call("matmul", x) if upper else x.call("matmul", _adjoint(x))))


_where_differentiated("linalg.tensorsolve")(lambda A, B, dims=None: wrap(
    systems.tensorsolve(operand(A), operand(B), None if dims is None else numbers(dims))))
_where_differentiated("linalg.tensorinv")(lambda A, ind=2: wrap(systems.tensorinv(operand(A), int(numbers(ind)))))


@_where_differentiated("linalg.lstsq")
def lstsq(A: Any, B: Any, rcond: Any = None, *, driver: Any = None) -> Any:
    """Return the solution of least squares problems of full rank, and the residuals."""
    a, b = operand(A), operand(B)
    rows, columns = a.shape[-2:]
    right = _column(b) if b.ndim == a.ndim - 1 or b.ndim == 1 else b
    solution = systems.least_squares(a, right, linalg.tolerance(a) if rcond is None else rcond)
    residuals = solution.create("zeros", shape=(0,), dtype=str(solution.real.dtype))
    if rows > columns:
        residuals = (a.call("matmul", solution) - right).call("abs").call("square").call("sum", axis=-2)
    nothing = solution.create("zeros", shape=(0,), dtype=str(solution.real.dtype))
    rank = linalg.matrix_rank(a.call("stop_gradient"))
    solution = solution if right is b else solution[..., 0].as_copy()
    return torch.return_types.linalg_lstsq(tuple(map(wrap, (solution, residuals, rank, nothing))))


# ---------------------------------------------------------------- reflections
def _reflected(A: Any, tau: Any, x: Tensor, adjoint: bool) -> Tensor:
    """Return Q @ x, or its adjoint @ x; Q is the product of I - tau v v^H, with v below the diagonal of A."""
    a, scales = operand(A), operand(tau)
    if kind(str(a.dtype)) == "complex" and adjoint:
        scales = scales.call("conj")
    rows, columns, count = _line(a, a.shape[-2]), _line(a, a.shape[-1]), scales.shape[-1]

    def body(k: Any, carry: Any) -> Any:
        (made,) = carry
        i = k if adjoint else count - 1 - k
        below = _chosen(columns.call("equal", i), a, 0).call("sum", axis=-1)
        v = _column(_chosen(rows.call("greater", i), below, cast(rows.call("equal", i), str(a.dtype))))
        scale = _chosen(_line(a, count).call("equal", i), scales, 0).call("sum", axis=-1)
        return (made - _column(_column(scale)) * v.call("matmul", _adjoint(v).call("matmul", made)),)

    return _loop("householder_product", count, body, (x,))[0]


@_where_differentiated("linalg.householder_product", "orgqr")
def householder_product(A: Any, tau: Any) -> Any:
    """Return the first columns of a product of reflections."""
    a = operand(A)
    start = _identity(a, *a.shape[-2:]).call("broadcast_to", shape=a.shape).as_copy()
    return wrap(_reflected(A, tau, start, False))


@_where_differentiated("ormqr")
def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """Return a matrix times a product of reflections."""
    if left:
        return wrap(_reflected(input, tau, operand(other), bool(transpose)))
    return wrap(_adjoint(_reflected(input, tau, _adjoint(operand(other)), not transpose)))


# ---------------------------------------------------------------- the exponential
_PADE = (64764752532480000., 32382376266240000., 7771770303897600., 1187353796428800., 129060195264000.,
         10559470521600., 670442572800., 33522128640., 1323241920., 40840800., 960960., 16380., 182., 1.)
_ROUNDS = 64
"""Squarings at most: the norm of a matrix is below 2 ** 64 then."""


@_where_differentiated("linalg.matrix_exp", "matrix_exp")
def matrix_exp(A: Any) -> Any:
    """Return the exponential of matrices, by scaling and squaring (Higham 2005)."""
    x = operand(A)
    n = x.shape[-1]
    if not x.size:
        return wrap(x.as_copy())
    norm = x.call("stop_gradient").call("abs").call("sum", axis=-2).call("max", axis=-1)
    rounds = (norm / 5.37).call("maximum", 1.0).call("log2").call("ceil")
    rounds = rounds.call("require", rounds.call("less_equal", _ROUNDS).call("logical_or", rounds.call("isnan")))
    small = x * _column(_column((-rounds).call("exp2")))
    one = _identity(x, n, n)
    powers = [one, small.call("matmul", small)]
    powers += [powers[1].call("matmul", powers[1])]
    powers += [powers[2].call("matmul", powers[1])]
    odd, even = (functools.reduce(lambda a, b: a + b, [powers[k] * _PADE[2 * k + start] for k in range(4)])
                 + powers[3].call("matmul", functools.reduce(lambda a, b: a + b, [
                     powers[k] * _PADE[2 * k + 6 + start] for k in (1, 2, 3)])) for start in (1, 0))
    odd = small.call("matmul", odd)

    def body(i: Any, carry: Any) -> Any:
        (made,) = carry
        return (_chosen(_column(_column(rounds.call("greater", i))), made.call("matmul", made), made),)

    return wrap(_loop("matrix_exp", _ROUNDS, body, (linalg.solve(even - odd, even + odd),))[0])

