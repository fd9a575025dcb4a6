"""Python loops that are rolled back into loop steps, against the same loops written out and against NumPy.

JITFUSE_TEST_SCALE multiplies the number of random loops.
"""
from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jitfuse as jf
from jitfuse.backends.interpreter.runner import ProgramRunner
from jitfuse.ir.text import parse
from jitfuse.ir.verify import verify
from jitfuse.tracing import rolled_step, tracer

SCALE = int(os.environ.get("JITFUSE_TEST_SCALE", "1"))
RNG = np.random.default_rng(5)


@contextmanager
def limits(ops: int, iterations: int, fused: int = 64) -> Iterator[None]:
    """Roll from so many ops and iterations on, with so many ops in one iteration of the loop."""
    before = tracer.ROLLED_OPS, tracer.ROLLED_ITERATIONS, rolled_step.FUSED_OPS
    tracer.ROLLED_OPS, tracer.ROLLED_ITERATIONS, rolled_step.FUSED_OPS = ops, iterations, fused
    try:
        yield
    finally:
        tracer.ROLLED_OPS, tracer.ROLLED_ITERATIONS, rolled_step.FUSED_OPS = before


def results(fn: Callable[..., Any], args: tuple[Any, ...], calls: int = 2) -> list[np.ndarray]:
    """Return what a function returns in its last call, and what it leaves in its arguments."""
    found: list[list[np.ndarray]] = []
    for _ in range(calls):
        own = [np.copy(a) if isinstance(a, np.ndarray) else a for a in args]
        made = fn(*own)
        made = made if isinstance(made, tuple) else (made,)
        found.append([np.asarray(x) for x in (*made, *own)])
        for a, b in zip(found[0], found[-1], strict=True):
            np.testing.assert_array_equal(a, b)
    return found[-1]


def loops(program: Any) -> int:
    """Return the number of rolled loops in a program, those within others included."""
    found = 0
    for step in program.steps:
        found += step.op_name == "rolled_loop"
        found += sum(loops(v) for _, v in step.attrs if isinstance(v, jf.FusedProgram))
    return found


def check(fn: Callable[..., Any], *args: Any, rolled: int | None = 1, close: float = 0.0) -> Any:
    """Compare a rolled function with the same one written out, bit by bit, and with NumPy; return its program."""
    with limits(1 << 60, 4):
        want = results(jf.fuse(fn), args)
    plain = results(fn, args, 1)
    for at_once in (1, 64):
        with limits(24, 4, at_once):
            fused = jf.fuse(fn)
            program = fused.program(*args)
            if rolled is not None:
                assert loops(program) == rolled, str(program)
            verify(program)
            assert parse(str(program)) == program
            got = results(fused, args)
        for a, b, c in zip(got, want, plain, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape) == (c.dtype, c.shape)
            np.testing.assert_array_equal(a, b)
            np.testing.assert_allclose(a, c, rtol=close or 1e-12, atol=close)
        interpreted(program, args, got)
    return program


def interpreted(program: Any, args: tuple[Any, ...], want: list[np.ndarray]) -> None:
    names = {f: program.feed_names[f] for f in program.feeds}
    if not all(name.startswith("args[") for name in names.values()) or len(program.outputs) + len(args) != len(want):
        return
    feeds = {f: args[int(name[5:-1])] for f, name in names.items()}
    result = ProgramRunner(program)(feeds)
    for a, b in zip(result.outputs.values(), want, strict=False):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    for feed, array in result.writes.items():
        np.testing.assert_allclose(array, want[len(result.outputs) + int(names[feed][5:-1])], rtol=1e-12)


# ---------------------------------------------------------------- what loops are made of
N = 20
X, Y, T = RNG.random(N + 3), RNG.random(5), RNG.random((N + 3, 5))


def test_a_carried_array() -> None:
    def fn(x: Any, dt: float) -> Any:
        for _ in range(N):
            x = x + dt * (np.sin(x) - x * 0.5)
        return x

    check(fn, Y, 0.01)


def test_values_of_several_iterations_before() -> None:
    def fn(x: Any) -> Any:
        a, b, c = x, x * 0.5, x - 1
        for _ in range(N):
            a, b, c = b, c, (a + b * 0.3) * 0.5
        return a, b, c

    check(fn, Y)


def test_a_recurrence_in_an_array() -> None:
    def fn(x: Any) -> Any:
        y = np.zeros(N)
        y[0] = x[0]
        for i in range(1, N):
            y[i] = 0.5 * y[i - 1] + x[i]
        return y

    check(fn, X)


def test_a_recurrence_backwards_into_an_argument() -> None:
    def fn(x: Any) -> Any:
        for i in range(N - 1, -1, -1):
            x[i] = x[i] - 0.25 * x[i + 1] * x[i + 2]

    check(lambda x: (fn(x), x * 2)[1], X)


def test_rows_and_their_borders() -> None:
    def fn(u: Any) -> Any:
        for t in range(N):
            u[t + 1, 1:-1] = u[t, 1:-1] + 0.1 * (u[t, 2:] - 2 * u[t, 1:-1] + u[t, :-2])
            u[t + 1, 0] = 0
            u[t + 1, -1] = u[t + 1, 0] + 1
        return u

    check(fn, T)


def test_columns_and_steps() -> None:
    def fn(u: Any) -> Any:
        for t in range(N):
            u[::2, t + 1] = u[1::2, t] * 0.5 + u[::2, t + 1]
        return u

    check(fn, RNG.random((6, N + 3)))
    check(fn, RNG.random((6, N + 3), np.float32), close=1e-6)


def test_two_axes_apart() -> None:
    def fn(u: Any, v: Any) -> Any:
        for t in range(N):
            v[:, 1:3, t] = u[:, ::2, t + 1] + v[:, 1:3, t + 1]
        return v

    check(fn, RNG.random((3, 4, N + 3)), RNG.random((3, 4, N + 3)))


def test_an_array_that_is_read_as_a_whole() -> None:
    def fn(a: Any, b: Any) -> Any:
        x = np.zeros(N)
        for i in range(N):
            x[i] = (b[i] - (a[i] * x).sum()) / a[i, i]
        return x

    check(fn, RNG.random((N, N)) + np.eye(N) * N, RNG.random(N))


def test_windows_that_overlap_from_iteration_to_iteration() -> None:
    def fn(x: Any) -> Any:
        for i in range(N):
            x[i : i + 3] = x[i : i + 3] * 0.5 + x[i + 1]
        return x

    check(fn, X)


def test_several_writes_into_one_array() -> None:
    def fn(x: Any) -> Any:
        for i in range(N):
            x[i] = x[i] + 1
            x[i + 1] = x[i] * 0.5
            x[i + 2] = x[i + 1] + x[i + 2]
        return x

    check(fn, X)


def test_what_is_written_last_wins() -> None:
    def fn(x: Any) -> Any:
        for i in range(N):
            x[i] = x[i + 2] * 3
            x[i : i + 2] = x[i + 2] - 1
        return x

    check(fn, X)


def test_numbers_that_differ() -> None:
    def fn(x: Any) -> Any:
        for i in range(N):
            x = x * 0.5 + i + 1.0 / (i + 1) + np.float32(i) * np.array([i, 1.0, 2, 3, i])
        return x

    check(fn, Y)


def test_integers_and_bools() -> None:
    def fn(x: Any) -> Any:
        seen = x > 3
        for i in range(N):
            seen = seen | (x == i)
            x = x * 3 + i
        return x, seen

    check(fn, np.arange(5))
    check(fn, np.arange(5, dtype=np.int8))


@pytest.mark.parametrize("dtype", ["complex128", "complex64", "float16"])
def test_other_dtypes(dtype: str) -> None:
    def fn(x: Any) -> Any:
        y = np.zeros(N, dtype)
        for i in range(N):
            x = x * x * 0.5 + 0.1
            y[i] = x[0] + 1
        return x, y

    check(fn, (RNG.random(3) * 0.5).astype(dtype), close=1e-2 if dtype == "float16" else 1e-5)


def test_powers_that_differ_stay_written_out() -> None:
    def fn(x: Any) -> Any:
        for i in range(N):
            x = x * 0.25 + x**i * 0.25
        return x

    check(fn, Y, rolled=0)


def test_a_first_iteration_of_another_type() -> None:
    def fn(x: Any) -> Any:
        total, count = 0.0, 0
        for i in range(N):
            total = total + x[i] * 2
            count = count + (x[i] > 0.5)
        return total, count

    check(fn, X)


def test_iterations_that_differ() -> None:
    def fn(x: Any) -> Any:
        for i in range(2 * N):
            x = x * 0.5 + 1
            if i == N:
                x = np.sin(x)
        return x

    check(fn, Y, rolled=2)


def test_iterations_that_take_turns() -> None:
    def fn(x: Any, y: Any) -> Any:
        for i in range(2 * N):
            x = x * 0.5 + (y if i % 2 else x)
        return x

    check(fn, Y, Y + 1)


def test_values_that_are_used_later() -> None:
    def fn(x: Any) -> Any:
        kept = []
        for i in range(3 * N):
            y = x * 0.5
            x = y + 1
            if i % N == N - 3:
                kept.append(y * 2)
        return x, y, *kept

    check(fn, Y, rolled=None)


@pytest.mark.parametrize("join", [np.array, np.stack, np.vstack, np.concatenate, lambda x: np.stack(x, axis=-1)])
def test_values_of_all_iterations(join: Any) -> None:
    def fn(x: Any) -> Any:
        kept = [x]
        for _ in range(N):
            x = x * 0.5 + 1
            kept.append(x)
        return join(kept)

    check(fn, Y)


def test_several_lists() -> None:
    def fn(x: Any, y: Any) -> Any:
        first, second, third = [], [y], []
        for i in range(N):
            x = x * 0.5 + i
            y = y + x
            first.append(x[0])
            second.append(y * x)
            third.append(y[1:3] * x[2])
        return np.array(first), np.array(second), np.concatenate(third), np.stack(second[:-1]), x

    check(fn, Y, Y + 1)


def test_a_list_in_another_order() -> None:
    def fn(x: Any) -> Any:
        kept = []
        for _ in range(N):
            x = x * 0.5 + 1
            kept.append(x)
        return np.stack(kept[::-1])

    check(fn, Y, rolled=0)


def test_loops_in_loops() -> None:
    def fn(x: Any) -> Any:
        for i in range(N):
            y = x * 0.5
            for _ in range(N):
                y = y * 0.9 + i
            x = x + y
        return x

    check(fn, Y, rolled=2)


# ---------------------------------------------------------------- fixed regions that are written again and again
@pytest.mark.parametrize("n", [3, 4, 9, 40])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "int64"])
def test_stencils_between_two_arrays(n: int, dtype: str) -> None:
    def fn(a: Any, b: Any) -> Any:
        for _ in range(N):
            b[1:-1, 1:-1] = a[1:-1, 1:-1] + a[:-2, 1:-1] - a[1:-1, 2:]
            new = b[1:-1, 1:-1] - b[2:, 1:-1] * 2 - b[1:-1, :-2]
            a[1:-1, 1:-1] = new // 2 if dtype == "int64" else new * 0.125

    a, b = (RNG.random((2, n, n + 2)) * 9).astype(dtype)
    check(lambda a, b: (fn(a, b), a[0])[1], a, b, close=1e-2 if dtype == "float32" else 1e-6)


def test_fields_on_grids_that_drive_each_other() -> None:
    def fn(pulse: Any, ex: Any, ey: Any, hz: Any) -> Any:
        for value in pulse:
            ey[0, :] = value
            ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
            ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
            hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
        return hz.sum()

    check(fn, RNG.random(N), *RNG.random((3, 8, 9)), close=1e-9)


def test_updates_that_read_what_they_write() -> None:
    def fn(a: Any, b: Any) -> Any:
        for _ in range(N):
            a[1:-1] = (a[:-2] + a[2:]) * 0.5
            b[::2] = b[::-2] * 0.5 + a[3]
            b[1:4] = b[:3] + b[2:5]
        return a + 1, b

    check(fn, RNG.random(12), RNG.random(13))


def test_two_arrays_that_take_turns() -> None:
    def fn(a: Any, b: Any) -> Any:
        a, b = a * 1, b + 0
        for _ in range(N):
            b[1:-1] = a[:-2] * 0.5 + a[2:] * 0.25
            a, b = b, a
        return a, b

    check(fn, Y, Y + 1)


def test_an_array_and_what_it_was_before() -> None:
    def fn(x: Any) -> Any:
        before = x * 0
        for _ in range(N):
            new = x.copy()
            new[1:-1] = x[1:-1] * 1.5 - before[1:-1] * 0.5 + (x[2:] + x[:-2]) * 0.125
            new[0] = x.sum() * 0.125
            before, x = x, new
        return x, before

    check(fn, RNG.random(9))


def test_what_is_written_and_what_it_was_are_used_later() -> None:
    def fn(a: Any, b: Any) -> Any:
        first = a + b
        for _ in range(N):
            row = b[1:-1] * 0.5 + a[2:]
            a[1:-1] = row
            b[1:-1] = row + b[:-2]
        return first, row, a[1:-1] + row, b

    check(fn, RNG.random(9), RNG.random(9))


def test_loops_of_this_library_write_what_they_carry_in_place() -> None:
    def body(i: Any, a: Any) -> Any:
        a[1:-1] = a[1:-1] * 0.5 + i
        a[0] = a[1] + a[-1]
        return a

    def fn(a: Any, n: int) -> Any:
        first = jf.fori_loop(0, n, body, a)
        last, sums = jf.scan(lambda c, x: (body(x, c), c.sum() + c), first, a)
        done, _ = jf.while_loop(lambda c: c[0].sum() < 1e9, lambda c: (body(c[1], c[0]) * 1, c[1] * 2 + 1), (last, 1.0))
        return first, last, sums, done, a

    a = RNG.random(7)
    got, want = results(jf.fuse(fn), (a, 5), 4), results(fn, (a, 5), 1)
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)
    for n in (0, 1):
        for x, y in zip(results(jf.fuse(fn), (a, n), 3), results(fn, (a, n), 1), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12)


# ---------------------------------------------------------------- loops over the elements of tables
G = RNG.random((N - 5, N + 3))


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
    check(fn, a, np.copy(a), rolled=4, close=1e-3 if dtype in ("float32", "complex64") else 0)


def test_a_table_of_distances() -> None:
    def fn(a: Any, b: Any) -> Any:
        d = np.zeros((len(a) + 1, len(b) + 1), np.int64)
        d[:, 0], d[0] = np.arange(len(a) + 1), np.arange(len(b) + 1)
        for i in range(1, len(a) + 1):
            for j in range(1, len(b) + 1):
                other = a[i - 1] != b[j - 1]
                d[i, j] = np.minimum(np.minimum(d[i - 1, j], d[i, j - 1]) + 1, d[i - 1, j - 1] + other)
        return d[-1, -1], d

    check(fn, RNG.integers(0, 3, N), RNG.integers(0, 3, N + 4), rolled=2)


def test_a_row_and_then_its_elements() -> None:
    def fn(a: Any) -> Any:
        for _ in range(6):
            for i in range(1, a.shape[0] - 1):
                a[i, 1:-1] += a[i - 1, :-2] + a[i - 1, 2:] + a[i, 2:] + a[i + 1, 1:-1]
                for j in range(1, a.shape[1] - 1):
                    a[i, j] += a[i, j - 1]
                    a[i, j] /= 9.0
        return a.sum()

    check(fn, G, rolled=3, close=1e-10)


def test_sweeps_over_a_table() -> None:
    def fn(a: Any, steps: int = 6) -> Any:
        for _ in range(steps):
            for i in range(1, a.shape[0] - 1):
                for j in range(1, a.shape[1] - 1):
                    a[i, j] = (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]) * 0.25
        return a

    check(fn, G, rolled=3)
    check(lambda a: fn(a[::-1, ::2]), RNG.random((N - 3, 2 * N)), rolled=3)


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

    check(fn, RNG.random((6, 14)), RNG.random((14, 7)), rolled=3, close=1e-12)


def test_tables_of_three_indices() -> None:
    def fn(a: Any, b: Any) -> Any:
        for t in range(1, a.shape[0]):
            for i in range(1, a.shape[1] - 1):
                for j in range(a.shape[2]):
                    a[t, i, j] = (a[t - 1, i + 1, j] + a[t, i - 1, j]) * 0.5 + b[j, i]
        return a

    check(fn, RNG.random((7, 8, 11)), RNG.random((11, 8)), rolled=3)


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

    check(fn, G, X, rolled=2)


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

    check(fn, RNG.random((5, 5)) + np.eye(5) * 5, Y, close=1e-9, rolled=None)


def test_loops_of_this_library_in_loops() -> None:
    def fn(x: Any, n: int) -> Any:
        for i in range(N):
            x = jf.fori_loop(0, n, lambda k, c, i=i: c * 0.5 + k + i, x) + 1
        return x

    check(fn, Y, 3, rolled=0)  # the number i is part of a body


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


@settings(max_examples=25 * SCALE, deadline=None, suppress_health_check=list(HealthCheck))
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
    check(scope["fn"], *args, rolled=None, close=1e-9)
