"""Kernels that differ in places alone are built once, and are what building each would give."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.plans import equal_kernels
from jitfuse.plans.launch import Launch

pytestmark = pytest.mark.usefixtures("in_order")
RNG = np.random.default_rng(3)
N = 12


def cholesky(a: Any) -> Any:
    for i in range(N):
        for j in range(i):
            a[i, j] = (a[i, j] - np.dot(a[i, :j], a[j, :j])) / a[j, j]
        a[i, i] = np.sqrt(a[i, i] - np.dot(a[i, :i], a[i, :i]))


def rows(x: Any) -> Any:
    made = np.zeros((N, 3))
    for i in range(N):
        made[i] = x[i, ::2] * x[N - 1 - i, 1::2] + x[i % 3, 0:3] - 0.5
    return made


def folded(x: Any) -> Any:
    made = np.zeros((N, 6))
    for i in range(N - 2):
        made[i] = np.reshape(x[i : i + 2, 1:4], 6) + np.reshape(x[:3, 2:4], 6) * x[i]
    return made


def backwards(x: Any) -> Any:
    made = np.empty((N, 6), x.dtype)
    for i in range(N):
        made[i] = x[i, ::-1] + x[N - 1 - i, None, 0] - x[:, i % 6].mean()
    return made


def of_one(x: Any) -> Any:
    made = np.zeros((N, 1))
    for i in range(N):
        made[i] = x[i, i % 6] * 2.0 - 0.0 * x[i, 0] + (-0.0 if i % 2 else 0.0)
    return made


def scaled_by_integers(x: Any) -> Any:
    made = np.zeros(N)
    for k in range(N):
        made[k] = (x[k, 0] + k) * (k % 3) + x.sum(axis=1).argmax() % (k + 1)
    return made


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Have every launch that is not built compared with what building it gives; counts them."""
    counts = {"found": 0, "built": 0}
    launch = equal_kernels.EqualKernels.launch

    def both(self: Any, kernel: Any, build: Callable[[], tuple[Launch, bool]]) -> tuple[Launch, bool]:
        found = kernel is not None and self._known.get(kernel.key) is not None
        got = launch(self, kernel, build)
        counts["found" if found else "built"] += 1
        if found:
            want = build()
            assert got == want and got[0].form.canonical_bytes == want[0].form.canonical_bytes
        return got

    monkeypatch.setattr(equal_kernels.EqualKernels, "launch", both)
    return counts


@pytest.mark.parametrize("function", [cholesky, rows, folded, backwards, of_one, scaled_by_integers])
@pytest.mark.parametrize("layout", ["rows", "columns", "every second", "backwards"])
def test_kernels_are_those_that_are_built(
    function: Callable[..., Any], layout: str, compared: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jitfuse.tracing.control.reroll.long_runs.REROLLED_OPS", 1 << 60)
    x = RNG.normal(size=(N, N if function is cholesky else 6))
    x = x @ x.T + N * np.eye(N) if function is cholesky else x
    own = laid_out(x, layout), laid_out(x, layout)
    got, want = jf.fuse(function, cache=False)(own[0]), function(own[1])
    np.testing.assert_allclose(own[0], own[1], rtol=1e-12)
    if want is not None:
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-15)
        assert (np.signbit(got) == np.signbit(want)).all() or function is not of_one
    assert compared["built"] and (compared["found"] or function in (scaled_by_integers, folded))


def laid_out(x: np.ndarray, layout: str) -> np.ndarray:
    if layout == "columns":
        return np.asfortranarray(x)
    if layout == "every second":
        wide = np.zeros((x.shape[0], 2 * x.shape[1]))
        wide[:, ::2] = x
        return wide[:, ::2]
    return x[::-1].copy()[::-1] if layout == "backwards" else x.copy()


def test_dtypes_and_broadcasts_tell_kernels_apart(compared: dict[str, int]) -> None:
    def fn(x: Any, y: Any) -> Any:
        made = np.zeros((8, 6))
        for i in range(8):
            made[i] = x[i] + y[i, :1] if i % 2 else y[i] + x[i, 3]
        return made

    x, y = RNG.normal(size=(8, 6)), RNG.integers(0, 9, (8, 6)).astype(np.float32)
    np.testing.assert_allclose(jf.fuse(fn, cache=False)(x, y), fn(x, y), rtol=1e-6)
    assert compared["found"]


def test_the_first_iterations_have_the_kernels_of_the_others() -> None:
    def iterations(a: Any) -> Any:
        for k in range(8):
            p = k + np.argmax(np.abs(a[k:, k]))
            if p != k:
                a[[k, p]] = a[[p, k]]
        return a

    a = RNG.normal(size=(9, 9))
    fused = jf.fuse(iterations, cache=False)
    np.testing.assert_array_equal(fused(a.copy()), iterations(a.copy()))
    assert fused.stats()["splits"] >= 8
    assert fused.stats()["compiles"] < 8
