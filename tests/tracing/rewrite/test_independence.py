"""Loops whose iterations depend on each other, or may: they are not computed side by side."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops_run import vectorised

import jitfuse as jf

SIZES = (0, 1, 3, 4, 5, 17, 40)


def recurrence(x: Any, y: Any) -> Any:
    for i in range(1, len(x)):
        x[i] = x[i - 1] * 0.5 + x[i]
    return x


def transposed(x: Any, y: Any) -> Any:
    a = np.outer(x, y)
    for i in range(len(x)):
        for j in range(len(y)):
            a[i, j] = a[j, i] + 1
    return a


def histogram(x: Any, y: Any) -> Any:
    h = np.zeros(8, dtype=np.int64)
    for i in range(len(x)):
        h[int(abs(x[i]) * 2) % 8] += 1
    return h


def handed_on(x: Any, y: Any) -> Any:
    out, before = np.empty_like(x), 0.0
    for i in range(len(x)):
        out[i] = x[i] - before
        before = x[i]
    return out


def smoothed(x: Any, y: Any) -> Any:
    for i in range(1, len(x) - 1):
        x[i] = (x[i - 1] + x[i + 1]) / 2
    return x


def overlapping(x: Any, y: Any) -> Any:
    view = x[1:]
    for i in range(len(view)):
        view[i] = x[i] + 1
    return x


def product_of_all(x: Any, y: Any) -> Any:
    p = 1.0
    for i in range(len(x)):
        p *= x[i]
    return p


def two_sums(x: Any, y: Any) -> Any:
    s = t = 0.0
    for i in range(len(x)):
        s += x[i]
        t += s
    return s, t


def many_times(x: Any, y: Any) -> Any:
    out = np.zeros(2)
    for i in range(len(x)):
        out[0] = x[i]
        out[1] += x[i]
    return out


def beyond(x: Any, y: Any) -> Any:
    for i in range(len(x)):
        x[i] = y[i + 1]
    return x


def python_ints(x: Any, y: Any) -> Any:
    total = 0
    for i in range(len(x)):
        total += int(x[i]) * 2**60
    return total


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("function", [
    recurrence, transposed, histogram, handed_on, smoothed, overlapping, product_of_all, two_sums, many_times, beyond,
    python_ints,
])
def test_in_order(function: Callable[..., Any], size: int) -> None:
    rng = np.random.default_rng(size)
    vectorised(function, rng.normal(size=size) * 3, rng.normal(size=size))


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_arguments_that_share_memory() -> None:
    def shifted(x: Any, y: Any) -> Any:
        for i in range(len(y)):
            y[i] = x[i] * 2
        return y

    for plain, seen in (np.arange(12.0), np.arange(12.0)), (np.arange(4.0), np.arange(4.0)):
        want, got = shifted(plain[:-1], plain[1:]), jf.fuse(shifted)(seen[:-1], seen[1:])
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(seen, plain)


def halved(x: Any, y: Any) -> Any:
    for i in range(len(x)):
        s = 1.0
        for k in range(i + 1):
            if x[i] > k * 0.1:
                s = s * 0.5 + 1
        y[i] = s
    return y


def test_numbers_give_way_under_a_mask(spread: list[bool]) -> None:
    """What is the same in all iterations is a number of Python's or NumPy's under a mask as without one."""
    vectorised(halved, np.arange(12, dtype=np.float32) * np.float32(0.1), np.zeros(12))
    assert spread == [True]


def large(x: Any, y: Any) -> Any:
    s = 0
    for _ in range(1 << 16):
        s += 1 << 46
        s += 1 << 46
    return s


def stored(x: Any, y: Any) -> Any:
    for i in range(len(x)):
        y[i] = x[i]
    return y


def subtracted(x: Any, y: Any) -> Any:
    t, u = np.int64(0), 0.0
    for i in range(len(x)):
        t -= x[i]
        for j in range(i):
            u -= x[j]
        y[i] = 1
    return t, u


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "float32"])
def test_what_is_subtracted_does_not_wrap(dtype: str) -> None:
    vectorised(subtracted, np.array([1, 2, -128, 7, 0, 3]).astype(dtype), np.zeros(6))


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_numbers_that_do_not_fit() -> None:
    vectorised(large, np.zeros(3), np.zeros(3))
    vectorised(stored, np.full(6, np.inf), np.zeros(6, np.int64))
    vectorised(stored, np.full(6, 600), np.zeros(6, np.int8))
    vectorised(stored, np.full(6, 100), np.zeros(6, np.int8))


def steps(x: Any, y: Any) -> Any:
    view = x[1:]
    for _ in range(6):
        for i in range(len(view)):
            view[i] = x[i] * 0.5 + y[i]
    return x


def test_a_loop_that_cannot_be_vectorised_is_tried_once(spread: list[bool]) -> None:
    vectorised(steps, *np.random.default_rng(3).normal(size=(2, 12)))
    assert spread == [False]
