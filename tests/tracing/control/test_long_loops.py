"""Loops with many rounds are loops of the program: what plain Python gives, and traces whose length no size changes."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import ROUNDED, outcome, same, same_outcome

import jitfuse as jf


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jitfuse.tracing.control.replication._MANY", 300)
    monkeypatch.setattr("jitfuse.tracing.record.recorder.CAPTURED", jf.Budget().operators // 600)


def product(a: Any, b: Any) -> Any:
    n, m, p = a.shape[0], a.shape[1], b.shape[1]
    c = np.zeros((n, p))
    for i in range(n):
        for j in range(p):
            total = 0.0
            for k in range(m):
                total += a[i, k] * b[k, j]
            c[i, j] = total
    return c


def relaxed(a: Any, b: Any) -> None:
    for _ in range(3):
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                a[i, j] = (a[i - 1, j] + a[i, j - 1] + a[i, j] + a[i + 1, j] + a[i, j + 1]) / 5 + b[-i, -j]


def escapes(a: Any, b: Any) -> Any:
    out = np.zeros(a.shape, dtype=int)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            x = y = 0.0
            for k in range(20):
                x, y = x * x - y * y + a[i, j], 2 * x * y + b[j, i]
                if x * x + y * y < 4.0:
                    out[i, j] = k
    return out


def distances(a: Any, b: Any) -> Any:
    d = np.empty((len(a), len(a)))
    for i in range(len(a)):
        for j in range(i, len(a)):
            s = 0.0
            for k in range(a.shape[1]):
                t = a[i, k] - a[j, k]
                s += t * t
            d[i, j] = d[j, i] = np.sqrt(s)
    return d


def integers(a: Any, b: Any) -> Any:
    steps = (a * 8).astype(np.int32)
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=np.int64)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            match = table[i - 1, j - 1] + (steps[i - 1, 0] == steps[j - 1, -1])
            table[i, j] = max(match, table[i - 1, j], table[i, j - 1])
    return table


def downwards(a: Any, b: Any) -> Any:
    x = np.zeros(len(a) * 20)
    for i in range(len(x) - 2, -1, -1):
        x[i] = x[i + 1] * 0.5 + a[i % len(a), 0] - b[i // 20, 1]
        x[i] += i
    return x, x[::-1].sum()


def leaves_the_axis(a: Any, b: Any) -> Any:
    s = 0.0
    for i in range(a.shape[0] * 3):
        for j in range(a.shape[1]):
            a[j % 2, 0] += 1
            s = s + a[i, j] * b[j, 0]
    return s


def used_after(a: Any, b: Any) -> Any:
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            last = a[i, j] * 2
            a[i, j] = last + b[0, 0] * j
    return last, i, j


def rows(a: Any, b: Any) -> Any:
    out = np.zeros((200, a.shape[1]))
    for t in range(1, 200):
        out[t] = out[t - 1] * 0.5 + a[t % len(a)] * b[0, :1]
    return out


def caught(a: Any, b: Any) -> Any:
    s = 0.0
    try:
        for i in range(40):
            for j in range(a.shape[1]):
                s += a[i, j]
                a[i, j] = s
    except IndexError:
        return s, a.copy()
    return s, b


def grows(a: Any, b: Any) -> Any:
    kept = []
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            kept.append(a[i, j] * b[j, i] + i)
    return kept


def _inner(row: Any, by: Any) -> Any:
    s = np.float64(0.0)
    for k in range(len(row)):
        s = s * by + row[k]
    return s


def in_a_helper(a: Any, b: Any) -> Any:
    out = np.zeros(len(a))
    for i in range(len(a)):
        out[i] = _inner(a[i], b[0, 0])
    return out


def no_iterations_inside(a: Any, b: Any) -> Any:
    s, t = 0.0, 1
    for i in range(60):
        for k in range(i, 3):
            s += a[k, i]
        for j in range(a.shape[1]):
            b[j, 0] += s * t
    return s, b


def changes_the_dtype(a: Any, b: Any) -> Any:
    s = 0
    x = a.astype(np.float32)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            s = s + x[i, j] * 2
            x[i, j] = s
    return s, x


LOOPED: list[Callable[..., Any]] = [product, relaxed, escapes, distances, integers, downwards, no_iterations_inside]
OTHERS: list[Callable[..., Any]] = [leaves_the_axis, used_after, rows, caught, grows, in_a_helper, changes_the_dtype]


def arguments(seed: int, n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, n)), rng.normal(size=(n, n))


def check(function: Callable[..., Any], fused: Any, sizes: tuple[int, ...]) -> None:
    for seed, n in enumerate(sizes):
        ours, theirs = arguments(seed, n), arguments(seed, n)
        want = outcome(function, *theirs)
        same_outcome(outcome(fused, *ours), want, ROUNDED)
        if not isinstance(want, Exception):
            same(ours, theirs, ROUNDED)


@pytest.mark.full
@pytest.mark.parametrize("function", LOOPED)
def test_traces_are_short(function: Callable[..., Any]) -> None:
    fused = jf.fuse(function)
    with warnings.catch_warnings(action="error"):
        check(function, fused, (20, 20, 23, 40))
    assert fused.stats()["fallbacks"] == 0
    assert len(fused.program(*arguments(0, 20)).steps) > 0
    spec = fused.explain(*arguments(0, 40))
    assert "fori_loop" in spec or "rolled_loop" in spec


@pytest.mark.parametrize("function", LOOPED + OTHERS)
def test_results_are_those_of_plain_python(function: Callable[..., Any]) -> None:
    fused = jf.fuse(function)
    with warnings.catch_warnings(action="ignore"):
        check(function, fused, (20, 3, 20, 1, 17, 5, 20, 33))


@pytest.mark.full
def test_strides_and_special_values() -> None:
    for function in (product, distances, relaxed):
        fused = jf.fuse(function)
        for view in (np.s_[::-1, :], np.s_[::2, ::-1], np.s_[:, :]):
            base, other = arguments(3, 40)
            base[3, 2], base[4, 4], base[6, 6], base[8, 2] = np.nan, -0.0, np.inf, -np.inf
            with np.errstate(all="ignore"):
                ours, theirs = base.copy()[view], base.copy()[view]
                size = min(ours.shape)
                one, two = (ours[:, :size], theirs[:, :size]) if function is product else (ours, theirs)
                same(fused(one, other[:size] if function is product else other),
                     function(two, other[:size] if function is product else other), ROUNDED)
                np.testing.assert_array_equal(ours, theirs)


def test_what_is_too_long_for_any_other_way_is_traced() -> None:
    fused = jf.fuse(product)
    a, b = arguments(0, 90)
    np.testing.assert_allclose(fused(a, b), a @ b, rtol=1e-9)
    assert fused.stats()["fallbacks"] == 0


def test_a_loop_that_is_refused_is_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rebinding an array in the loop cannot be kept: rounds are copied, or run, as without."""
    def swaps(a: Any, b: Any) -> Any:
        for _ in range(20):
            for i in range(1, len(a)):
                a[i, 0] = b[i - 1, 1] * 0.5 + a[i, 2]
            a, b = b, a
        return a, b

    fused = jf.fuse(swaps)
    check(swaps, fused, (20, 20, 24))
    assert fused.stats()["fallbacks"] == 0
