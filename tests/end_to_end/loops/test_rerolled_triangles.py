"""Loops over `range(i)` and `range(i, n)`: inner loops of all lengths, the short ones rolled as the long ones are."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rolled import RNG, limits, loops, results

import jitfuse as jf


def pairs(x: Any, y: Any) -> Any:
    total, largest = 0.0, x[0]
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            d = (x[i] - x[j]) * (y[i] - y[j])
            total = total + np.sign(d)
            largest = np.maximum(largest, d)
    return total, largest


def growing(x: Any, y: Any) -> Any:
    out = np.zeros(len(x))
    for i in range(len(x)):
        for j in range(i):
            out[i] = out[i] * 0.5 + x[j] * y[j]
    return out


def shrinking_table(x: Any, y: Any) -> Any:
    table = np.zeros((len(x) + 1, len(x) + 1))
    for i in range(len(x)):
        for j in range(len(x) - i):
            table[i + 1, j] = table[i, j] * 0.5 + table[i, j + 1] - x[j] * y[i]
    return table


def of_two_kinds(x: Any, y: Any) -> Any:
    a = b = x[0]
    for i in range(len(x)):
        for j in range(i):
            a = a * 0.5 + x[j]
        for j in range(len(x) - i):
            b = np.sqrt(np.abs(b)) - y[j]
    return a, b


@pytest.mark.parametrize("fn", [pairs, growing, shrinking_table, of_two_kinds])
@pytest.mark.parametrize("n", [1, 17, 34])
def test_triangles(fn: Callable[..., Any], n: int) -> None:
    x, y = RNG.normal(size=2 * n)[::2], RNG.normal(size=n)[::-1]
    program = jf.fuse(fn).program(x.copy(), y.copy())
    got, plain = results(jf.fuse(fn), (x, y)), results(fn, (x, y), 1)
    with limits(1 << 60, 4):
        want = results(jf.fuse(fn), (x, y))
    for a, b, c in zip(got, want, plain, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape) == (c.dtype, c.shape)
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, c, rtol=1e-9, atol=1e-12)
    if n == 34:
        assert loops(program) >= n - 5  # a loop for each but the shortest
