"""Decompositions of composite elementwise functions into simpler ones, over AbstractTensor methods.

Each function takes tensors and the operator's attributes, like the operator's method. If NumPy has the function, the
steps are NumPy's own, in the same dtypes, so that the bits are the same.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitfuse.dtypes import is_integer, kind
from jitfuse.ir.rules import dtype_rules
from jitfuse.ir.rules.ufunc_dtypes import loop_of
from jitfuse.ir.schema import Meta

Tensor = Any


def cast(rule: dtype_rules.LoopRule, name: str, *operands: Tensor) -> list[Tensor]:
    """Return the operands in the dtypes of an operator's loop."""
    loop = rule(name, [Meta(t.shape, t.dtype, weak=t.weak) for t in operands])
    return [
        t if t.dtype == dtype and not t.weak else t.astype(dtype=dtype)
        for t, dtype in zip(operands, loop.inputs, strict=True)
    ]


def _strong(x: Tensor) -> Tensor:
    """Return a Python scalar as the NumPy scalar that functions convert it to."""
    return x.astype(dtype=x.dtype) if x.weak else x


# ---------------------------------------------------------------- what neural networks use
def relu(x: Tensor) -> Tensor:
    """Return 0 for elements below 0, and other elements as they are, NaN and signed zeros included."""
    zero = x.literal(0)
    return x.less(zero).where(zero, x)


def log_sigmoid(x: Tensor) -> Tensor:
    """Return -softplus(-x)."""
    (x,) = cast(dtype_rules.loop_float, "log_sigmoid", x)
    return x.negative().softplus().negative()


def leaky_relu(x: Tensor, slope: Tensor) -> Tensor:
    """Return x above 0, slope * x elsewhere."""
    x, slope = cast(dtype_rules.loop_float, "leaky_relu", x, slope)
    return x.greater(x.literal(0.0)).where(x, x.multiply(slope))


def elu(x: Tensor, alpha: Tensor) -> Tensor:
    """Return x above 0, alpha (exp(x) - 1) elsewhere."""
    x, alpha = cast(dtype_rules.loop_float, "elu", x, alpha)
    return x.greater(x.literal(0.0)).where(x, x.expm1().multiply(alpha))


# ---------------------------------------------------------------- what NumPy has
def float_power(x: Tensor, y: Tensor) -> Tensor:
    """Return x**y in float64 or complex128, without the square root that `power` takes for a literal 0.5.

    The two differ at -0.0 and at -inf, for which the power is the magnitude.
    """
    x, y = cast(loop_of(np.float_power), "float_power", x, y)
    if kind(x.dtype) == "complex":
        return x.power(y)
    special = x.equal(x.literal(0.0)).logical_or(x.equal(x.literal(-math.inf)))
    return y.equal(y.literal(0.5)).logical_and(special).where(x.abs(), x.power(y))


def fabs(x: Tensor) -> Tensor:
    """Return the magnitude as a float."""
    (x,) = cast(loop_of(np.fabs), "fabs", x)
    return x.abs()


def modf_whole(x: Tensor) -> Tensor:
    """Return x without its fraction, as a float."""
    (x,) = cast(loop_of(np.modf), "modf_whole", x)
    return x.trunc()


def modf_fraction(x: Tensor) -> Tensor:
    """Return the fraction of x with the sign of x; that of an infinity is 0."""
    (x,) = cast(loop_of(np.modf), "modf_fraction", x)
    return x.isinf().where(x.literal(0.0).astype(dtype=x.dtype), x.subtract(x.trunc())).copysign(x)


def isposinf(x: Tensor) -> Tensor:
    """Return whether x is positive infinity."""
    return _strong(x).equal(x.literal(math.inf)) if kind(x.dtype) == "float" else x.isinf()


def isneginf(x: Tensor) -> Tensor:
    """Return whether x is negative infinity."""
    return _strong(x).equal(x.literal(-math.inf)) if kind(x.dtype) == "float" else x.isinf()


def nan_to_num(x: Tensor, nan: Tensor, posinf: Tensor, neginf: Tensor) -> Tensor:
    """Return x with NaN and the infinities replaced, in the dtype of x."""
    if kind(x.dtype) != "float":
        return x.call("copy")
    strong = _strong(x)
    nan, posinf, neginf = (t.astype(dtype=x.dtype) for t in (nan, posinf, neginf))
    result = strong.isnan().where(nan, strong)
    result = strong.equal(strong.literal(math.inf)).where(posinf, result)
    return strong.equal(strong.literal(-math.inf)).where(neginf, result)


def _power_of_ten(n: int) -> float:
    """Return 10**n as NumPy computes it: by multiplications, which round beyond 10**22."""
    power = 10.0 ** min(n, 9)
    for _ in range(9, min(n, 400)):
        power *= 10.0
    return power


def round_(x: Tensor, *, decimals: int) -> Tensor:
    """Round to a number of decimals, halves to even, as NumPy: scale, round to an integer, scale back.

    Integers stay as they are; to tens and above they are rounded in float64. Parts of complex numbers are rounded
    separately: a complex product with a power of ten would turn a part beside an infinity into NaN.
    """
    if kind(x.dtype) == "complex":
        real, imag = (round_(x.call(part), decimals=decimals) for part in ("real", "imag"))
        return real.call("make_complex", imag)
    if is_integer(x.dtype):
        if decimals >= 0:
            return x.call("copy")
        return round_(x.astype(dtype="float64"), decimals=decimals).astype(dtype=x.dtype)
    if decimals == 0:
        return x.rint()
    power = x.literal(_power_of_ten(abs(decimals)))
    return x.multiply(power).rint().divide(power) if decimals > 0 else x.divide(power).rint().multiply(power)


def isclose(x: Tensor, y: Tensor, rtol: Tensor, atol: Tensor, *, equal_nan: bool) -> Tensor:
    """Return whether |x - y| <= atol + rtol |y|, or x equals y, or (with `equal_nan`) both are NaN."""
    if kind(y.dtype) not in ("float", "complex"):
        y = y.astype(dtype="float64") if not y.weak else y.multiply(y.literal(1.0))
    near = x.subtract(y).abs().less_equal(atol.add(rtol.multiply(y.abs())))
    result = near.logical_and(y.isfinite()).logical_or(x.equal(y))
    return result.logical_or(x.isnan().logical_and(y.isnan())) if equal_nan else result
