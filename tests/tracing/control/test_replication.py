"""Loops whose iterations are replicated: the program is that of all of them, the last ones too where they differ."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops_run import replicated

import jitfuse as jf

SIZES = (0, 1, 9, 15, 16, 17, 40)


# ---------------------------------------------------------------- loops whose rounds are alike
def filled(x: Any) -> Any:
    for i in range(len(x)):
        x[i] = 1.5
    return x


def recurrence(x: Any) -> Any:
    for i in range(1, len(x)):
        x[i] = x[i - 1] * 0.5 + x[i]
    return x


def total(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s = s + x[i] * x[i]
    return s


def fibonacci(x: Any) -> Any:
    a = x[0]
    b = x[1]
    for i in range(2, len(x)):
        a, b = b, (a + b) * 0.5
        x[i] = b
    return x, a


def three_back(x: Any) -> Any:
    for i in range(3, len(x)):
        x[i] = x[i] + 0.1 * x[i - 3]
    return x


def largest(x: Any) -> Any:
    m = -1.0
    for i in range(len(x)):
        if x[i] > m:
            m = x[i]
    return m


def clipped(x: Any) -> Any:
    for i in range(len(x)):
        if x[i] > 0.5:
            x[i] = 0.5
        else:
            x[i] = x[i] * 2 + np.sqrt(abs(x[i]))
    return x


def tabulated(x: Any) -> Any:
    n = len(x)
    table = np.zeros((n + 1, n + 1))
    best = 0.0
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            here = table[i - 1, j - 1] + (2.0 if x[i - 1] > x[j - 1] else -1.0)
            table[i, j] = max(0, here, table[i - 1, j] - 1, table[i, j - 1] - 1)
            if table[i, j] > best:
                best = table[i, j]
    return table, best


def triangle(x: Any) -> Any:
    n = len(x)
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            out[i, j] = x[i] - x[j]
    return out


def rows(x: Any) -> Any:
    out = np.zeros((len(x), 4))
    for i in range(len(x)):
        row = out[i]
        row[1:3] = x[i]
        out[i, 0] = row.sum()
    return out


def windows(x: Any) -> Any:
    out = np.empty(max(len(x) - 4, 0))
    for i in range(len(x) - 4):
        out[i] = x[i : i + 5].mean()
    return out


def downwards(x: Any) -> Any:
    for i in range(len(x) - 2, -1, -1):
        x[i] = x[i] - 0.5 * x[i + 1]
    return x


def steps_of_two(x: Any) -> Any:
    for i in range(0, len(x) - 1, 2):
        k = 2 * i - i
        x[k], x[k + 1] = x[k + 1], x[k]
    return x


def smoothed(x: Any) -> Any:
    for _ in range(20):
        x[1:-1] = 0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:]
    return x


def held(x: Any) -> Any:
    before = np.zeros(2)
    after = np.ones(2)
    for i in range(len(x)):
        before = after
        after = np.zeros(2)
        after[0] = before[1] + x[i]
        after[1] = before[0]
    return before, after


def copied_from_an_end(x: Any) -> Any:
    s = x[-1]
    for i in range(len(x)):
        s = s * 0.9 + x[i]
    return s


def counted_within(x: Any) -> Any:
    out = np.zeros((len(x), 5))
    for i in range(len(x)):
        s = x[i]
        for k in range(5):
            s = s * 0.5 + k
            t = k * 0.25
            m = k + 1
            if s > t:
                out[i, k] = k - m * t
            out[i, -m] += 5 - k
    return out


def escaping(x: Any) -> Any:
    out = np.zeros(len(x), dtype=int)
    for i in range(len(x)):
        z = 0.0
        for k in range(6):
            z = z * z + x[i]
            if abs(z) < 2.0:
                out[i] = k
    return out


def looping_in_branches(x: Any) -> Any:
    out = np.zeros((len(x), 3))
    for i in range(len(x)):
        if x[i] > 0:
            error = x[i] - out[i].sum()
            for k in range(3):
                out[i, k] += 0.5 * error * (k + 1)
        else:
            for k in range(2):
                out[i, k + 1] = x[i] * k
    return out


def known_range(x: Any) -> Any:
    return repeated(x, 4)


def repeated(x: Any, iterations: int) -> Any:
    for i in range(len(x)):
        for k in range(iterations):
            x[i] = x[i] * 0.5 + k
    return x


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("function", [
    counted_within, escaping, looping_in_branches, known_range,
    filled, recurrence, total, fibonacci, three_back, largest, clipped, triangle, rows, windows, downwards,
    steps_of_two, smoothed, held, copied_from_an_end, tabulated,
])
def test_alike(function: Callable[..., Any], size: int, copies: list[int]) -> None:
    replicated(function, np.random.default_rng(size).normal(size=size))
    if size == 40:
        assert sum(copies) >= 8


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "complex64", "bool"])
@pytest.mark.parametrize("function", [filled, downwards, steps_of_two, windows])
def test_dtypes(function: Callable[..., Any], dtype: str) -> None:
    replicated(function, (np.arange(24) % 5).astype(dtype))


@pytest.mark.parametrize("view", [lambda x: x[::-1], lambda x: x[::3], lambda x: x.reshape(2, -1).T[:, 1]])
def test_strides(view: Callable[[Any], Any]) -> None:
    for function in (recurrence, clipped, downwards):
        x = np.linspace(-1, 2, 60)
        want, got = x.copy(), x.copy()
        function(view(want))
        jf.fuse(function)(view(got))
        np.testing.assert_allclose(got, want, rtol=1e-12)


# ---------------------------------------------------------------- loops whose last rounds are others
def over_the_end(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s = s * 0.9 + x[i + 1]
        x[i] = s
    return s


def crossing_zero(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s = s * 0.9 + x[i - 20]
    return s


def ending_short(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s = s * 0.9 + x[i : i + 12].sum()
    return s


def beginning_short(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s = s * 0.9 + x[max(0, 3) + i - 30 : i + 12].sum()
    return s


def caught(x: Any) -> Any:
    return guarded(x, lambda k: over_the_end(x))


def guarded(x: Any, body: Any) -> Any:
    try:
        body(0)
    except IndexError:
        x[0] = 7.0
    return x


@pytest.mark.parametrize("size", [15, 16, 25, 40])
@pytest.mark.parametrize("function", [over_the_end, crossing_zero, ending_short, beginning_short, caught])
def test_others_at_the_end(function: Callable[..., Any], size: int) -> None:
    replicated(function, np.random.default_rng(size).normal(size=size))


def empty_between(x: Any) -> Any:
    s = 0.0
    for i in range(90):
        s = s + x[i - 50 : i - 45].sum()
    return s


def whole_at_both_ends(x: Any) -> Any:
    s = 0.0
    for i in range(101):
        s = s * 0.5 + x[i - 100 :].sum()
    return s


def written_between(x: Any) -> Any:
    for i in range(90):
        x[i - 50 : i - 45] = 7.0
        x[i - 100 :] += 1.0
    return x


def sizes_between(x: Any) -> Any:
    for i in range(101):
        x[0] = x[0] + (5.0 if x[i - 100 :].size == 5 else 1.0)
    return x


def inner_slices(x: Any) -> Any:
    s = 0.0
    for i in range(60):
        for j in range(8):
            s = s * 0.5 + x[i - 50 + j : i - 45].sum() + x[:i - 60 : 2].sum()
    return s


@pytest.mark.parametrize("size", [1, 20, 60, 101])
@pytest.mark.parametrize("function", [
    empty_between, whole_at_both_ends, written_between, sizes_between, inner_slices])
def test_slices_that_meet_an_end(function: Callable[..., Any], size: int) -> None:
    replicated(function, np.random.default_rng(size).normal(size=size))


def test_read_before_the_loop(copies: list[int]) -> None:
    def function(x: Any) -> Any:
        s = x[30] + x[7]
        for i in range(len(x)):
            s = s * 0.5 + x[i]
        return s

    replicated(function, np.arange(40.0))
    assert copies
