"""Rolled loops over the elements of tables: loops in loops with indices."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rolled import RNG, N, X, check, results

import jitfuse as jf

G = RNG.random((N - 5, N + 3))


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "complex64"])
def test_a_table_by_rows_or_by_columns(dtype: str) -> None:
    def fn(a: Any, b: Any) -> Any:
        for i in range(1, a.shape[0]):
            for j in range(1, a.shape[1]):
                a[i, j] = a[i - 1, j] - a[i, j - 1] - a[i - 1, j - 1]
        for j in range(b.shape[1] - 2, -1, -1):
            for i in range(b.shape[0] - 1, 0, -1):
                b[i, j] = b[i - 1, j] - b[i, j + 1] + a[i, j]
        return a

    a = (G * 9).astype(dtype)
    check(fn, a, np.copy(a), rerolled=4, close=1e-3 if dtype in ("float32", "complex64") else 0)


@pytest.mark.full
def test_a_table_of_distances() -> None:
    def fn(a: Any, b: Any) -> Any:
        d = np.zeros((len(a) + 1, len(b) + 1), np.int64)
        d[:, 0], d[0] = np.arange(len(a) + 1), np.arange(len(b) + 1)
        for i in range(1, len(a) + 1):
            for j in range(1, len(b) + 1):
                other = a[i - 1] != b[j - 1]
                d[i, j] = np.minimum(np.minimum(d[i - 1, j], d[i, j - 1]) + 1, d[i - 1, j - 1] + other)
        return d[-1, -1], d

    check(fn, RNG.integers(0, 3, N), RNG.integers(0, 3, N + 4), rerolled=2)


@pytest.mark.full
def test_a_row_and_then_its_elements() -> None:
    def fn(a: Any) -> Any:
        for _ in range(6):
            for i in range(1, a.shape[0] - 1):
                a[i, 1:-1] += a[i - 1, :-2] + a[i - 1, 2:] + a[i, 2:] + a[i + 1, 1:-1]
                for j in range(1, a.shape[1] - 1):
                    a[i, j] += a[i, j - 1]
                    a[i, j] /= 9.0
        return a.sum()

    check(fn, G, rerolled=3, close=1e-10)


@pytest.mark.full
def test_sweeps_over_a_table() -> None:
    def fn(a: Any, steps: int = 6) -> Any:
        for _ in range(steps):
            for i in range(1, a.shape[0] - 1):
                for j in range(1, a.shape[1] - 1):
                    a[i, j] = (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]) * 0.25
        return a

    check(lambda a: fn(a[::-1, ::2]), RNG.random((N - 3, 2 * N)), rerolled=3)


def test_sums_over_three_indices() -> None:
    def fn(a: Any, b: Any) -> Any:
        c = np.zeros((a.shape[0], b.shape[1]))
        for i in range(a.shape[0]):
            for j in range(b.shape[1]):
                total = 0.0
                for k in range(a.shape[1]):
                    total += a[i, k] * b[k, j]
                c[i, j] = total
        return c

    check(fn, RNG.random((6, 14)), RNG.random((14, 7)), rerolled=3, close=1e-12)


def test_tables_of_three_indices() -> None:
    def fn(a: Any, b: Any) -> Any:
        for t in range(1, a.shape[0]):
            for i in range(1, a.shape[1] - 1):
                for j in range(a.shape[2]):
                    a[t, i, j] = (a[t - 1, i + 1, j] + a[t, i - 1, j]) * 0.5 + b[j, i]
        return a

    check(fn, RNG.random((7, 8, 11)), RNG.random((11, 8)), rerolled=3)


def test_an_iteration_reads_in_part_what_it_has_written() -> None:
    def fn(a: Any, x: Any) -> Any:
        for i in range(1, a.shape[0] - 1):
            a[i, 2:9] = a[i - 1, 2:9] + a[i + 1, 1:8] * a[0, 2:9]
            a[i, 4:6] = a[i, 3:5] * 0.5
            a[i] = a[i] * 0.5 + a[i, ::-1]
        for i in range(x.size - 4):
            x[i : i + 3] = x[i + 1 : i + 4] * 0.5
            x[i + 1] = x[i : i + 2].sum()
            x[i + 2 : i + 4] += x[i : i + 2]
        return a[1:3]

    check(fn, G, X, rerolled=2)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 16, 17, 33, 70])
@pytest.mark.parametrize("m", [1, 2, 65, 100])
def test_extents_of_tables(n: int, m: int) -> None:
    def fn(a: Any, b: Any) -> Any:
        for i in range(n):
            for j in range(m):
                a[i + 1, j + 1] = a[i, j + 1] * 0.5 + a[i + 1, j] - b[j, i]

    a, b = RNG.random((n + 1, m + 1)), RNG.random((m + 1, n + 1))
    fused = jf.fuse(fn)
    for x, y in zip(results(fused, (a, b)), results(fn, (a, b), 1), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("shape", [(70, 70), (60, 6), (60, 20), (18, 200)])
def test_a_large_table_is_a_short_program(shape: tuple[int, int]) -> None:
    def fn(a: Any) -> Any:
        for i in range(1, a.shape[0]):
            for j in range(1, a.shape[1]):
                a[i, j] = a[i - 1, j] * 0.5 + a[i, j - 1] * 0.25
        return a

    a = RNG.random(shape)
    fused = jf.fuse(fn)
    assert len(fused.program(a).steps) == 1
    for x, y in zip(results(fused, (a,)), results(fn, (a,), 1), strict=True):
        np.testing.assert_array_equal(x, y)


def test_elements_that_are_read_once_and_often() -> None:
    def fn(a: Any, b: Any, c: Any) -> Any:
        for i in range(1, len(a)):
            x = b[i]
            a[i] = a[i - 1] * x + x * c[i]
        for i in range(1, len(a)):
            a[i] = a[i - 1] * b[i] - b[i]
        return a

    check(fn, np.copy(X), np.cos(X), np.sin(X), rerolled=2)
