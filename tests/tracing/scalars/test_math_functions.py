"""Python's `math` of traced data: run-time numbers that are what Python's are, and raise what Python's raise."""
from __future__ import annotations

import math
from collections.abc import Callable
from math import cos, hypot, sin
from math import sqrt as root
from typing import Any

import numpy as np
import pytest
from split_results import check

import jitfuse as jf

ONE = ("fabs", "atan", "tanh", "asinh", "erf", "erfc", "cbrt", "degrees", "radians", "sqrt", "log", "log2", "log10",
       "log1p", "sin", "cos", "tan", "asin", "acos", "acosh", "atanh", "exp", "exp2", "expm1", "sinh", "cosh", "isnan",
       "isinf", "isfinite", "floor", "ceil", "trunc")
TWO = ("atan2", "copysign", "fmod", "hypot", "pow", "log")
VALUES = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, 2.5, -3.0, 800.0, -800.0, 1e300, -1e300, 5e-324, math.inf, -math.inf,
          math.nan)
RAISED = (ValueError, OverflowError, ZeroDivisionError)


def compare(function: Callable[..., Any], *values: float, which: bool = True) -> Callable[[Callable[..., Any]], None]:
    """Return what compares a fused function with plain Python: value or error, type, sign of zero.

    `which`: the same error, too.
    """
    x = np.array(values)
    try:
        expected, error = function(x), None
    except RAISED as raised:
        expected, error = None, type(raised)

    def run(fused: Callable[..., Any]) -> None:
        if error is not None:
            with pytest.raises(error if which else RAISED):
                fused(x)
            return
        found = fused(x)
        assert type(found) is type(expected)
        np.testing.assert_allclose(found, expected, rtol=4e-16, atol=0)
        assert math.copysign(1, found) == math.copysign(1, expected) or math.isnan(found)

    return run


@pytest.mark.usefixtures("natively")
@pytest.mark.parametrize("name", [n for n in ONE if hasattr(math, n)])
def test_functions_of_one_number(name: str) -> None:
    function = getattr(math, name)
    fused = jf.fuse(lambda x: function(x[0]))
    for value in (1.5, *VALUES):
        if abs(value) >= 1e300 and name in ("floor", "ceil", "trunc") and math.isfinite(value):
            continue  # an int beyond 64 bits
        compare(lambda x: function(float(x[0])), value)(fused)
    assert fused.stats()["traces"] == 1 or name in ("floor", "ceil", "trunc")
    assert fused.stats()["splits"] == 0


@pytest.mark.usefixtures("natively")
@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_numbers(name: str) -> None:
    function = getattr(math, name)
    fused = jf.fuse(lambda x: function(x[0], x[1]))
    for a in VALUES:
        for b in VALUES:
            compare(lambda x: function(float(x[0]), float(x[1])), a, b, which=name != "log")(fused)
    assert fused.stats()["traces"] == 1 and fused.stats()["splits"] == 0


def test_rotations() -> None:
    def givens(a: Any) -> Any:
        a = a.copy()
        for i in range(1, len(a)):
            r = hypot(a[i - 1, 0], a[i, 0])
            c, s = a[i - 1, 0] / r, a[i, 0] / r
            a[[i - 1, i]] = np.array([[c, s], [-s, c]]) @ a[[i - 1, i]]
        angle = math.atan2(a[0, 1], a[0, 0])
        return a, cos(angle) ** 2 + sin(angle) ** 2, root(abs(a[0, 0])) * 2, math.pi * a[1, 1]

    rng = np.random.default_rng(3)
    fused = check(givens, *(rng.normal(size=(5, 5)) for _ in range(12)))
    assert fused.stats()["splits"] == 0


def test_in_branches_and_in_try() -> None:
    def roots(x: Any) -> Any:
        found, best = np.zeros(len(x)), 0.0
        for k in range(len(x)):
            if x[k] >= 0:
                best = math.sqrt(x[k])
            else:
                best = math.exp(x[k])
            found[k] = best
        try:
            last = math.log(x[0])
        except ValueError:
            last = -1.0
        return found, last

    rng = np.random.default_rng(3)
    check(roots, *(rng.normal(size=9) for _ in range(6)))


@pytest.mark.parametrize("dtype", ["int64", "float32", "float64"])
def test_only_numbers_that_are_floats_of_pythons_are_truncated(dtype: str) -> None:
    x = np.array([7, -2]).astype(dtype)
    fused = jf.fuse(lambda x: math.trunc(x[0]))
    if dtype == "float64":
        assert fused(x) == 7 and type(fused(x)) is int
    else:
        for _ in range(2):
            with pytest.raises(TypeError, match="doesn't define __trunc__"):
                fused(x)


def test_numbers_that_are_known_and_arrays() -> None:
    def function(x: Any, n: int) -> Any:
        return np.zeros(math.floor(math.sqrt(n))), math.ceil(2.5) * x, math.exp(0.0), math.sqrt(x.shape[0])

    fused = jf.fuse(function)
    for n in (9, 10, 16):
        for a, b in zip(fused(np.ones(4), n), function(np.ones(4), n), strict=True):
            assert type(a) is type(b)
            np.testing.assert_array_equal(a, b)
    with pytest.raises(TypeError):
        jf.fuse(lambda x: math.sqrt(x))(np.ones(3))
    with pytest.raises(TypeError):
        jf.fuse(lambda x: math.sqrt(x[0], 2))(np.ones(3))  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
def test_ints_of_data_are_not_rounded(name: str) -> None:
    whole = getattr(math, name)
    fused = jf.fuse(lambda x: (whole(int(x[0])), whole(x[0].item())))
    for n in (2**53 + 1, -(2**62) - 1, 3):
        x = np.array([n])
        assert fused(x) == (n, n) and [type(found) for found in fused(x)] == [int, int]
