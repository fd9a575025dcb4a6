"""Loops that write the same places of an array in each iteration, among them those that other loops move on."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rolled import check, loops

import jitfuse as jf

RNG = np.random.default_rng(11)
N = 20
X, W, A = RNG.normal(size=N), RNG.normal(size=6), RNG.normal(size=(6, N))
P = RNG.normal(size=(N, 2))


def one_place(x: Any, out: Any) -> Any:
    for j in range(len(x)):
        out[3] = out[3] * 0.5 + x[j]
    return out


def two_places(x: Any, out: Any) -> Any:
    for j in range(len(x)):
        out[2] += x[j]
        out[4] += x[j] * out[2]
    return out


def largest_and_smallest(x: Any, out: Any) -> Any:
    for j in range(len(x)):
        out[0] = max(out[0], x[j])
        out[1] = min(out[1], x[j])
        out[5] = out[0] - out[1]
    return out


def read_of_all(x: Any, out: Any) -> Any:
    for j in range(len(x)):
        out[1] += x[j]
        out[2] = out.sum()
    return out


def moving_over_it(x: Any, out: Any) -> Any:
    for j in range(len(x)):
        x[7] += x[j] * 0.5
        out[0] += x[7]
    return x, out


def moving_beside_it(x: Any, out: Any) -> Any:
    for j in range(8, len(x)):
        x[7] -= x[j] * 0.5
        out[0] += x[7]
    return x, out


def moving_writes_over_it(x: Any, out: Any) -> Any:
    for j in range(len(x)):
        x[7] += 1.0
        x[j] = x[7] + x[j]
        out[1] = x[7]
    return x, out


def exchanged(x: Any, out: Any) -> Any:
    for j in range(len(x)):
        out[0], out[1] = out[1], out[0] + x[j]
    return out


def kept_value(x: Any, out: Any) -> Any:
    v = out[3]
    for j in range(len(x)):
        out[3] = v * 0.5 + x[j]
        v = out[3]
        out[4] = v - x[j]
    return out, v


def first_value(x: Any, out: Any) -> Any:
    v = x[0]
    for j in range(len(x)):
        v = out[2]
        out[2] = x[j]
    return out, v


def rows(x: Any, out: Any) -> Any:
    table = np.zeros((3, 4))
    for j in range(len(x)):
        table[1, :2] += x[j]
        table[1, 1:3] *= 0.5
        table[2] = table[1] + out[0]
    return table


def strided(x: Any, out: Any) -> Any:
    for j in range(len(x)):
        out[::2] += x[j]
        out[::-2] -= 0.5 * x[j]
    return out


def empty_region(x: Any, out: Any) -> Any:
    for j in range(len(x)):
        out[3:3] += x[j]
        out[2] += x[j]
    return out


@pytest.mark.parametrize("function", [
    one_place, two_places, largest_and_smallest, read_of_all, moving_over_it, moving_beside_it, moving_writes_over_it,
    exchanged, kept_value, first_value, rows, strided, empty_region,
])
def test_places_that_stay(function: Any) -> None:
    check(function, X, W, rerolled=None)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint16", "complex128", "bool"])
def test_dtypes(dtype: str) -> None:
    def ends(x: Any, out: Any) -> Any:
        for j in range(len(x)):
            out[1] = x[j]
            out[2] = out[1] * x[j] + out[2]
        return out

    check(ends, (np.abs(X) * 9).astype(dtype), np.zeros(4, dtype))


def product(a: Any, x: Any) -> Any:
    y = np.zeros(a.shape[0])
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            y[i] += a[i, j] * x[j]
    return y


def forces(p: Any, x: Any) -> Any:
    f = np.zeros_like(p)
    for i in range(len(p)):
        for j in range(len(p)):
            dx, dy = p[j, 0] - p[i, 0], p[j, 1] - p[i, 1]
            r = np.sqrt(dx * dx + dy * dy + 0.01)
            f[i, 0] += dx / r**3
            f[i, 1] += dy / r**3
    return f


def tallied(p: Any, x: Any) -> Any:
    table = np.zeros((len(p), 3))
    for i in range(len(p)):
        for j in range(len(x)):
            table[i, 0] += x[j] * p[i, 0]
            table[i, 1] = max(table[i, 1], x[j])
            if x[j] > p[i, 1]:
                table[i, 2] += 1
    return table


def factors(p: Any, x: Any) -> Any:
    q = np.ones((2, len(x)))
    for i in range(len(p)):
        for j in range(len(x)):
            if x[j] > 0:
                error = x[j] - p[i] @ q[:, j]
                for k in range(2):
                    p[i, k] += 0.01 * (error * q[k, j] - p[i, k])
                    q[k, j] += 0.01 * (error * p[i, k] - q[k, j])
    return p, q


@pytest.mark.parametrize("function", [product, forces])
def test_loops_within_loops(function: Any) -> None:
    check(function, A if function is product else P, X, rerolled=None)


@pytest.mark.parametrize("function", [tallied, factors])
def test_branches_in_loops_within_loops(function: Any) -> None:
    fused = jf.fuse(function)
    for _ in range(4):
        p = RNG.normal(size=(40, 2))
        x, own = RNG.normal(size=40), p.copy()
        want, got = function(p, x), fused(own, x)
        for a, b in zip(want, got, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(own, p, rtol=1e-12, atol=1e-12)
    assert fused.stats()["fallbacks"] == 0


def test_loops_of_other_places_are_one() -> None:
    """All rounds of the outer loop have one body, so that they are a loop too."""
    big = RNG.normal(size=(40, 2))
    program = jf.fuse(forces).program(big, X)
    assert len(program.steps) < 40
    assert loops(program) == 2
    np.testing.assert_allclose(jf.fuse(forces)(big, X), forces(big, X), rtol=1e-12)
