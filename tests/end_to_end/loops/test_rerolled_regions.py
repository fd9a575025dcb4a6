"""Rolled loops that write fixed regions again and again: stencils, fields, arrays that take turns."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rolled import RNG, N, Y, check, results

import jitfuse as jf


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
