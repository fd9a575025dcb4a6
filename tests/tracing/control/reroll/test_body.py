"""What bodies of rolled loops may hold, how long loops are, and random loops.

JITFUSE_TEST_SCALE multiplies the number of random loops.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amount import drawn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rolled import RNG, N, Y, check, limits, loops, results

import jitfuse as jf


def test_library_steps_in_loops() -> None:
    def fn(a: Any, x: Any) -> Any:
        for _ in range(N):
            x = np.linalg.solve(a, np.sort(x)) * 0.5
        return x

    check(fn, RNG.random((5, 5)) + np.eye(5) * 5, Y, close=1e-9)


def test_matrix_products_in_loops() -> None:
    def fn(a: Any, b: Any) -> Any:
        x = b * 0
        for _ in range(N):
            x = (b - (a - np.diag(np.diag(a))) @ x) / np.diag(a)
        return x

    check(fn, RNG.random((5, 5)) + np.eye(5) * 5, Y, close=1e-9, rerolled=None)


def test_loops_of_this_library_in_loops() -> None:
    def fn(x: Any, n: int) -> Any:
        for i in range(N):
            x = jf.fori_loop(0, n, lambda k, c, i=i: c * 0.5 + k + i, x) + 1
        return x

    check(fn, Y, 3, rerolled=0)  # the number i is part of a body


@pytest.mark.full
def test_random_numbers_and_the_mode() -> None:
    def fn(x: Any) -> Any:
        for _ in range(N):
            x = jf.nn.dropout(x * 0.5 + jf.random.uniform(x.shape), 0.5)
        return x

    made = []
    for ops in (24, 1 << 60):
        with limits(ops, 4):
            jf.random.seed(7)
            fused = jf.fuse(fn)
            made.append([fused(Y, training=training) for training in (True, False, True, False)])
            assert loops(fused.program(Y)) == (ops == 24)
    for a, b in zip(*made, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_mode_in_a_loop() -> None:
    @jf.fuse
    def fn(x: Any, training: bool = False) -> Any:
        for _ in range(N):
            x = x * 0.5 + 1 if training else x + 0.25
        return x

    with limits(24, 4):
        for training in (True, False):
            want = Y
            for _ in range(N):
                want = want * 0.5 + 1 if training else want + 0.25
            np.testing.assert_array_equal(fn(Y, training=training), want)


# ---------------------------------------------------------------- lengths around the limit
@pytest.mark.parametrize("n", [*range(4), 15, 16, 17, 63, 64, 65, 85, 86, 87, 300])
def test_lengths(n: int) -> None:
    def fn(x: Any, y: Any) -> Any:
        y[0] = 1
        for i in range(n):
            y[i + 1] = x[i] * 0.5 + y[i]
        return y + 1

    x, y = RNG.random(n + 1), RNG.random(n + 2)
    fused = jf.fuse(fn)
    for a, b in zip(results(fused, (x, y), 3), results(fn, (x, y), 1), strict=True):
        np.testing.assert_array_equal(a, b)


def test_ten_thousand_iterations_are_a_short_program() -> None:
    def fn(x: Any, dt: float) -> Any:
        for _ in range(10_000):
            x = x + dt * (x * 0.5 - x * x)
        return x

    fused = jf.fuse(fn)
    assert len(fused.program(Y, 1e-3).steps) == 1
    for a, b in zip(results(fused, (Y, 1e-3)), results(fn, (Y, 1e-3), 1), strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_op_of_many_operands() -> None:
    def fn(x: Any, y: Any) -> Any:
        a, b, c = y[:1], y[1:2], y[2:3]
        for i in range(N):
            x = np.concatenate([a, x[:1], y[3:4], x[1:2] * 0.5, b, x[2:3]])
            a, b, c = b, c, x[i % 2 : i % 2 + 1] * 0.25 + a
        return x, a, b, c

    def equal(x: Any, y: Any) -> Any:
        for _ in range(N):
            x = np.concatenate([y[:1], x[2:3], y[3:4], x[:1], x[1:2] * 0.5, y[:1]])
        return x

    check(fn, np.arange(6.0), Y, rerolled=None)
    check(equal, np.arange(6.0), Y)


# ---------------------------------------------------------------- random loops
STATEMENTS = [
    "a = a * 0.5 + b", "a, b = b, a - 0.25", "b = np.sqrt(abs(a)) + i * 0.125", "c = c * 0.5 + y[i]",
    "y[i + {k}] = y[i + {m}] * 0.5 + c", "y[i + {k}] += c", "T[i + {k}] = T[i + {m}] * 0.5 + a",
    "T[i + {k}, 1:4] = b[1:4]", "T[i + {k}, {m}] = y[i]", "a = a + T[i + {k}]", "c = c + T[i, {k}] * 0.5",
    "y[{k}:{k} + 2] = y[i] * 0.5", "c = y.sum() * 0.125", "b = T[{k}] + b * 0.5", "a = np.where(a > i % 3, b, a)",
    "V[{k}, i] = c", "V[:, i + {k}] = V[:, i + {m}] * 0.5 + 1", "c = c * 0.5 + V[{k}, i] - V[{m}, {k}]",
    "for _ in range(6): b = b * 0.5 + a", "for j in range(5): T[i, j] = T[i, j] * 0.5 + y[j]",
    "for j in range(3): T[i + 1, j + 1] = T[i, j + {k}] * 0.5 + T[i + {m}, j]",
    "for j in range(4): V[{k}, i] += T[i, j] * V[{m}, i + 1]", "T[i, 1:4] += T[i + 1, {k}:{k} + 3]",
    "a[1:4] = b[:3] * 0.5 + a[2:]", "b[1:4] = a[1:4] + b[1:4] * 0.5", "a[{k}] = c", "a, b = b, a",
    "if i % 7 != 6: a = a + 1", "W = np.array(W); W[i % 3] = c",
]


@settings(max_examples=drawn(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.sampled_from(STATEMENTS), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=5),
       st.integers(6, 14))
def test_random_loops(statements: list[tuple[str, int, int]], n: int) -> None:
    lines = "\n        ".join(text.format(k=k, m=m) for text, k, m in statements)
    names = "a, b, c, y, T, V, W"
    source = f"def fn({names}):\n    for i in range({n}):\n        {lines}\n    return {names}\n"
    scope: dict[str, Any] = {"np": np}
    exec(compile(source, f"<loop {abs(hash(source))}>", "exec"), scope)
    rng = np.random.default_rng(n)
    args = (rng.random(5), rng.random(5), float(rng.random()), rng.random(n + 3), rng.random((n + 3, 5)),
            rng.random((3, n + 3)), rng.random(3))
    check(scope["fn"], *args, rerolled=None, close=1e-9)
