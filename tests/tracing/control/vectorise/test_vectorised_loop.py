"""Loops whose iterations are computed side by side: what Python's loop computes, to the bit."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amount import crossed
from loops_run import vectorised

import jitfuse as jf

SIZES = (0, 1, 3, 4, 5, 17, 40)
SCALE = 0.5


def table(x: Any, y: Any) -> Any:
    d = np.empty((len(x), len(y)))
    for i in range(len(x)):
        for j in range(len(y)):
            d[i, j] = np.sqrt((x[i] - y[j]) ** 2) / (1 + x[i] * x[i])
    return d


def product(x: Any, y: Any) -> Any:
    a, b = np.outer(x, y), np.outer(y, x + 1)
    c = np.zeros((len(x), len(x)))
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            c[i, j] = total
    return c


def accumulated(x: Any, y: Any) -> Any:
    a = np.outer(x, y)
    c = np.zeros((len(x), len(y)))
    for i in range(len(x)):
        for k in range(len(y)):
            for j in range(len(y)):
                c[i, j] += a[i, k] * a[k % len(x), j]
    return c


def stencil(x: Any, y: Any) -> Any:
    u = np.outer(x, y)
    for _ in range(3):
        v = u.copy()
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        u = v
    return u


def pairs(x: Any, y: Any) -> Any:
    p = np.stack([x, x * x + 1], axis=1)
    f = np.zeros_like(p)
    for i in range(len(p)):
        for j in range(len(p)):
            if i != j:
                dx, dy = p[j, 0] - p[i, 0], p[j, 1] - p[i, 1]
                w = 1.0 / (dx * dx + dy * dy + 0.5)
                f[i, 0] += w * dx
                f[i, 1] += w * dy
    return f


def nearest(x: Any, y: Any) -> Any:
    labels = np.zeros(len(x), dtype=np.int64)
    for i in range(len(x)):
        best = np.inf
        for c in range(len(y)):
            d = (x[i] - y[c]) ** 2
            if d < best:
                best = d
                labels[i] = c
    return labels


def counted(x: Any, y: Any) -> Any:
    above = below = 0
    for i in range(len(x)):
        if x[i] > 0.5:
            above += 1
        elif x[i] < -0.5:
            below += 2
    return above, below, above - below


def triangle(x: Any, y: Any) -> Any:
    concordant = 0
    a = np.zeros((len(x), len(x)))
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            a[i, j] = x[i] * x[j]
            if x[i] < x[j]:
                concordant += 1
    return a, concordant


def lower(x: Any, y: Any) -> Any:
    a = np.ones((len(x), len(x)), dtype=np.float32)
    for i in range(len(x)):
        for j in range(i):
            a[i, j] = x[i] - j
    return a


def summed(x: Any, y: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s += math.sin(x[i]) * x[i]
    return s


def summed_downwards(x: Any, y: Any) -> Any:
    s = np.float32(0)
    for i in range(len(x) - 1, -1, -1):
        s += np.float32(x[i])
    return s, i if len(x) else None


def windows(x: Any, y: Any) -> Any:
    out = np.zeros(max(len(x) - 2, 0))
    for i in range(len(out)):
        s = 0.0
        for k in range(3):
            s += x[i + k] * (k + 1)
        out[i] = s
    return out


def wrapped(x: Any, y: Any) -> Any:
    out = np.empty_like(x)
    n = len(x)
    for i in range(n):
        out[i] = x[i - 1] + x[(i + 1) % n] - x[-1] * x[0]
    return out


def picked(x: Any, y: Any) -> Any:
    order = np.argsort(x)
    out = np.empty_like(x)
    for i in range(len(x)):
        out[i] = x[order[i]] * SCALE
    return out


def last_values(x: Any, y: Any) -> Any:
    out = np.empty_like(x)
    t = 7.0
    for i in range(len(x)):
        t = x[i] + 1
        out[i] = t * t
    return out, t, i if len(x) else None


def halves(x: Any, y: Any) -> Any:
    for i in range(0, len(x), 2):
        x[i] = -x[i]
    return x


def columns(x: Any, y: Any) -> Any:
    a = np.outer(x, y)
    for j in range(a.shape[1]):
        for i in range(a.shape[0]):
            a[i, j] = a[i, j] * 2 + j if i % 2 else a[i, j] - 1
    return a


def rows(x: Any, y: Any) -> Any:
    a = np.outer(x, y)
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = np.sum((a[i] - y) ** 2) + a[i].max(initial=0.0)
    return out


def temporary(x: Any, y: Any) -> Any:
    out = np.zeros(len(x))
    for i in range(len(x)):
        t = np.zeros(3)
        t[0] = x[i]
        t[1] = t[0] * 2
        t[2] = t[1] - x[i]
        out[i] = t[0] + t[1] + t[2]
    return out


def escaping(x: Any, y: Any) -> Any:
    out = np.zeros((len(x), len(y)), dtype=np.int64)
    for i in range(len(x)):
        for j in range(len(y)):
            a = b = 0.0
            n = 0
            while a * a + b * b <= 4.0 and n < 12:
                a, b = a * a - b * b + x[i], 2 * a * b + y[j]
                n += 1
            out[i, j] = n
    return out


def newton(x: Any, y: Any) -> Any:
    out = np.zeros(len(x))
    for i in range(len(x)):
        z = 1.0
        for _ in range(30):
            step = (z * z - abs(x[i])) / (2 * z)
            z -= step
            if abs(step) < 1e-9:
                break
        out[i] = z
    return out


def _steps(v: Any, most: int) -> Any:
    """Halvings until a number is small."""
    for n in range(most):
        if abs(v) < 0.1:
            return n
        v = v * 0.5
    return most


def _sign(v: Any) -> Any:
    if v > 0.25:
        return 1
    if v < -0.25:
        return -1
    return 0


def helped(x: Any, y: Any) -> Any:
    out = np.zeros(len(x), dtype=np.int64)
    for i in range(len(x)):
        out[i] = _steps(x[i], 6) * _sign(x[i])
    return out


def conditional(x: Any, y: Any) -> Any:
    out = np.full(len(x), -1.0)
    for i in range(len(x)):
        if i > 0 and x[i] > x[i - 1]:
            out[i] = x[i] / x[i - 1]
        elif i < len(x) - 1:
            out[i] = x[i + 1]
    return out


def energy(x: Any, y: Any) -> Any:
    e = 0.0
    for i in range(len(x) - 1):
        for j in range(i + 1, len(x)):
            r = abs(x[i] - x[j]) + 0.1
            e += y[i] * y[j] / r
            if r < 0.5:
                e -= 0.01 * r
    return e


def sums_in_turn(x: Any, y: Any) -> Any:
    t, u = -0.0, np.float32(1.5)
    for i in range(len(x)):
        t += x[i]
        for j in range(3):
            t += y[i] * j
            if x[i] > 0:
                u += np.float32(y[i])
        t -= 0.5 if y[i] > 0 else x[i]
    return t, u


def triples(x: Any, y: Any) -> Any:
    n = m = 0
    for i in range(len(x)):
        for j in range(i):
            for k in range(j):
                n += 1
                if x[i] + x[j] > x[k]:
                    m += k
    return n, m


def rows_times(x: Any, y: Any) -> Any:
    a = np.outer(x, y)
    out, g = np.zeros((len(x), 2)), np.zeros((len(x), len(x)))
    for i in range(len(x)):
        out[i] = np.array([x[i] + 1, y[i] * 2])
        for j in range(len(x)):
            g[i, j] = np.dot(a[i], a[j]) + np.linalg.norm(a[i] - a[j]) + a[i] @ y
    return np.round(out, 9), np.round(g, 9)


SPREAD = [
    energy, sums_in_turn, triples, rows_times,
    table, product, accumulated, stencil, pairs, nearest, counted, triangle, lower, summed, summed_downwards, windows,
    wrapped, picked, last_values, halves, columns, rows, temporary, escaping, newton, helped, conditional,
]


@pytest.mark.parametrize(("function", "size"), [
    *crossed(2, SPREAD, [size for size in SIZES if size != 17]), *((function, 17) for function in SPREAD)])
def test_spread(
    function: Callable[..., Any], size: int, spread: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(size)
    if size == 17:
        monkeypatch.setenv("JITFUSE_DEBUG", "1")  # an error within is ours
    vectorised(function, rng.normal(size=size), rng.normal(size=size))
    if size == 17:
        assert True in spread


@pytest.mark.parametrize("function", SPREAD)
def test_values_that_are_none(function: Callable[..., Any]) -> None:
    x = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 5e-324, 1.0, -1.0])
    vectorised(function, x, x[::-1].copy())


@pytest.mark.parametrize("dtype", ["float32", "int64", "int8", "uint8", "bool"])
@pytest.mark.parametrize("function", [counted, wrapped, picked, nearest, conditional, halves])
def test_dtypes(function: Callable[..., Any], dtype: str) -> None:
    x = np.random.default_rng(1).integers(-100, 100, 12).astype(dtype)
    vectorised(function, x, x + x.dtype.type(1))


def test_one_program_is_recorded(spread: list[bool]) -> None:
    x = np.random.default_rng(0).normal(size=30)
    fused = jf.fuse(table)
    fused(x, x)
    assert spread == [True] and fused.stats()["traces"] == 1
    assert fused.stats()["launches"] <= 4
