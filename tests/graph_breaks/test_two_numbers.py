"""Functions in which Python reads two numbers, of which one becomes data first; errors of numbers beside a `try`."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "full": lambda x, i, j: np.full((i, j), x[0]),
    "slice": lambda x, i, j: x[j:i] * 2,
    "windows": lambda x, i, j: x[i : i + j] + 1,
    "step": lambda x, i, j: x[i :: j + 1] - 1,
    "range": lambda x, i, j: x + sum(range(i, j)),
    "tile": lambda x, i, j: np.tile(x, (i, j)),
    "text": lambda x, i, j: (x * 2, "a" * i + "b" * j),
    "list": lambda x, i, j: (x * 2, list("abcdefghi")[i:j]),
    "three": lambda x, i, j: (np.full((i, j), x[0]), range(i + j)[j:]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_numbers_of_many_values(name: str) -> None:
    function = FUNCTIONS[name]
    x = np.arange(9.0)
    for seed in range(6):
        fused, rng = jf.fuse(function), np.random.default_rng(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", jf.FallbackWarning)
            for _ in range(60):
                i, j = rng.integers(0, 9, 2).tolist()
                got, want = fused(x, i, j), function(x, i, j)
                got, want = (got, want) if isinstance(want, tuple) else ((got,), (want,))
                np.testing.assert_array_equal(got[0], want[0])
                assert got[1:] == want[1:]


def divided(x: Any, s: Any, n: Any) -> Any:
    m = s / n
    try:
        return x * 2 if m > 0.5 else x * 3
    except ZeroDivisionError:
        return x * 0


def remainder(x: Any, s: Any, n: Any) -> Any:
    m = s % n
    try:
        return x * max(m, n)
    except ArithmeticError:
        return "caught"


def power(x: Any, s: Any, n: Any) -> Any:
    m = n ** -s
    try:
        return x[int(m) :]
    except ZeroDivisionError:
        return "caught"


def inside(x: Any, s: Any, n: Any) -> Any:
    try:
        return x * 2 if s / n > 0.5 else x * 3
    except ZeroDivisionError:
        return x * 0


@pytest.mark.parametrize("function", [divided, remainder, power, inside])
@pytest.mark.parametrize("first", [0, 1])
def test_errors_of_numbers_belong_to_their_line(function: Callable[..., Any], first: int) -> None:
    """A `try` after the line does not catch its error, in whatever order calls with and without it come."""
    fused, x = jf.fuse(function), np.arange(3.0)
    rng = np.random.default_rng(first)
    for n in (first, *rng.integers(0, 4, 60).tolist()):
        s = float(rng.integers(0, 3)) if function is not power else int(rng.integers(1, 3))
        try:
            want = function(x, s, n)
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                fused(x, s, n)
        else:
            np.testing.assert_array_equal(fused(x, s, n), want)


@pytest.mark.parametrize("function", [
    lambda x, n: x[:n] * 2, lambda x, n: x + sum(range(n)), lambda x, n: x * len(str(n)),
    lambda x, n: x[max(0, n - 3) : n],
])
def test_warnings_tell_numbers_of_the_call_from_data(function: Callable[..., Any]) -> None:
    fused, x = jf.fuse(function), np.arange(30.0)
    with pytest.warns(jf.FallbackWarning, match=r"Python needs a number of the call at .*test_two_numbers\.py"):
        for n in range(40):
            np.testing.assert_array_equal(fused(x, n), function(x, n))


def test_warnings_tell_data_from_numbers_of_the_call() -> None:
    data = jf.fuse(lambda x, n: x[: int(x[n])])
    with pytest.warns(jf.FallbackWarning, match="different (values|extents) of traced data"):
        for n in range(30):
            x = np.arange(80.0)
            np.testing.assert_array_equal(data(x + n, 3), (x + n)[: 3 + n])
            np.testing.assert_array_equal(data(x * 0 + n, 3), (x * 0 + n)[:n])
