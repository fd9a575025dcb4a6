"""Loops and branches, and Python loops that were rolled back, as exported source, against the fused functions."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import optree
import pytest

import jitfuse as jf
from jitfuse.tracing.control.reroll import long_runs

X = np.linspace(-1.0, 2.0, 12).reshape(3, 4)


def check(load: Any, same: Any, fn: Callable[..., Any], *args: Any) -> str:
    """Compare the export with the fused function; return the text."""
    fused = jf.fuse(fn)
    text = fused.export(*args)
    exported = load(text, "fn")
    got, want = optree.tree_flatten(exported(*args)), optree.tree_flatten(fused(*args))
    assert got[1] == want[1]
    for a, b in zip(got[0], want[0], strict=True):
        same(a, b)
        assert not isinstance(a, np.ndarray) or (a.flags.writeable and not any(a is x for x in args))
    return str(text)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_loops_and_branches(load: Any, same: Any, n: int) -> None:
    def fn(x: Any, n: int) -> Any:
        total, rows = jf.scan(lambda c, v: (c * 0.5 + v, (c, v * 2)), np.zeros(4), x, reverse=True)
        steps = jf.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 0.5 + x, s[1]), (0, x, x))
        chosen = jf.cond(n > 3, lambda a: {"a": a + total, "b": a}, lambda a: {"a": a - total, "b": a}, x)
        return chosen, rows, steps, jf.fori_loop(0, n, lambda i, c: c + i * x, x * 0), jf.map(lambda r: r[::-1] * 2, x)

    check(load, same, fn, X, n)


def test_nested_loops_with_library_steps(load: Any, same: Any) -> None:
    def fn(x: Any, n: int) -> Any:
        def outer(i: Any, c: Any) -> Any:
            return jf.cond((i % 2) == 0, lambda: np.sort(c * -0.5),
                           lambda: jf.fori_loop(0, i, lambda k, v: np.cumsum(v, axis=1) * 0.25 + k, c))

        return jf.fori_loop(0, n, outer, x)

    text = check(load, same, fn, X, 5)
    assert "for i in range" in text


def test_the_empty_scan(load: Any, same: Any) -> None:
    def fn(x: Any) -> Any:
        return jf.scan(lambda c, v: (c + v, v * 2), 0.0, x)

    check(load, same, fn, np.zeros(0))


def test_random_numbers_and_modes_in_a_loop(load: Any, same: Any) -> None:
    def fn(x: Any, training: bool = False) -> Any:
        return jf.fori_loop(0, 4, lambda i, c: jf.nn.dropout(c * 0.5 + jf.random.uniform(x.shape), 0.5), x)

    jf.random.seed(3)
    fused = jf.fuse(fn)
    exported = load(fused.export(X), "fn")
    state = jf.random.state().copy()
    for training in (True, False):
        result, after = exported(X, state, training=training)
        state = after["random_state"]
        same(result, fused(X, training=training))


@pytest.fixture
def early() -> Iterator[None]:
    """Roll short loops."""
    before = long_runs.REROLLED_OPS, long_runs.REROLLED_ITERATIONS
    long_runs.REROLLED_OPS, long_runs.REROLLED_ITERATIONS = 24, 4
    yield
    long_runs.REROLLED_OPS, long_runs.REROLLED_ITERATIONS = before


@pytest.mark.usefixtures("early")
def test_rerolled_loops(load: Any, same: Any) -> None:
    def fn(x: Any, u: Any) -> Any:
        y = np.zeros(20)
        for i in range(1, 20):
            y[i] = 0.5 * y[i - 1] + x[i] * i
        for t in range(19):
            u[t + 1, 1:-1] = u[t, 1:-1] + 0.1 * (u[t, 2:] - 2 * u[t, 1:-1] + u[t, :-2])
        return y, u * 1

    rng = np.random.default_rng(1)
    args = rng.random(20), rng.random((20, 6))
    text = jf.fuse(fn).export(*args)
    assert text.count("_rolled_loop(") >= 3
    mine, theirs = [a.copy() for a in args], [a.copy() for a in args]
    for a, b in zip((*load(text, "fn")(*mine), *mine), (*jf.fuse(fn)(*theirs), *theirs), strict=True):
        same(a, b)
