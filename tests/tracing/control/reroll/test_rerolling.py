"""Python loops that are rolled back into loop steps, against the same loops written out and against NumPy.

Regions, tables and triangles are in tests/end_to_end/loops, steps and lengths in test_body.py.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rolled import RNG, N, T, X, Y, check

import jitfuse as jf


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


def test_a_sum_of_several_carried_arrays_that_starts_with_a_number_of_pythons() -> None:
    def fn(x: Any) -> Any:
        a, b, total = x, x * 0.5, 0.0
        for _ in range(N):
            a = np.sin(a * 0.5 + 1)
            b = np.sin(b * 0.25 + a)
            total = total + np.sum(b)
        return total

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

    check(fn, Y, rerolled=0)


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

    check(fn, Y, rerolled=2)


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

    check(fn, Y, rerolled=None)


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

    check(fn, Y, rerolled=0)


def test_loops_in_loops() -> None:
    def fn(x: Any) -> Any:
        for i in range(N):
            y = x * 0.5
            for _ in range(N):
                y = y * 0.9 + i
            x = x + y
        return x

    check(fn, Y, rerolled=2)


@pytest.mark.full
def test_runs_that_begin_where_another_ends() -> None:
    """Along a spiral whose sides grow, runs of one period lie side by side, and share their last ops."""
    def fn(x: Any) -> Any:
        a = np.zeros((31, 31))
        i = j = 15
        di, dj, side, k = 0, 1, 1, 0
        while k < 900:
            for _ in range(2):
                for _ in range(side):
                    i, j, k = i + di, j + dj, k + 1
                    if 0 <= i < 31 and 0 <= j < 31:
                        a[i, j] = x[k % 7] + k
                di, dj = -dj, di
            side += 1
        return a

    check(fn, X, rerolled=None)


def test_two_loops_over_places_of_data() -> None:
    """The second reads at the same places as the first, of the same array, backwards: both are loops."""
    places = RNG.integers(0, 5, N)

    def fn(a: Any, at: Any) -> Any:
        there, back = np.zeros((N, 4)), np.ones((N, 4))
        for t in range(1, N):
            there[t] = there[t - 1] * 0.5 + a[:, at[t]]
        for t in range(N - 2, -1, -1):
            back[t] = back[t + 1] * 0.25 - a[:, at[t + 1]]
        return there, back

    check(fn, RNG.random((4, 5)), places, rerolled=2)


def test_places_of_data_that_are_read_and_written() -> None:
    """A view at a traced place sees what another view of it writes, and two reads of it are one value."""
    def fn(a: Any, i: Any, j: Any) -> Any:
        row, same = a[i], a[i]
        before = row * 2
        same += 1.0
        other = a[j]
        other *= 3.0
        return before, row + a[i], same - other, a

    a = RNG.random((5, 3))
    for i, j in ((1, 1), (2, 4), (-1, 0)):
        args = a.copy(), np.int64(i), np.int64(j)
        want = fn(a.copy(), np.int64(i), np.int64(j))
        for got, expected in zip(jf.fuse(fn)(*args), want, strict=True):
            np.testing.assert_array_equal(got, expected)
