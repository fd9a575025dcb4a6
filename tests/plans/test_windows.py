"""Long chains of item assignments share memory: every result equals plain NumPy's, and nothing is overwritten early."""
from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amount import crossed, drawn
from hypothesis import given, settings
from hypothesis import strategies as st

import jitfuse as jf

KEYS = (
    np.s_[1:-1], np.s_[0], np.s_[-1], np.s_[2:], np.s_[:-2], np.s_[::2], np.s_[1::2], np.s_[::-1], np.s_[:, 0],
    np.s_[:, 1:3], np.s_[2, 1], np.s_[1:-1, 1:-1], np.s_[..., ::-1], np.s_[:, ::-2], np.s_[3:1:-1, 2:], np.s_[1],
)
VALUES = ("{s}[{k}] * 2 + 1", "{s}[::-1][{k}]", "{s}[{k}] + {t}[{k}]", "{s}.mean()", "{s}[{k}] - {s}[{k}].sum()", "{n}",
          "old[{k}] * 0.5", "{t}[{k}].copy() + old.min()", "{s}[0, 0]", "({s} @ {t})[{k}]", "{s}.T[::1].T[{k}]",
          "np.sin({s})[{k}]", "later[{k}] + {s}[{k}]", "{s}[::-1, ::-1][{k}]")


@st.composite
def sources(draw: Any) -> str:
    """Draw a function that changes two arrays in place again and again, with copies of what was there before."""
    lines = ["def f(a, b):", "    b = b * 1.0" if draw(st.booleans()) else "    a, b = a + 0.0, b.copy()",
             "    old = a.copy()", "    later = b * 3 + a"]
    for number in range(draw(st.integers(4, 14))):
        target, other = draw(st.permutations(["a", "b"]))
        key = draw(st.sampled_from(range(len(KEYS))))
        source = draw(st.sampled_from(["a", "b"]))
        value = draw(st.sampled_from(VALUES)).format(s=source, t=other, k=f"K[{key}]", n=number)
        operator = draw(st.sampled_from(["=", "=", "+=", "*="]))
        lines.append(f"    {target}[K[{key}]] {operator} 0.125 * ({value})")
        if draw(st.integers(0, 5)) == 0:
            lines.append(f"    old = {target}.copy()")
        if draw(st.integers(0, 5)) == 0:
            lines.append("    later = a * b + old[::-1]")
    results = ["a, b", "b.sum(), old", "a.T, later", "b[1:], a", "later + old, a"]
    lines.append("    return " + draw(st.sampled_from(results)))
    return "\n".join(lines)


def compiled(source: str) -> Callable[..., Any]:
    names: dict[str, Any] = {"np": np, "K": KEYS}
    exec(source, names)
    function: Callable[..., Any] = names["f"]
    return function


@settings(max_examples=drawn(30), deadline=None)
@given(sources(), st.integers(4, 7))
def test_any_order_of_updates(source: str, n: int) -> None:
    function = compiled(source)
    fused = jf.fuse(function)
    for seed in (0, 1):
        arguments = tuple(np.random.default_rng(seed).standard_normal((2, n, n)))
        theirs = copy.deepcopy(arguments)
        expected, result = function(*arguments), fused(*theirs)
        for e, r in zip((*expected, *arguments), (*result, *theirs), strict=True):
            np.testing.assert_allclose(r, e, rtol=1e-9, atol=1e-9, err_msg=source)


def rows(a: Any) -> Any:
    for i in range(1, len(a)):
        a[i] += 0.5 * a[i - 1]
    return a


def triangle(a: Any) -> Any:
    for k in range(len(a) - 1):
        a[k + 1:, k] /= a[k, k]
        a[k + 1:, k + 1:] -= np.outer(a[k + 1:, k], a[k, k + 1:])
    return a


def flipped(a: Any) -> Any:
    for k in range(1, len(a)):
        a[:k] += a[:k][::-1]
    return a


def snapshots(a: Any) -> Any:
    kept = []
    for k in range(len(a)):
        kept.append(a.copy())
        a[k] = k
    return kept, a


def columns(a: Any) -> Any:
    out = np.empty_like(a)
    for j in range(a.shape[1]):
        out[:, j] = a[:, -1 - j] * j
    return out


@pytest.mark.parametrize(("function", "n", "dtype"), crossed(
    2, [rows, triangle, flipped, snapshots, columns], [1, 2, 5, 17], ["float64", "complex64"]))
def test_loops(function: Callable[..., Any], n: int, dtype: str) -> None:
    data = (np.random.default_rng(n).standard_normal((n, n)) + 3 * np.eye(n)).astype(dtype)
    layouts = data.copy(), np.array(data, order="F"), np.repeat(data, 2, axis=1)[:, ::2], data[::-1].copy()[::-1]
    for fused_argument in layouts:
        plain = data.copy()
        expected, result = function(plain), jf.fuse(function)(fused_argument)
        for e, r in zip((*expected, plain), (*result, fused_argument), strict=True):
            np.testing.assert_allclose(r, e, rtol=1e-5 if dtype == "complex64" else 1e-12)


def test_one_kernel_for_all_rows() -> None:
    fused = jf.fuse(rows)
    fused(np.random.default_rng(0).random((20, 8)))  # too few operations to be rolled
    assert len(fused.kernels) <= 3


def test_each_update_stores_its_region_alone() -> None:
    fused = jf.fuse(columns)
    a = np.random.default_rng(0).random((200, 40))
    fused(a)
    assert fused.stats()["launches"] <= 40


@pytest.mark.parametrize("n", [100_000])
def test_large_arrays_on_all_threads(n: int) -> None:
    def steps(a: Any, b: Any) -> Any:
        for _ in range(4):
            b[1:-1] = (a[:-2] + a[1:-1] + a[2:]) / 3.0
            a[1:-1] = (b[:-2] + b[1:-1] + b[2:]) / 3.0
            a[::2] += a[1::2]
            a[1:] = a[:-1]
            b[5:] *= 2

    ours = np.random.default_rng(0).random((2, n))
    plain = ours.copy()
    steps(*plain)
    jf.fuse(steps)(ours[0], ours[1])
    np.testing.assert_array_equal(ours, plain)
