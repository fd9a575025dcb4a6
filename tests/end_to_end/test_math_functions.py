"""Real functions as the user calls them: under NumPy's names and the standard's, on arrays of every layout."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special
from oracle import FUNCTIONS, same_numbers

import jitfuse as jf

UNARY = {
    "tan": "tan", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "sinh": "sinh", "cosh": "cosh",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "cbrt": "cbrt", "degrees": "rad2deg",
    "rad2deg": "rad2deg", "radians": "deg2rad", "deg2rad": "deg2rad",
}
BINARY = {"arctan2": "atan2", "hypot": "hypot"}


def layouts(dtype: str) -> list[Any]:
    base = np.random.default_rng(3).normal(0, 1, (40, 46)).astype(dtype)
    special = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, 2e5], dtype)
    return [base, base[::-1, ::-3], base.T, base[:0], base[0, :1], special, np.broadcast_to(base[0], (3, 46))]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("numpy_name", "name"), UNARY.items())
def test_a_function_of_one_array(numpy_name: str, name: str, dtype: str) -> None:
    by_ufunc, by_name = jf.fuse(lambda x: getattr(np, numpy_name)(x)), jf.fuse(lambda x: getattr(jf, name)(x))
    for x in layouts(dtype):
        with np.errstate(all="ignore"):
            want = getattr(np, numpy_name)(x)
        same_numbers(by_ufunc(x), want, FUNCTIONS)
        same_numbers(by_name(x), want, FUNCTIONS)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("numpy_name", "name"), BINARY.items())
def test_a_function_of_two_arrays(numpy_name: str, name: str, dtype: str) -> None:
    by_ufunc = jf.fuse(lambda y, x: getattr(np, numpy_name)(y, x))
    by_name = jf.fuse(lambda y, x: getattr(jf, name)(y, x))
    for y in layouts(dtype):
        for x in (y[..., ::-1], -y, np.full_like(y, 3), y[..., :1]):
            with np.errstate(all="ignore"):
                want = getattr(np, numpy_name)(y, x)
            same_numbers(by_ufunc(y, x), want, FUNCTIONS)
            same_numbers(by_name(y, x), want, FUNCTIONS)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_and_bools_become_the_float_that_numpy_takes(dtype: str) -> None:
    def several(x: Any) -> Any:
        return np.arctan(x), np.hypot(x, 2), np.degrees(x), np.cbrt(x)

    x = np.arange(-9, 9).astype(dtype)
    for got, want in zip(jf.fuse(several)(x), several(x), strict=True):
        same_numbers(got, want, FUNCTIONS)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["erf", "expit", "log_expit", "logit", "xlogy"])
def test_scipys_ufuncs_have_scipys_dtypes(name: str, dtype: str) -> None:
    function = getattr(scipy.special, name)
    x = (np.linspace(0.1, 0.9, 9) * (1 if "float" in dtype else 9)).astype(dtype)
    with np.errstate(all="ignore"):
        for operands in [(x,)] if function.nin == 1 else [(x, x), (x, 0.5), (x, np.float32(0.5)), (2, x)]:
            got, want = jf.fuse(lambda *xs: function(*xs))(*operands), function(*operands)
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=8 * float(np.finfo(want.dtype).eps))


def test_powers_of_literals_are_numpys_at_infinities_and_zeros() -> None:
    x = np.array([-np.inf, -0.0, 0.0, np.inf, np.nan, -4.0, 4.0, 0.25])
    for function in (
        lambda x: np.float_power(x, 0.5), lambda x: np.power(x, 0.5), lambda x: x**0.5,
        lambda x: np.float_power(x, -0.5), lambda x: np.float_power(x, 2), lambda x: x**2,
        lambda x: np.float_power(x, -1), lambda x: x**0,
    ):
        with np.errstate(all="ignore"):
            expected = function(x)
        found, number = jf.fuse(function)(x), ~np.isnan(expected)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(expected)[number])
