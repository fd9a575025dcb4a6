"""Continuous distributions: uniform, normal, truncated normal, exponential, gamma.

All but `uniform` are computed in float64 of 53 random bits, for float32 too, and rounded at the end: so their tails do
not end early.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse.array_api.namespace import operate
from jitfuse.control import while_loop
from jitfuse.own_derivatives import custom_vjp
from jitfuse.random.draws import Shape, drawn, extents, float_name, joined, parameter, require
from jitfuse.random.normal_quantile import normal_quantile

if TYPE_CHECKING:
    from jitfuse.array_api.signatures import ArrayLike

_np: Any = np  # its type hints omit traced arrays
_HALF_STEP: Final = 2.0**-54
"""Half of the distance of two random numbers: it takes 0 out of [0, 1), where logarithms are infinite."""
_BOOST: Final = 2**29
"""The draw of a key that small shape parameters of gamma need; the iterations of its loop are numbered from 0."""


def uniform(
    shape: Shape | None = (), low: ArrayLike = 0.0, high: ArrayLike = 1.0, dtype: Any = "float64", key: Any = None
) -> Any:
    """Return random numbers in [low, high): in a fused function other ones in each call, unless there is a key.

    The generator is Philox-4x32-10 (Salmon et al. 2011). Where high - low is not 1, rounding may give `high` itself.

    Args:
        shape: an integer, or a sequence of integers; None: the shape of the parameters.
        low, high: numbers, or arrays that broadcast to the shape; both may be traced and differentiated.
        dtype: float32 or float64, with 24 or 53 random bits.
        key: int64[2], of `jf.random.key`; None: the state of the process.

    Returns:
        An array of NumPy of this shape; a traced array in a fused function.

    Raises:
        DTypeError: another dtype, or a key that is none.
        ShapeError: parameters that do not broadcast to the shape, a negative extent.
        ArgumentError: low >= high, where they are known.

    Example:
        >>> jf.random.seed(0)
        >>> x = jf.random.uniform((2, 3), low=-1.0)
        >>> x.shape, bool((abs(x) <= 1).all())
        ((2, 3), True)
    """
    name = float_name("uniform", dtype)
    bottom, top = parameter("uniform", "low", low, name), parameter("uniform", "high", high, name)
    require("uniform", np.less, "low is below high", bottom, top)
    u = drawn("uniform", extents("uniform", shape, bottom, top), key, dtype=name)
    ends: Any = low, high
    return u if all(type(end) is float for end in ends) and ends == (0.0, 1.0) else u * (top - bottom) + bottom


def normal(
    shape: Shape | None = (), loc: ArrayLike = 0.0, scale: ArrayLike = 1.0, dtype: Any = "float64", key: Any = None
) -> Any:
    """Return numbers of normal distributions: loc + scale z.

    z is by Box and Muller (1958), of two numbers of 53 bits, for float32 too: |z| goes up to 8.65.

    Args:
        shape: an integer, or a sequence of integers; None: the shape of the parameters.
        loc, scale: means and standard deviations: numbers, or arrays that broadcast to the shape; both may be traced
            and differentiated.
        dtype: float32 or float64.
        key: int64[2], of `jf.random.key`; None: the state of the process.

    Returns:
        An array of NumPy of this shape; a traced array in a fused function.

    Raises:
        DTypeError: another dtype, or a key that is none.
        ShapeError: parameters that do not broadcast to the shape, a negative extent.
        ArgumentError: a negative scale, where it is known.

    Example:
        >>> x = jf.random.normal(10_000, loc=3.0, key=jf.random.key(0))
        >>> x.shape, bool(abs(x.mean() - 3) < 0.05)
        ((10000,), True)
    """
    name = float_name("normal", dtype)
    mean, deviation = parameter("normal", "loc", loc, name), parameter("normal", "scale", scale, name)
    _require_scale("normal", deviation)
    u = drawn("normal", (2, *extents("normal", shape, mean, deviation)), key)
    return mean + deviation * _box_muller(u).astype(name)


def truncated_normal(
    shape: Shape | None = (), low: ArrayLike = -2.0, high: ArrayLike = 2.0, loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0, dtype: Any = "float64", key: Any = None,
) -> Any:
    """Return numbers of normal distributions that are within [low, high].

    The quantile function (Wichura 1988, AS 241) of a number between the probabilities of both bounds, in the lower
    tail. Intervals that begin more than 37 standard deviations from `loc` give their nearer end.

    Args:
        shape: an integer, or a sequence of integers; None: the shape of the parameters.
        low, high: bounds of the numbers themselves, also infinite: numbers, or arrays that broadcast to the shape.
        loc, scale: mean and standard deviation without the bounds, as for `normal`. All four may be traced and
            differentiated.
        dtype: float32 or float64.
        key: int64[2], of `jf.random.key`; None: the state of the process.

    Returns:
        An array of NumPy of this shape; a traced array in a fused function.

    Raises:
        DTypeError: another dtype, or a key that is none.
        ShapeError: parameters that do not broadcast to the shape, a negative extent.
        ArgumentError: low >= high, or a scale that is not positive, where they are known.

    Example:
        >>> x = jf.random.truncated_normal(1000, 1.0, np.inf, key=jf.random.key(0))
        >>> bool((x >= 1).all())
        True
    """
    name = float_name("truncated_normal", dtype)
    bottom, top, mean, deviation = (
        parameter("truncated_normal", what, value)
        for what, value in (("low", low), ("high", high), ("loc", loc), ("scale", scale)))
    require("truncated_normal", np.less, "low is below high", bottom, top)
    require("truncated_normal", lambda s: s > 0, "scale is positive", deviation)
    u = drawn("truncated_normal", extents("truncated_normal", shape, bottom, top, mean, deviation), key)
    a, b = (bottom - mean) / deviation, (top - mean) / deviation
    mirrored = a > -b  # probabilities near 0 are exact, those near 1 are not
    below, above = _lower_tail(_np.where(mirrored, -b, a)), _lower_tail(_np.where(mirrored, -a, b))
    z = normal_quantile(_np.clip(below + (above - below) * (u + _HALF_STEP), 2.0**-1000, 1 - 2.0**-53))
    x = mean + deviation * _np.where(mirrored, -z, z)
    return _np.clip(x, bottom, top).astype(name)


def exponential(
    shape: Shape | None = (), scale: ArrayLike = 1.0, dtype: Any = "float64", key: Any = None
) -> Any:
    """Return numbers of exponential distributions: -scale log(1 - u), from 0 to 36.7 scale.

    Args:
        shape: an integer, or a sequence of integers; None: the shape of the parameters.
        scale: the mean: a number, or an array that broadcasts to the shape; it may be traced and differentiated.
        dtype: float32 or float64.
        key: int64[2], of `jf.random.key`; None: the state of the process.

    Returns:
        An array of NumPy of this shape; a traced array in a fused function.

    Raises:
        DTypeError: another dtype, or a key that is none.
        ShapeError: parameters that do not broadcast to the shape, a negative extent.
        ArgumentError: a negative scale, where it is known.

    Example:
        >>> x = jf.random.exponential(10_000, 2.0, key=jf.random.key(0))
        >>> bool((x >= 0).all()), bool(abs(x.mean() - 2) < 0.1)
        (True, True)
    """
    name = float_name("exponential", dtype)
    mean = parameter("exponential", "scale", scale, name)
    _require_scale("exponential", mean)
    u = drawn("exponential", extents("exponential", shape, mean), key)
    return mean * (-_np.log1p(-u)).astype(name)


def gamma(
    shape: Shape | None = (), alpha: ArrayLike = 1.0, scale: ArrayLike = 1.0, dtype: Any = "float64", key: Any = None
) -> Any:
    """Return numbers of gamma distributions, with density proportional to x^(alpha - 1) exp(-x / scale).

    By Marsaglia and Tsang (2000): a loop of the program goes on until each number has been accepted, in a few
    iterations. An alpha below 1 takes the number of alpha + 1, times u^(1 / alpha), which may underflow to 0.

    Args:
        shape: an integer, or a sequence of integers; None: the shape of the parameters.
        alpha: the shape parameter, positive and finite: a number, or an array that broadcasts to the shape. It may be
            traced; where it is not positive and finite then, the result is NaN.
        scale: a number or an array as well; it may be traced and differentiated.
        dtype: float32 or float64.
        key: int64[2], of `jf.random.key`; None: the state of the process.

    Returns:
        An array of NumPy of this shape; a traced array in a fused function.

    Raises:
        DTypeError: another dtype, or a key that is none.
        ShapeError: parameters that do not broadcast to the shape, a negative extent.
        ArgumentError: an alpha that is not positive and finite, or a negative scale, where they are known.
        DerivativeError: a derivative by alpha.

    Example:
        >>> x = jf.random.gamma(10_000, 3.0, key=jf.random.key(0))
        >>> bool((x > 0).all()), bool(abs(x.mean() - 3) < 0.1)
        (True, True)
    """
    name = float_name("gamma", dtype)
    order, factor = parameter("gamma", "alpha", alpha), parameter("gamma", "scale", scale, name)
    require("gamma", lambda a: (a > 0) & (a < np.inf), "alpha is positive and finite", order)
    _require_scale("gamma", factor)
    found = extents("gamma", shape, order, factor)
    own = joined(drawn("gamma", (2,), None)) if key is None else key
    return factor * _standard_gamma(found, _underived(order), own).astype(name)


# ---------------------------------------------------------------- standard distributions
def _box_muller(u: Any) -> Any:
    """Return standard normal numbers of uniform ones, float64[2, ...]."""
    return _np.sqrt(-2.0 * _np.log(u[0] + _HALF_STEP)) * _np.cos(2 * np.pi * u[1])


def _lower_tail(x: Any) -> Any:
    """Return the probability that a standard normal number is below x."""
    return 0.5 * operate("erfc", x * -np.sqrt(0.5))


def _standard_gamma(shape: tuple[int, ...], alpha: Any, key: Any) -> Any:
    boosted = _np.where(alpha < 1, alpha + 1, alpha)
    d = boosted - 1 / 3
    c = 1 / _np.sqrt(9 * _np.maximum(d, 0.5))

    def attempt(value: Any) -> Any:
        number, kept = value
        u = drawn("gamma", (3, *shape), key, number)
        t = c * _box_muller(u[:2])
        inside = t > -1
        t = _np.where(inside, t, 0.0)
        # log(u) < x^2 / 2 + d (1 - v + log(v)) for v = (1 + t)^3, t = x / sqrt(9 d), without cancellation
        limit = d * (3 * (_np.log1p(t) - t) + t * t * (1.5 - t))
        accepted = inside & (_np.log(u[2] + _HALF_STEP) < limit)
        tried = d * ((1 + t) * (1 + t) * (1 + t))
        return number + 1, _np.where((kept == 0) & accepted, tried, kept)

    start = _np.where((alpha > 0) & (alpha < np.inf), 0.0, np.nan) + np.zeros((1,) * len(shape))
    first = np.int64(0), _np.broadcast_to(start, shape).copy()
    made = while_loop(lambda value: (value[1] == 0).any(), attempt, first)[1]
    u = drawn("gamma", shape, key, _BOOST)
    return _np.where(alpha < 1, made * _np.exp(_np.log(u + _HALF_STEP) / alpha), made)


@custom_vjp
def _underived(alpha: Any) -> Any:
    """Return alpha, by which the loop has no derivative in reverse mode, and this step none in forward mode.

    The change of an accepted number is not the whole of it: which numbers are accepted depends on alpha too.
    """
    return alpha


_underived.defvjp(lambda alpha: (alpha, None), lambda kept, change: (change * np.nan,))


def _require_scale(name: str, scale: Any) -> None:
    require(name, lambda s: s >= 0, "scale is not negative", scale)
