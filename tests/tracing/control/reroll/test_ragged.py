"""Loops over triangles: sums over rows whose length differs from iteration to iteration are rolled."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amount import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

import jitfuse as jf
from jitfuse.backends.interpreter.runner import ProgramRunner

N = 40


def cholesky(a: Any) -> Any:
    n = a.shape[0]
    a[0, 0] = np.sqrt(a[0, 0])
    for i in range(1, n):
        for j in range(i):
            a[i, j] -= np.dot(a[i, :j], a[j, :j])
            a[i, j] /= a[j, j]
        a[i, i] -= np.dot(a[i, :i], a[i, :i])
        a[i, i] = np.sqrt(a[i, i])


def ludcmp(a: Any) -> Any:
    n = a.shape[0]
    for i in range(n):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[:j, j]
            a[i, j] /= a[j, j]
        for j in range(i, n):
            a[i, j] -= a[i, :i] @ a[:i, j]
    y = np.zeros(n)
    x = np.zeros_like(y)
    for i in range(n):
        y[i] = 1.0 - a[i, :i] @ y[:i]
    for i in range(n - 1, -1, -1):
        x[i] = (y[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return x, y


def triangular_product(a: Any) -> Any:
    b = np.ones_like(a)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            b[i, j] += np.dot(a[i + 1 :, i], b[i + 1 :, j])
    return b


def weighed(a: Any) -> Any:
    found = np.zeros(a.shape[0])
    for i in range(a.shape[0]):
        found[i] = np.sum(np.abs(a[i, :i] - found[:i]) * 0.5) + (a[i, i:] * 2).sum()
    return found


def between(a: Any) -> Any:
    found = np.zeros(a.shape[0])
    for i in range(a.shape[0]):
        found[i] = (a[0, i // 2 : i] * a[1, i // 2 : i]).sum() - a[i, 3:i].sum()
    return found


def squares(a: Any) -> Any:
    found = np.zeros(a.shape[0])
    for i in range(a.shape[0]):
        found[i] = np.dot(a[i, :i], a[i // 2, :i])  # where i is 0 or 1, both are one row
    return found


def shifted(a: Any) -> Any:
    found = np.zeros(a.shape[0])
    for i in range(1, a.shape[0]):
        found[i] = np.dot(a[0, :i], a[1, i::-1][:i]) + a[2, 1 : i + 1] @ a[3, :i]  # not the same part of both
    return found


PROGRAMS = [cholesky, ludcmp, triangular_product, weighed, between, squares, shifted]


def matrix(n: int, dtype: Any = np.float64) -> Any:
    a = np.random.default_rng(n).normal(size=(n, n))
    return (a @ a.T + n * np.eye(n)).astype(dtype)


def compare(program: Callable[..., Any], a: Any, tolerance: float = 1e-12) -> Any:
    """Compare three calls, and the interpreted program, with a plain run: results and what is written."""
    fused, plain = jf.fuse(program), a.copy()
    want = results(program(plain))
    for _ in range(3):
        mine = a.copy()
        for x, y in zip((*results(fused(mine)), mine), (*want, plain), strict=True):
            close(x, y, tolerance)
    recorded = fused.program(a)
    run = ProgramRunner(recorded)({feed: a.copy() for feed in recorded.feeds})
    for x, y in zip(run.outputs.values(), want, strict=True):
        close(x, y, tolerance)
    assert fused.stats()["fallbacks"] == 0
    return recorded


def results(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else () if found is None else (found,)


def close(x: Any, y: Any, tolerance: float) -> None:
    assert x.dtype == y.dtype
    scale = max(1.0, float(np.abs(y[np.isfinite(y)]).max(initial=0)))
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("n", [1, 2, 5, 17, N])
def test_triangles_are_as_in_numpy(program: Callable[..., Any], n: int) -> None:
    if n < 4 and program in (between, shifted):
        return
    compare(program, matrix(n))


@pytest.mark.full
@pytest.mark.usefixtures("in_order")
@pytest.mark.parametrize("program", [cholesky, ludcmp, triangular_product, weighed, between])
def test_loops_over_triangles_are_rerolled(program: Callable[..., Any]) -> None:
    recorded = compare(program, matrix(N))
    ops = [step.op_name for step in recorded.steps]
    assert "rolled_loop" in ops
    assert len(ops) < 30 * N  # and not by each pair of rows


@pytest.mark.parametrize("program", [triangular_product, weighed, squares])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("int64", 1e-12), ("int32", 1e-12)])
def test_elements_of_other_dtypes(program: Callable[..., Any], dtype: str, tolerance: float) -> None:
    compare(program, np.random.default_rng(0).integers(-9, 9, (N, N)).astype(dtype), tolerance)


def test_complex_sums_stay_parts() -> None:
    a = np.random.default_rng(0).normal(size=(2, 20, 20))
    compare(triangular_product, a[0] + 1j * a[1])


@pytest.mark.parametrize("what", [np.nan, np.inf, -0.0, 1e308])
def test_what_does_not_count_changes_nothing(what: float) -> None:
    def lower(a: Any) -> Any:
        found = np.zeros(a.shape[0])
        for i in range(a.shape[0]):
            found[i] = a[i, :i] @ found[:i] * 0.125 + a[i, :i].sum() + 1.0
        return found

    a = np.tril(matrix(N), -1) + np.triu(np.full((N, N), what))
    compare(lower, a * 1.0)
    assert np.isfinite(jf.fuse(lower)(a)).all()


def test_what_counts_is_not_hidden() -> None:
    a = matrix(N)
    a[20, 7] = np.nan
    assert np.isnan(jf.fuse(weighed)(a.copy())).tolist() == np.isnan(weighed(a)).tolist()


def test_long_rows_of_which_little_counts_stay_parts() -> None:
    def few(a: Any) -> Any:
        found = np.zeros(a.shape[0])
        for i in range(a.shape[0]):
            found[i] = a[i, :i].sum()
        return found

    a = np.random.default_rng(0).normal(size=(60, 4000))
    fused = jf.fuse(few)
    np.testing.assert_allclose(fused(a), few(a), rtol=1e-12)
    assert "where" not in str(fused.program(a))


@pytest.mark.full
@settings(max_examples=drawn(18), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["row", "column", "tail", "vector"]), st.sampled_from(["dot", "@", "sum"]),
                       st.booleans()), min_size=1, max_size=3),
    st.sampled_from([16, 23]), st.integers(0, 1000),
)
def test_drawn_triangles(sums: list[Any], n: int, seed: int) -> None:
    def program(a: Any) -> Any:
        x = np.zeros(n)
        for i in range(n):
            for k, (part, how, stored) in enumerate(sums):
                one, other = {
                    "row": (a[i, :i], a[k, :i]), "column": (a[:i, i], x[:i]), "tail": (a[i, i:], x[i:]),
                    "vector": (x[:i], a[k, :i]),
                }[part]
                total = np.dot(one, other) if how == "dot" else one @ other if how == "@" else (one * other - one).sum()
                if stored:
                    a[i, i] = total * 0.5
                else:
                    x[i] += total + a[i, k]
        return x

    a = np.random.default_rng(seed).integers(-3, 3, (n, n)) / 16.0
    fused, plain = jf.fuse(program), a.copy()
    want = program(plain)
    for _ in range(2):
        mine = a.copy()
        np.testing.assert_allclose(fused(mine), want, rtol=1e-9, atol=1e-9 * float(np.abs(want).max() + 1))
        np.testing.assert_allclose(mine, plain, rtol=1e-9, atol=1e-9 * float(np.abs(plain).max() + 1))


def test_sums_at_the_end_of_long_loops() -> None:
    """What a thousand rounds have made of an array is summed as it is: nobody goes through all that it is made of."""
    def drift(x: Any, v: Any) -> Any:
        for _ in range(1000):
            v = v - 0.01 * x * np.abs(x[0] - v[1])
            x = x + 0.01 * v
        return v @ v, np.sum(x * v - x), x

    fused, x, v = jf.fuse(drift), np.array([1.0, 0.1, 0.3]), np.array([0.0, 0.9, 0.2])
    for _ in range(2):
        for got, want in zip(fused(x, v), drift(x, v), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-11)
    assert fused.stats()["fallbacks"] == 0 and fused.stats()["launches"] > 0
