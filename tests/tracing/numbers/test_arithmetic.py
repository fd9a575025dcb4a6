"""Python numbers that are arguments compute as in Python: exact ints, and what Python raises."""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import check, outcome

import jitfuse as jf
from jitfuse.errors import DivisionByZeroError, NumberTooLargeError

INTS = (0, 1, -1, 3, -7, 2**31 - 1, 2**31, -(2**31), 2**40 + 1, 2**53 + 1, 2**62, -(2**63), 2**63 - 1, 2**63, 2**70)
FLOATS = (0.0, -0.0, 1.5, -2.0, 1e-200, 1e200, math.inf, -math.inf, math.nan)

AMONG_INTS: dict[str, Callable[..., Any]] = {
    "sum": lambda n: n + 1,
    "difference": lambda n: -n - 2,
    "square": lambda n: n * n,
    "cube": lambda n: n**3,
    "absolute": lambda n: abs(n) + 1,
    "quotient": lambda n: n / 3,
    "inverse": lambda n: 1 / n,
    "floor": lambda n: 7 // n + n // 7,
    "modulo": lambda n: 10 % n,
    "divmod": lambda n: divmod(n, 7),
    "mixed": lambda n: n + 0.5,
    "larger": lambda n: n > 9007199254740992.0,
    "equal": lambda n: n == 9007199254740992.0,
    "bits": lambda n: (n & 255) ^ 3 | n,
    "rounded": lambda n: (math.floor(n), math.ceil(n), math.trunc(n)),
}
WITH_ARRAYS: dict[str, Callable[..., Any]] = {
    "scaled": lambda x, n: x * (n * n + 1),
    "shifted": lambda x, n: x + n - 1,
    "shared": lambda x, n: x / (n + 3),
}


@pytest.mark.parametrize("name", AMONG_INTS)
def test_ints_are_exact(name: str) -> None:
    check(AMONG_INTS[name], *[(n,) for n in INTS], errors=Exception, compiled=False)


@pytest.mark.parametrize("name", WITH_ARRAYS)
def test_ints_beside_arrays(name: str) -> None:
    x = np.arange(5) / 4
    check(WITH_ARRAYS[name], *[(x, n) for n in INTS], errors=Exception, compiled=False)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "floordiv", "mod", "pow"])
def test_two_ints(name: str) -> None:
    import operator

    few = (0, 1, -2, 5, 2**31 - 1, 2**33, -(2**62))
    pairs = [(a, b) for a, b in itertools.product(few, few) if name != "pow" or 0 <= b < 99]
    check(getattr(operator, name), *pairs, errors=Exception, compiled=False)


def test_small_ints_share_a_trace_and_large_ones_are_traced_for_their_values() -> None:
    def hashed(n: int) -> Any:
        k = n
        for _ in range(20):
            k = (k * 31 + n) % 1000003
        return k

    fused = jf.fuse(hashed)
    for n in (0, 5, -3, 2**31 - 1, 99):
        assert fused(n) == hashed(n)
    assert fused.stats()["traces"] == 1
    for n in (2**31, 2**60, -(2**63)):
        assert outcome(fused, n) == hashed(n)


def test_sums_that_grow_leave_64_bits_as_in_python() -> None:
    def grown(n: int) -> Any:
        k = 7
        for _ in range(30):
            k = k * 31 + n
        return k

    fused = jf.fuse(grown)
    for n in (3, 5, -1):
        assert outcome(fused, n) == grown(n)


DIVIDED: dict[str, Callable[..., Any]] = {
    "quotient": lambda x, h: x + 1 / h,
    "square": lambda x, h: x / 2 * (1 / (h * h)),
    "floor": lambda x, h: x + 5.0 // h,
    "modulo": lambda x, h: x + 5 % h,
    "negative power": lambda x, h: x + h**-2,
    "power": lambda x, h: x + h**2,
    "root": lambda x, h: x + abs(h) ** 0.5,
    "of zero": lambda x, h: x + 0.0 ** abs(h),
    "whole": lambda x, h: x + (1 + 1j) / h,
}


@pytest.mark.parametrize("name", DIVIDED)
def test_floats_raise_what_python_raises(name: str) -> None:
    x = np.arange(3.0)
    check(DIVIDED[name], *[(x, h) for h in FLOATS], errors=Exception, compiled=False)


def test_numpy_scalars_divide_as_arrays_do() -> None:
    check(lambda x, h: x + 1 / h, *[(np.arange(3.0), np.float64(h)) for h in FLOATS], errors=Exception, compiled=False)


def test_nothing_is_written_where_a_number_is_divided_by_zero() -> None:
    @jf.fuse
    def scale(x: Any, h: float) -> Any:
        x *= 1 / h
        return x.sum()

    x = np.ones(1000)
    for _ in range(3):
        scale(x, 1.0)
        with pytest.raises(DivisionByZeroError, match=r"np\.float64"):
            scale(x, 0.0)
    np.testing.assert_array_equal(x, 1.0)


def test_a_check_fuses_with_what_it_checks() -> None:
    function = jf.fuse(lambda x, h: x * (1 / (h * h)) + x)
    function(np.ones(100), 2.0)
    assert function.stats()["launches"] == 1


# ---------------------------------------------------------------- scalars written into arrays of integers
def _first(a: Any, v: Any) -> Any:
    a[0] = v
    return a


def _all(a: Any, v: Any) -> Any:
    a[...] = v
    return a


def _sum(a: Any, x: Any) -> Any:
    a[1:] = x.sum()
    return a


NUMBERS = (
    2.0, -2.7, 255.9, 256.0, -1.0, 3e9, -2147483648.9, 2147483648.0, 9.3e18, 1e300, math.nan, math.inf,
    -math.inf,
)
TARGETS = ("int8", "uint8", "int32", "int64", "uint64")


@pytest.mark.parametrize("dtype", TARGETS)
@pytest.mark.parametrize("write", [_first, _all])
def test_floats_written_into_integers(write: Callable[..., Any], dtype: str) -> None:
    numbers = [v for v in NUMBERS if v > 0 or dtype != "uint64" or not np.isfinite(v)]
    check(write, *[(np.zeros(4, dtype), v) for v in numbers], errors=Exception, compiled=False)
    for number in NUMBERS:  # literals are judged while tracing
        if dtype != "uint64" or not np.isfinite(number):
            check(lambda a, v=number, write=write: write(a, v), (np.zeros(4, dtype),), errors=Exception, compiled=False)


@pytest.mark.parametrize("dtype", TARGETS)
def test_computed_scalars_written_into_integers(dtype: str) -> None:
    arrays = [np.array(v) for v in ([100, 100], [1, -2], [2**40, 1], [1.5, 2.5], [1.0, math.nan], [2.0**62, 2.0**63])]
    arrays += [np.array([2**63, 5], "uint64"), np.array([3, -4], "int8")]
    calls = [(np.zeros(4, dtype), x) for x in arrays if dtype != "uint64" or (x.dtype.kind != "f")]
    check(_sum, *calls, errors=Exception, compiled=False)


def test_arrays_written_into_integers_are_cut_off() -> None:
    check(_all, (np.zeros(4, "int8"), np.array([300, 1, 2, -500])), errors=Exception, compiled=False)


def test_a_number_that_does_not_fit_is_an_overflow() -> None:
    with pytest.raises(NumberTooLargeError):
        jf.fuse(_first)(np.zeros(3, "int8"), 300.0)


# ---------------------------------------------------------------- powers of arrays
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_arrays_to_the_power_of_a_number_are_numpys(dtype: str) -> None:
    special = [-math.inf, -0.0, 0.0, 4.0, -4.0, math.nan, 1e-310, 3.3]
    x = np.concatenate([special, np.random.default_rng(0).standard_normal(101) * 10]).astype(dtype)
    for function in (lambda x, p: x**p, lambda x, p: np.power(x, p), lambda x, p: np.array(-math.inf, x.dtype) ** p):
        fused = jf.fuse(function)
        for power in (2, 2.0, -1, -1.0, 0.5, 0, 1, 0.0, 1.0):
            with np.errstate(all="ignore"):
                want = function(x, power)
            got = fused(x, power)
            np.testing.assert_array_equal(got, want)
            signs = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got)[signs], np.signbit(want)[signs])
