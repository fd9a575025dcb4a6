"""Small arrays from globals and closures are tables: Python may look at their values, which each call compares."""
from __future__ import annotations

import types
from typing import Any

import numpy as np

import jitfuse as jf

MOVES = np.array([[0, 1], [1, 0], [0, -1]])


def moved(x: Any) -> Any:
    total = np.zeros_like(x)
    for k, (dy, dx) in enumerate(MOVES):
        total += (k + 1) * np.roll(np.roll(x, dy, axis=0), dx, axis=1)
    return total if MOVES[0, 1] > 0 else -total


def test_values_are_known_and_compared() -> None:
    global MOVES
    fused, x = jf.fuse(moved), np.arange(12.0).reshape(3, 4)
    before = MOVES
    try:
        for change in (lambda: None, lambda: None, lambda: MOVES.__setitem__((1, 0), 2), lambda: MOVES.fill(-1)):
            change()
            np.testing.assert_array_equal(fused(x), moved(x))
        MOVES = np.array([[1, 1], [0, 2], [0, 0]], np.int32)
        np.testing.assert_array_equal(fused(x), moved(x))
    finally:
        MOVES = before
    assert fused.stats()["splits"] == 0
    assert fused.stats()["traces"] == 4


def test_in_closures_attributes_and_layouts() -> None:
    table, owner = np.array([3.0, 1.0, 4.0, 2.0])[::2], types.SimpleNamespace(sizes=np.array([2, 3]))

    @jf.fuse
    def f(x: Any) -> Any:
        return x[: owner.sizes[0]] * float(table[1]) + int(table[0])

    for _ in range(2):
        np.testing.assert_array_equal(f(np.ones(5)), np.full(2, 7.0))
    owner.sizes = np.array([1, 3])
    np.testing.assert_array_equal(f(np.ones(5)), np.full(1, 7.0))
    table[1] = 5.0
    np.testing.assert_array_equal(f(np.ones(5)), np.full(1, 8.0))
    assert f.stats()["splits"] == 0


def test_what_the_function_writes_is_seen_by_the_next_call() -> None:
    counts = np.array([1, 2])

    @jf.fuse
    def f(x: Any) -> Any:
        n = int(counts[0])
        counts[0] += 1
        return x * n

    assert [float(f(np.float64(2.0))) for _ in range(3)] == [2.0, 4.0, 6.0]
    assert counts[0] == 4
