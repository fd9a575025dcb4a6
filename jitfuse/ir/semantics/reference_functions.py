"""References of real functions that NumPy lacks, or that it computes less accurately.

Each computes in float64, or in longdouble if float64 would lose more than a few units in the last place. It rounds once
to the dtype that NumPy's own functions return. Does not own NumPy's ufuncs (`jitfuse.ir.semantics.reference`).
"""
from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

Array = Any
_LONG = np.longdouble


def _float_function(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return the function over any dtype: operands are cast to float64, the result to the dtype of a ufunc's."""

    @wraps(function)
    def over_any(*operands: Array) -> Array:
        like = [np.zeros(0, x.dtype) if isinstance(x, np.ndarray | np.generic) else x for x in operands]
        return _carry_out(function, operands, (np.exp if len(like) == 1 else np.hypot)(*like).dtype)

    return over_any


def _carry_out(function: Callable[..., Array], operands: tuple[Array, ...], dtype: np.dtype[Any]) -> Array:
    if any(np.asarray(x).dtype.kind == "c" for x in operands):
        raise TypeError(f"{function.__name__} does not take complex numbers")
    with np.errstate(all="ignore"):
        return np.asarray(function(*[np.asarray(x).astype("float64") for x in operands])).astype(dtype)[()]


def _scipys_function(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return the function over any dtype; only float32 is computed in float32, as in SciPy's ufuncs of this kind."""

    @wraps(function)
    def over_any(x: Array) -> Array:
        single = getattr(x, "dtype", None) == np.float32
        return _carry_out(function, (x,), np.dtype("float32" if single else "float64"))

    return over_any


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """Return a function of Python floats over arrays; NaN is passed through."""
    return np.vectorize(function, otypes=["float64"])


@_scipys_function
def erf(x: Array) -> Array:
    """Return the error function, by `math.erf`."""
    return _each(math.erf)(x)


@_scipys_function
def erfc(x: Array) -> Array:
    """Return 1 - erf(x), by `math.erfc`."""
    return _each(math.erfc)(x)


@_float_function
def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x))."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1.0 + e)


def _times_sigmoid(x: Array, y: Array) -> Array:
    """Return x / (1 + exp(-y)), the limit where y is minus infinity."""
    half = np.exp(-np.abs(y) / 2)  # two factors, neither of which is denormal
    result = np.where(y < 0, x * half * half, x) / (1 + half * half)
    return np.where(y == -np.inf, -0.0, result)


@_float_function
def silu(x: Array) -> Array:
    """Return x / (1 + exp(-x)); -0.0 at minus infinity, the limit."""
    return _times_sigmoid(x, x)


@_float_function
def gelu_tanh(x: Array) -> Array:
    """Return x (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3))) / 2; -0.0 at minus infinity, the limit."""
    wide = x.astype(_LONG)
    slope = 2 * np.sqrt(_LONG(2) / (4 * np.arctan(_LONG(1))))
    return _times_sigmoid(wide, slope * (wide + _LONG("0.044715") * wide**3)).astype("float64")


@_float_function
def gelu(x: Array) -> Array:
    """Return x (1 + erf(x / sqrt 2)) / 2; -0.0 at minus infinity, the limit.

    It is x erfc(z) / 2 with z = -x / sqrt 2. The rounding error e of z moves the far tail by many units in the last
    place, so that erfc(z + e) is computed as erfc(z) + e erfc'(z).
    """
    exact = -x.astype(_LONG) / np.sqrt(_LONG(2))
    z = exact.astype("float64")
    rest = np.where(np.isfinite(z), exact - z, 0).astype("float64")
    tail = _each(math.erfc)(z) - rest * (2 / math.sqrt(math.pi)) * np.exp(-z * z)
    return np.where(x < -40, -0.0, x / 2 * tail)


@_float_function
def softplus(x: Array) -> Array:
    """Return log(1 + exp(x))."""
    return np.logaddexp(x, 0.0)


@_float_function
def log_sigmoid(x: Array) -> Array:
    """Return log(1 / (1 + exp(-x)))."""
    return -np.logaddexp(-x, 0.0)


@_float_function
def xlogy(x: Array, y: Array) -> Array:
    """Return x log(y), 0 where x is 0 and y a number."""
    return np.where((x == 0) & ~np.isnan(y), 0.0, x * np.log(y))


@_float_function
def logit(x: Array) -> Array:
    """Return log(x / (1 - x)); near 1/2, by log1p of the quotient's difference to 1."""
    near = np.abs(x - 0.5) < 0.1
    return np.where(near, np.log1p((2 * x - 1) / (1 - x)), np.log(x / (1 - x)))


@_float_function
def sinc(x: Array) -> Array:
    """Return sin(pi x) / (pi x), with exact argument reduction: 0 at the integers except 0."""
    whole = np.rint(x)
    sign = 1.0 - 2.0 * np.abs(np.fmod(whole, 2.0))
    quotient = sign * np.sin(np.pi * (x - whole)) / np.where(x == 0, 1.0, np.pi * x)
    return np.where(np.abs(x) < 2.0**-30, 1.0, quotient + 0.0)


@_float_function
def leaky_relu(x: Array, slope: Array) -> Array:
    """Return x above 0, slope * x elsewhere."""
    return np.where(x > 0, x, x * slope)


@_float_function
def elu(x: Array, alpha: Array) -> Array:
    """Return x above 0, alpha (exp(x) - 1) elsewhere."""
    return np.where(x > 0, x, alpha * np.expm1(np.where(x > 0, 0, x)))


def relu(x: Array) -> Array:
    """Return 0 for elements below 0, and other elements as they are, NaN and signed zeros included."""
    x = np.asarray(x)
    if x.dtype == np.bool_:
        raise TypeError("relu does not take bool")
    if x.dtype.kind == "c":
        raise TypeError("relu does not take complex numbers")
    zero = x.dtype.type(0)
    return np.where(x < zero, zero, x)


def nan_to_num(x: Array, nan: Array, posinf: Array, neginf: Array) -> Array:
    """Return np.nan_to_num, in the dtype of x also for Python scalars."""
    if any(np.asarray(v).dtype.kind == "c" for v in (x, nan, posinf, neginf)):
        raise TypeError("nan_to_num takes the parts of complex numbers one by one")
    return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


def round(x: Array, *, decimals: int = 0) -> Array:
    """Return np.round; bools, which NumPy rounds to float16, are rejected."""
    if np.asarray(x).dtype == np.bool_:
        raise TypeError("round does not take bool")
    return np.round(x, decimals)


def isclose(x: Array, y: Array, rtol: Array, atol: Array, *, equal_nan: bool = False) -> Array:
    """Return np.isclose."""
    return np.isclose(x, y, rtol, atol, equal_nan)


def frexp_mantissa(x: Array) -> Array:
    """Return the fraction in [0.5, 1) of np.frexp."""
    return np.frexp(x)[0]


def frexp_exponent(x: Array) -> Array:
    """Return the exponent of np.frexp."""
    return np.frexp(x)[1]


def modf_fraction(x: Array) -> Array:
    """Return the fraction of np.modf."""
    return np.modf(x)[0]


def modf_whole(x: Array) -> Array:
    """Return x without its fraction, of np.modf."""
    return np.modf(x)[1]


FUNCTIONS: dict[str, Callable[..., Array]] = {
    name: made for name, made in dict(globals()).items()
    if getattr(made, "__module__", None) == __name__ and not name.startswith("_")
}
"""Every function of this module by its operator's name, which is its own."""
