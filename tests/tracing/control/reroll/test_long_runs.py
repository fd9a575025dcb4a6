"""Loops of few iterations that are long: batches, epochs. They are rolled where written out each would be compiled."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import ROUNDED, same
from rolled import RNG, limits, loops, results

import jitfuse as jf

A = RNG.random((6, 6))


def steps(x: Any, count: int) -> Any:
    """Return x after so many ops that do not merge."""
    for k in range(count // 2):
        x = np.cos(x) * (0.5 + 0.01 * k)
    return x


def compared(fn: Callable[..., Any], *args: Any) -> Any:
    """Compare a function with the same one written out, bit by bit, and with NumPy; return its program."""
    with limits(1 << 60, 16):
        want = results(jf.fuse(fn), args)
    fused = jf.fuse(fn)
    program = fused.program(*args)
    for a, b, c in zip(results(fused, args), want, results(fn, args, 1), strict=True):
        same(a, b)
        same(a, c, ROUNDED)
    return program


@pytest.mark.parametrize(("iterations", "ops", "rerolled"), [
    (5, 80, 1), (3, 100, 0), (5, 60, 0), (7, 64, 1), (20, 20, 1),
])
def test_few_iterations_are_a_loop_where_they_are_long(iterations: int, ops: int, rerolled: int) -> None:
    def fn(x: Any) -> Any:
        for _ in range(iterations):
            x = steps(x, ops - 1) + x * 0.25
        return x

    assert bool(loops(compared(fn, A[0]))) == rerolled


def test_batches_with_losses_in_a_list() -> None:
    def fn(x: Any, w: Any) -> Any:
        w, moment, losses = w.copy(), np.zeros_like(w), []
        for s in range(0, 40, 8):
            batch = x[s : s + 8]
            out = steps(batch @ w, 60)
            losses.append(-np.mean(np.log(out**2 + 1.0)))
            moment = 0.9 * moment + 0.1 * (batch.T @ out)
            w -= 1e-2 * moment / (np.sqrt(moment**2) + 1e-8)
        return np.array(losses), w

    assert loops(compared(fn, RNG.normal(size=(40, 6)), A)) == 1


def test_joins_of_few_numbers_stay_as_they_are() -> None:
    def fn(x: Any) -> Any:
        for _ in range(5):
            x = steps(x, 70)
            x = x * np.array([x[0], x[1] + 1, x[2], x[3] * 2, x[4], x[5]])
        return x

    compared(fn, A[0])


def test_iterations_that_differ_are_written_out() -> None:
    def fn(x: Any) -> Any:
        for k in range(5):
            x = steps(x, 70)
            x = np.sin(x) if k == 2 else x + k
        return x

    assert not loops(compared(fn, A[0]))


def test_values_of_the_iterations_before() -> None:
    def fn(x: Any) -> Any:
        a, b = x, x * 0.5
        kept = np.zeros((6, 6))
        for k in range(6):
            a, b = b, steps(a, 70) - 0.1 * b
            kept[k] = a
        return a, b, kept

    compared(fn, A[0])


@pytest.mark.parametrize("extent", [0, 1, 3])
def test_extents_at_the_edge(extent: int) -> None:
    def fn(x: Any) -> Any:
        for _ in range(5):
            x = steps(x, 70) + x[::-1]
        return x

    compared(fn, RNG.random(extent))
    compared(fn, np.array([np.nan, -0.0, -1e300]))
