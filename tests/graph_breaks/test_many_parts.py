"""Functions of many parts: further ones are rolled from few rounds on, so that rounds share what is compiled."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amount import crossed

import jitfuse as jf
from jitfuse.graph_breaks.breaks import MANY_SUBGRAPHS


def orthogonal(a: Any, v: Any, k: Any) -> Any:
    """Arnoldi's iteration by modified Gram-Schmidt: round j has j rounds of its own."""
    n = len(v)
    basis, h = np.zeros((n, k + 1)), np.zeros((k + 1, k))
    basis[:, 0] = v / np.linalg.norm(v)
    for j in range(k):
        w = a @ basis[:, j]
        for i in range(j + 1):
            h[i, j] = w @ basis[:, i]
            w -= h[i, j] * basis[:, i]
        h[j + 1, j] = np.linalg.norm(w)
        if h[j + 1, j] < 1e-10:
            return basis, h
        basis[:, j + 1] = w / h[j + 1, j]
    return basis, h


def rotated(h: Any, k: Any) -> Any:
    """Givens rotations of a Hessenberg matrix, column by column, in place."""
    cs, sn = np.zeros(k), np.zeros(k)
    for j in range(k):
        column = h[:, j].copy()
        for i in range(j):
            both = cs[i] * column[i] + sn[i] * column[i + 1]
            column[i + 1] = -sn[i] * column[i] + cs[i] * column[i + 1]
            column[i] = both
        length = np.hypot(column[j], column[j + 1])
        if length == 0:
            break
        cs[j], sn[j] = column[j] / length, column[j + 1] / length
        column[j], column[j + 1] = length, 0.0
        h[:, j] = column
    return cs, sn


def rerolled(fused: Any) -> list[bool]:
    """Return of each segment whether there is a loop in it."""
    return ["rolled_loop" in s.spec.trace.program.op_names for s in fused.parts.plain.breaks.subgraphs.values()]


@pytest.mark.parametrize(("n", "dtype", "turned"), crossed(2, [1, 2, 7, 20], ["float64", "float32"], [False, True]))
def test_iterations_within_iterations_are_numpys(n: int, dtype: str, turned: bool) -> None:
    r = np.random.default_rng(0)
    a, v = (r.normal(size=s).astype(dtype) for s in ((n, n), n))
    if turned:
        a, v = a[::-1, ::-1].T, v[::-1]
    fused = jf.fuse(orthogonal)
    for _ in range(2):
        for got, want in zip(fused(a, v, n), orthogonal(a, v, n), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, atol=1e-7 if dtype == "float64" else 1e-2)
    if n == 20:
        found = rerolled(fused)
        assert not any(found[:MANY_SUBGRAPHS]) and all(found[MANY_SUBGRAPHS + 2 : 15])


@pytest.mark.parametrize("n", [0, 1, 6, 24])
def test_numbers_in_place_are_numpys(n: int) -> None:
    r = np.random.default_rng(1)
    h = np.triu(r.normal(size=(n + 1, n)), -1)
    fused = jf.fuse(rotated)
    for _ in range(2):
        own, plain = h.copy(), h.copy()
        for got, want in zip((*fused(own, n), own), (*rotated(plain, n), plain), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)
    if n == 24:
        assert any(rerolled(fused)[MANY_SUBGRAPHS:])


def test_nan_and_negative_zero_pass_through_rerolled_iterations() -> None:
    def chained(x: Any) -> Any:
        for j in range(12):
            y = x.copy()
            for i in range(j + 1):
                y = np.where(y > 0, y * 0.5, -y) - x[i] * 0.0
            if y[-1] > 1e9 + j:
                return x
            x = y
        return x

    x = np.array([1.0, -0.0, 0.0, 2.0, -3.0, 4.0, -5.0, 0.0, 1e-310, 9.0, -1.0, 2.0, -2.0, 7.0])
    for values in (x, np.where(np.arange(14) == 3, np.nan, x), np.where(np.arange(14) == 5, -np.inf, x)):
        with np.errstate(invalid="ignore"):
            want = chained(values)
        got = jf.fuse(chained)(values)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)])
