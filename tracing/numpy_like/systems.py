"""NumPy's systems of linear equations over traced arrays: least squares, condition numbers, tensor equations.

Owns their entries in the table of `jitfuse.tracing.tensor.function_table`, in terms of the decompositions of
`jitfuse.tracing.numpy_like.linalg`. Least squares use the pseudo-inverse; it drops singular values below the same bound
as LAPACK's own solver.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jitfuse.errors import ArgumentError, ShapeError
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.numpy_like import linalg, shapes
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import Tensor, implements, lifted, strong


def least_squares(a: Tensor, b: Tensor, relative: Any) -> Tensor:
    """Return the x of least norm that minimises |a @ x - b|; singular values below `relative` count as zero."""
    return linalg.pinv(a, relative).call("matmul", b)


@implements("linalg.lstsq")
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """Return (x, residuals, rank, singular values) of a least squares problem.

    NumPy returns no residuals where the rank is not full, which depends on data; here their use raises then.
    """
    x, y = (strong(t) for t in lifted(a, b))
    if x.ndim != 2 or y.ndim not in (1, 2) or x.shape[0] != y.shape[0]:
        raise ShapeError(f"np.linalg.lstsq: a matrix and right-hand sides of shapes {x.shape} and {y.shape} do not "
                         f"fit, at {user_line()}")
    x, y = (linalg.floating("lstsq", t) for t in (x, y))
    rows, columns = x.shape
    bound = linalg.tolerance(x) if rcond is None else rcond
    values = linalg.svdvals(x)
    rank = linalg.matrix_rank(x, rtol=bound)
    solution = least_squares(x, y, bound)
    if rows <= columns:
        residuals = values.create("zeros", shape=(0,), dtype=str(values.dtype))
    else:
        difference = (y - x.call("matmul", solution)).call("abs")
        residuals = difference.call("square").call("sum", axis=0)
        residuals = residuals.reshape((1,)) if not residuals.ndim else residuals
        residuals = residuals.call("require", rank.call("equal", columns))
    return solution, residuals, rank.astype("int32"), values


@implements("linalg.cond")
def cond(x: Any, p: Any = None) -> Tensor:
    """Return the condition number of matrices: the norm times the norm of the inverse; NaN becomes inf."""
    a = linalg.floating("cond", x)
    if a.ndim < 2 or not a.size:
        raise ShapeError(f"np.linalg.cond is not defined on arrays of shape {a.shape}, at {user_line()}")
    if p is None or p in (2, -2):
        values = linalg.svdvals(a)
        number = values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    else:
        number = linalg.matrix_norm(a, ord=p) * linalg.matrix_norm(_inverse(a), ord=p)
    here = a.call("isnan").call("any", axis=(-2, -1))
    wrong = number.call("isnan").call("logical_and", here.call("logical_not"))
    return wrong.call("where", number.create("full", shape=(), value=math.inf, dtype=str(number.dtype)), number)


def _inverse(a: Tensor) -> Tensor:
    """Return the inverses of matrices; NaN for singular ones."""
    singular = linalg.slogdet(a).sign.call("equal", 0).reshape((*a.shape[:-2], 1, 1))
    row = a.create("arange", count=a.shape[-1], dtype="int64")
    unit = row.reshape((-1, 1)).call("equal", row).astype(str(a.dtype))
    inverse = singular.call("where", unit, a).call("inv")
    return singular.call("where", inverse.create("full", shape=(), value=math.nan, dtype=str(inverse.dtype)), inverse)


@implements("linalg.tensorsolve")
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Tensor:
    """Return x with tensordot(a, x, x.ndim) = b."""
    x, y = (strong(t) for t in lifted(a, b))
    if axes is not None:
        moved = [shape_rules.normalize_axis("tensorsolve", k, x.ndim) for k in axes]
        x = shapes.transpose(x, [k for k in range(x.ndim) if k not in moved] + moved)
    shape = x.shape[y.ndim :]
    size = math.prod(shape)
    if x.size != size * size:
        raise ShapeError(f"np.linalg.tensorsolve: {x.shape} does not make a square system for {y.shape}, at "
                         f"{user_line()}")
    return linalg.solve(x.reshape((size, size)), y.ravel()).reshape(shape)


@implements("linalg.tensorinv")
def tensorinv(a: Any, ind: int = 2) -> Tensor:
    """Return the inverse with respect to tensordot over `ind` axes."""
    x, count = strong(lifted(a)[0]), int(ind)
    if count <= 0:
        raise ArgumentError(f"np.linalg.tensorinv: invalid ind argument {ind}, at {user_line()}")
    shape: Sequence[int] = (*x.shape[count:], *x.shape[:count])
    rows = math.prod(x.shape[:count])
    return linalg.inv(x.reshape((rows, x.size // max(rows, 1)))).reshape(tuple(shape))
