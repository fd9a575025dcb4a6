"""Branches that go both ways keep what Python tells apart: which array is which, what is a number of Python's, and what
has been printed."""
from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

N = 14


def changed_through_a_dead_array(x: Any) -> Any:
    y, z = np.zeros(3), np.ones(3)
    for i in range(N):
        if x[i] > 0:
            y = z.copy()
        else:
            z = y
        z += x[i]
    return y, z


def view_of_the_argument(x: Any) -> Any:
    v = x[2:5]
    for i in range(N):
        if x[i] > 0.5:
            v = x[3:6]
    return v


def same_in_a_list(x: Any) -> Any:
    rows = [np.zeros(2), np.ones(2), np.full(2, 2.0)]
    for i in range(N):
        if x[i] > 0.5:
            rows[0] = rows[1]
        elif x[i] < -1:
            rows[1] = rows[2]
    return rows


def changed_in_a_closed_loop(x: Any) -> Any:
    n = 0
    for i in range(N):
        if x[i] > 0:
            n += 1
    y, z = np.zeros(3), np.ones(3)
    while z.sum() < 20:
        y += 1
        z += 0.1
        x = np.roll(x, 1)
        if x[0] > 0:
            y = z
    return y.max(), z.max(), n


def is_true(x: Any) -> Any:
    found, n = False, 0
    for i in range(N):
        if x[i] > 1:
            found = True
        if found is True:
            n += 1
    return found, n, found is False


def is_the_other(x: Any) -> Any:
    y, z, n = np.zeros(3), np.ones(3), 0
    for i in range(N):
        if x[i] > 1:
            y = z
        if y is z:
            n += 1
    return n


def types_of_numbers(x: Any) -> Any:
    n, total = 0, 0.0
    for i in range(N):
        if x[i] > 0:
            n, total = n + 1, total + 2.0
    made = float(x[0]), int(x[1]), x[2].item()
    return type(n) is int, type(total).__name__, [type(m) is float for m in made], type(x[0]) is np.float64, n, total


def beyond_a_double(x: Any) -> Any:
    b: Any = 2**60 + 1
    for i in range(N):
        if x[i] > 1.5:
            b = x[i]
    return int(b) - 2**60


def python_zero(x: Any) -> Any:
    b: Any = 0
    for i in range(N):
        if x[i] > 1.5:
            b = x[i] - x[i]
    return 1.0 / (b * 2)


def caught_division(x: Any) -> Any:
    row: Any = [0] * 3
    for i in range(N):
        if x[i] > 0.5:
            row[i % 3] = x[i] - x[i]
    try:
        return float(1 / row[0])
    except ZeroDivisionError:
        return -5


def power_of_python_zero(x: Any) -> Any:
    b: Any = 0.0
    for i in range(N):
        if x[i] > 1.5:
            b = x[i] - x[i]
    return b**-1.0


def prints(x: Any) -> Any:
    for i in range(N):
        shown = print("a", i) if x[i] > 0 else None
        assert shown is None
    return 1


def _outcome(function: Callable[..., Any], x: Any) -> Any:
    with np.errstate(all="ignore"):
        try:
            result = function(x)
        except ZeroDivisionError:
            return "ZeroDivisionError"
    arrays = [r for r in (result if isinstance(result, tuple | list) else [result]) if isinstance(r, np.ndarray)]
    shared = [[a is b, np.shares_memory(a, b)] for a in arrays for b in [*arrays, x]]
    return type(result), repr(result), shared, x.tobytes()


@pytest.mark.parametrize("function", [
    changed_through_a_dead_array, view_of_the_argument, same_in_a_list, changed_in_a_closed_loop, is_true, is_the_other,
    types_of_numbers, beyond_a_double, python_zero, power_of_python_zero, caught_division, prints,
])
def test_as_plain_python(function: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    fused = jf.fuse(function)
    for seed in (0, 1, 2, 3, 0, 4, 2):
        x = np.random.default_rng(seed).normal(size=N)
        expected = _outcome(function, copy.copy(x)), capsys.readouterr().out
        assert (_outcome(fused, copy.copy(x)), capsys.readouterr().out) == expected


class Kept:
    """What a function keeps from call to call."""

    one, two, chosen = np.zeros(3), np.ones(3), np.zeros(3)


def keeps(x: Any) -> Any:
    found = Kept.one
    for i in range(N):
        if x[i] > 0.5:
            found = Kept.two
    Kept.chosen = found
    return x.sum()


def test_what_is_kept_is_one_of_two_arrays() -> None:
    fused = jf.fuse(keeps)
    for seed in (0, 1, 2, 3, 0):
        x = np.random.default_rng(seed).normal(size=N)
        fused(x)
        found = Kept.chosen
        keeps(x)
        assert found is Kept.chosen


def walked(x: Any) -> Any:
    rng, at, kept = np.random.default_rng(3), 0.0, 0
    for i in range(100):
        step = at + rng.normal()
        if rng.random() < x[i % N]:
            at, kept = step, kept + 1
    return at, kept


def test_draws_one_after_the_other_with_little_between_are_pythons() -> None:
    fused = jf.fuse(walked)
    for seed in (0, 1, 2):
        x = np.random.default_rng(seed).normal(size=N)
        if seed == 0:
            with pytest.warns(jf.FallbackWarning, match="drawn one after the other"):
                found = fused(x)
        else:
            found = fused(x)
        assert found == walked(x)
    assert fused.stats()["fallbacks"] == 3
