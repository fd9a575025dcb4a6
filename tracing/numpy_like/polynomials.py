"""NumPy's functions of polynomials, given by their coefficients from the highest power down, over traced arrays.

Owns their entries in the table of `jitfuse.tracing.tensor.function_table`. `polymul`, `polydiv` and `roots` are not
here: they drop leading zeros first, so their results have data-dependent shapes.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from jitfuse import dtypes
from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numpy_like import calculus, shapes
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import Tensor, implements, lifted, reject_options, strong, traced_among


def _coefficients(p: Any, *near: Any) -> Tensor:
    x = strong(lifted(p, *near)[0])
    return x.reshape((1,)) if not x.ndim else x


@implements("polyval")
def polyval(p: Any, x: Any) -> Tensor:
    """Return the values of a polynomial at x, by Horner's rule."""
    at = strong(lifted(x, p)[0])
    known = traced_among(p) is None
    coefficients = np.atleast_1d(np.asarray(p)) if known else _coefficients(p, at)
    value = at.create("zeros", shape=at.shape, dtype=str(at.dtype)).ordered("polyval", "K", at)
    for k in range(len(coefficients)):
        value = value * at + coefficients[k]
    return value


def _sum(name: str, a1: Any, a2: Any) -> Tensor:
    one, two = _coefficients(a1, a2), _coefficients(a2, a1)
    size = max(one.shape[0], two.shape[0])
    one, two = (_widened(t, size) for t in (one, two))
    return one.call(name, two)


def _widened(x: Tensor, size: int) -> Tensor:
    if x.shape[0] == size:
        return x
    zeros = x.create("zeros", shape=(size - x.shape[0],), dtype=str(x.dtype))
    return shapes.concatenate([zeros, x])


@implements("polyadd")
def polyadd(a1: Any, a2: Any) -> Tensor:
    """Return the sum of two polynomials."""
    return _sum("add", a1, a2)


@implements("polysub")
def polysub(a1: Any, a2: Any) -> Tensor:
    """Return the difference of two polynomials."""
    return _sum("subtract", a1, a2)


@implements("polyder")
def polyder(p: Any, m: int = 1) -> Tensor:
    """Return the m-th derivative."""
    order = int(m)
    if order < 0:
        raise ArgumentError(f"np.polyder: order of derivative must be positive, not {order}, at {user_line()}")
    x = strong(lifted(p)[0])
    for _ in range(order):
        degree = max(x.shape[0] - 1, 0)
        powers = x.create("arange", start=degree, step=-1, count=degree, dtype="int64")
        x = x[:-1] * powers
    return x


@implements("polyint")
def polyint(p: Any, m: int = 1, k: Any = None) -> Tensor:
    """Return the m-th antiderivative; k holds the constants of integration."""
    order = int(m)
    if order < 0:
        raise ArgumentError(f"np.polyint: order of integral must be positive, not {order}, at {user_line()}")
    x = strong(lifted(p, *([] if k is None else [k]))[0])
    constants = x.create("zeros", shape=(order,), dtype="float64") if k is None else strong(lifted(k, x)[0])
    constants = constants.reshape((1,)) if not constants.ndim else constants
    if constants.shape[0] == 1 and order > 1:
        constants = constants.call("broadcast_to", shape=(order,))
    if constants.shape[0] < order:
        raise ShapeError(f"np.polyint: {order} constants of integration are needed, not {constants.shape[0]}, at "
                         f"{user_line()}")
    for step in range(order):
        powers = x.create("arange", start=x.shape[0], step=-1, count=x.shape[0], dtype="int64")
        x = shapes.concatenate([x / powers, constants[step : step + 1]])
    return x


@implements("vander")
def vander(x: Any, N: Any = None, increasing: bool = False) -> Tensor:
    """Return the matrix whose columns are powers of x."""
    at = strong(lifted(x)[0])
    if at.ndim != 1:
        raise ShapeError(f"np.vander: x must be a one-dimensional array, not of shape {at.shape}, at {user_line()}")
    shape_rules.reject_bools(N)
    count = at.shape[0] if N is None else shape_rules.whole(N)
    dtype = dtypes.promote((str(at.dtype), "int64"))
    ones = at.create("full", shape=(*at.shape, 1), value=1, dtype=dtype)
    if count <= 1:
        return ones if count == 1 else ones[:, :0].as_copy()
    column = at.reshape((*at.shape, 1)).astype(dtype, copy=False).call("broadcast_to", shape=(at.shape[0], count - 1))
    whole = shapes.concatenate([ones, column], 1).call("cumprod", axis=1)
    return whole if increasing else whole[:, ::-1].as_copy()


@implements("poly")
def poly(seq_of_zeros: Any) -> Tensor:
    """Return the coefficients of the polynomial with these real roots, or a matrix's characteristic polynomial."""
    roots = _coefficients(seq_of_zeros)
    if roots.ndim != 1 or dtypes.kind(str(roots.dtype)) == "complex":
        given = {"seq_of_zeros": "a matrix or complex numbers"}
        reject_options("poly", given, "The dtype of the result depends on data.")
    dtype = "float32" if str(roots.dtype) == "float32" else "float64"
    roots = roots.astype(dtype, copy=False)
    value = roots.create("full", shape=(1,), value=1, dtype=dtype)
    for k in range(roots.shape[0]):
        pair = shapes.concatenate([roots.create("full", shape=(1,), value=1, dtype=dtype), -roots[k : k + 1]])
        value = calculus.convolve(value, pair)
    return value


@implements("polyfit")
def polyfit(x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False) -> Any:
    """Return the coefficients of the least squares fit by a polynomial of degree `deg`."""
    from jitfuse.tracing.numpy_like import systems

    reject_options("polyfit", {"full": full or None}, "Take the coefficients, and compute the residuals.")
    reject_options("polyfit", {"cov": cov if isinstance(cov, AbstractTensor) or cov else None})
    at, values = (strong(t) + 0.0 for t in lifted(x, y))
    degree = int(deg.__index__())
    if degree < 0:
        raise ArgumentError(f"np.polyfit: expected deg >= 0, not {degree}, at {user_line()}")
    if at.ndim != 1 or not at.size or values.ndim not in (1, 2) or values.shape[0] != at.shape[0]:
        raise ShapeError(f"np.polyfit: x of shape {at.shape} and y of shape {values.shape} do not fit, at "
                         f"{user_line()}")
    relative = at.shape[0] * float(np.finfo(str(at.dtype)).eps) if rcond is None else rcond
    left, right = vander(at, degree + 1), values
    if w is not None:
        weights = strong(lifted(w, at)[0]) + 0.0
        left = left * weights.reshape((-1, 1))
        right = right * (weights.reshape((-1, 1)) if values.ndim == 2 else weights)
    if str(right.dtype) == "float16":
        raise DTypeError(f"np.polyfit: array type float16 is unsupported in linalg, at {user_line()}")
    scale = (left * left).call("sum", axis=0).call("sqrt")
    solution = systems.least_squares(left / scale, right, relative)
    return (solution.T / scale).T
