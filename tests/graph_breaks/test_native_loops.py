"""Loops as tables of the native driver: known rounds run no Python, and do what the function does, bit by bit."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from native_trees import halving, misses, native
from oracle import same

pytestmark = pytest.mark.usefixtures("natively")


@pytest.mark.parametrize("n", [1, 3, 17, 1000])
def test_a_loop(n: int) -> None:
    x = np.linspace(-3, 4, n)
    fused = native(halving, (x, 1.0), (x * 1e30, 1.0), (x, 9.0))
    before = misses(fused)
    for k in range(200):
        for y in (x * 1.1**k, (x * 1.1**k)[::-1].copy()):
            same(fused(y, 1.0), halving(y, 1.0))
    assert misses(fused) == before


def test_nan_ends_a_loop() -> None:
    x = np.array([1.0, np.nan, 3.0])
    native(halving, (x, 1.0), (x * np.inf, 1.0), (np.array([8.0, -0.0, 1]), 1.0))


def test_layouts() -> None:
    x = np.arange(24.0).reshape(4, 6)

    def f(x):
        while x.sum() > 3:
            x = x.T * 0.5
        return x, x.T, x[1:]

    native(f, (x[::2, ::-1],), (np.asfortranarray(x),), (x[:, 2:5],))
    native(f, (np.zeros((0, 3)),))


def fibonacci(x, n):
    a, b = x * 0.0, x + 0.0
    while a.max() < n:
        a, b = b, a + b
    return a, b


def rotation(x, n):
    a, b, c = x + 0.0, x * 2, x * 3
    while c[0] < n:
        a, b, c = c + 1, a, b
    return a, b, c


def two_ways_back(x, n):
    a, b = x + 0.0, x * 0.5
    while a.sum() + b.sum() < n:
        if a[0] > b[0]:
            a, b = b + 1, a
        else:
            b = a * 0.25 + b + 1
    return b, a


def nested(x, n):
    iterations = x[0] * 0
    y = x * 2
    while x.max() < n:
        before = y
        while y.min() < x.max() * 2:
            y = y * 1.5 + 1
            x, y = x + 0.25, y + 0.0
        if y[0] > 40:
            x, y = y * 0.5, before * 0.125
        iterations = iterations + 1
        x = x + 1
    return x, y, iterations


def one_after_the_other(x, n):
    while x.sum() > n:
        x = x * 0.5
    y = x + 1
    if y[0] > 1.25:
        while y.sum() < n * 3:
            x, y = y, y * 1.25
    else:
        y = -y
    while y.max() > 1:
        y = y - 0.125 * x[0] - 0.5
    return x, y


def through_a_view(x, n):
    y = x.copy()
    half = y[::2]
    while half.sum() < n:
        half += 1
        y[0] = y[0] * 0.5
    return y, half


def with_a_flag(x, n):
    more = x.sum() < n
    last = x
    while more:
        last, x = x, x + 1
        more = x.sum() < n
    return last, x, more


def early(x, n):
    while True:
        x = x * 1.25 + 1
        if x[0] > n:
            return x
        if x[1] > n:
            return x[0]
        if x.sum() > 3 * n:
            break
    return x * 0, n


LOOPS = (fibonacci, rotation, two_ways_back, nested, one_after_the_other, through_a_view, with_a_flag, early)


@pytest.mark.parametrize("function", LOOPS)
def test_loops(function: Any) -> None:
    rng = np.random.default_rng(5)
    calls = [(np.round(rng.random(3) * s, 2), n) for s in (1, 3, 9) for n in (2.5, 20.0, 60.0)]
    fused = native(function, *calls, known=6)
    for _ in range(60):
        x, n = rng.random(3) * rng.choice([1, 4, 9]), float(rng.choice([1, 10, 80]))
        same(fused(x.copy(), n), function(x.copy(), n))
