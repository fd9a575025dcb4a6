"""Loops within a loop whose rounds are nearly alike: what is taken over from one to the next is what each needs."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from rolled import RNG, check, limits

import jitfuse as jf
from jitfuse.tracing.control.reroll import repeated_runs

ROWS, COLUMNS = 9, 21
A, B, C = (RNG.random((ROWS, COLUMNS)) for _ in range(3))
V, W = RNG.random(COLUMNS), RNG.random(ROWS)


def by_elements(a: Any, b: Any, c: Any, v: Any, w: Any) -> None:
    for i in range(ROWS):
        for j in range(COLUMNS):
            a[i, j] = b[i, j] * 2.0 - v[j] * w[i]


def other_numbers(a: Any, b: Any, c: Any, v: Any, w: Any) -> None:
    for i in range(ROWS):
        for j in range(COLUMNS):
            a[i, j] = b[i, j] * (i + 0.5) + (-0.0 if i % 2 else 0.0)


def other_powers(a: Any, b: Any, c: Any, v: Any, w: Any) -> None:
    for i in range(ROWS):
        for j in range(COLUMNS):
            a[i, j] = b[i, j] ** (2 if i % 3 else 3)


def other_arrays(a: Any, b: Any, c: Any, v: Any, w: Any) -> None:
    for i in range(ROWS):
        source, other = (b, c) if i % 2 else (c, c)
        for j in range(COLUMNS):
            a[i, j] = source[i, j] - other[i, j] * 3.0


def rows_that_meet(a: Any, b: Any, c: Any, v: Any, w: Any) -> None:
    for i in range(ROWS):
        for j in range(COLUMNS):
            a[i, j] = b[i, j] + b[ROWS - 1 - i, j] * 2.0


def rows_that_part(a: Any, b: Any, c: Any, v: Any, w: Any) -> None:
    for i in range(ROWS):
        for j in range(COLUMNS):
            a[i, j] = a[i // 2, COLUMNS - 1 - j] + b[i, j]
            a[i, j] += a[i // 3, j]


def one_row_that_stays(a: Any, b: Any, c: Any, v: Any, w: Any) -> None:
    for i in range(1, ROWS):
        for j in range(COLUMNS):
            a[i, j] = a[0, j] + a[i - 1, j] * 0.5


def a_row_that_is_written_twice(a: Any, b: Any, c: Any, v: Any, w: Any) -> None:
    for i in range(ROWS):
        for j in range(COLUMNS):
            a[3, j] += b[i, j]
            a[i, j] = a[i, j] * 0.5


def to_and_fro(a: Any, b: Any, c: Any, v: Any, w: Any) -> None:
    for i in range(ROWS):
        for j in range(1, COLUMNS) if i % 2 else range(COLUMNS - 1, 0, -1):
            a[i, j] = b[i, j] - b[i, j - 1]


def elements_that_are_kept(a: Any, b: Any, c: Any, v: Any, w: Any) -> Any:
    kept = 0.0
    for i in range(ROWS):
        for j in range(COLUMNS):
            value = b[i, j] * v[j]
            a[i, j] = value + 1.0
            if i in (2, 6) and j == 11:
                kept = kept + value
    return kept


def sums_that_begin_anew(a: Any, b: Any, c: Any, v: Any, w: Any) -> Any:
    best = w[0]
    for i in range(ROWS):
        total = w[i] if i % 2 else 0.0
        for j in range(COLUMNS):
            total = total * 0.5 + b[i, j]
        w[i] = total
        best = np.maximum(best, total)
    return best


def sums_beside_a_view(a: Any, b: Any, c: Any, v: Any, w: Any) -> None:
    for i in range(ROWS - 1):
        row = b[i + 1]
        for j in range(1, COLUMNS):
            a[i, j] = a[i, j - 1] * 0.25 + row[j] * row[COLUMNS - 1 - j] + w[i + 1]


def pieces(a: Any, b: Any, c: Any, v: Any, w: Any) -> None:
    for i in range(1, ROWS - 1):
        for j in range(1, COLUMNS - 1):
            a[i, j] += a[i, j - 1]
            a[i, j] /= 3.0
            a[i - 1:i + 2, j] *= 0.75


def pieces_of_columns(a: Any, b: Any, c: Any, v: Any, w: Any) -> None:
    for j in range(COLUMNS - 1):
        for i in range(ROWS):
            a[i, j:j + 2] += b[i, j:j + 2]
            a[i, j] -= a[i, j + 1]


def shorter_and_shorter(a: Any, b: Any, c: Any, v: Any, w: Any) -> None:
    for i in range(ROWS):
        for j in range(i, COLUMNS):
            a[i, j] = b[i, j] + a[i, j - i] * 0.5


def on_two_lines(a: Any, b: Any, c: Any, v: Any, w: Any) -> None:
    for i in range(0, ROWS - 1, 2):
        for j in range(COLUMNS):
            a[i, j] = b[i, j] * 0.5
        for j in range(COLUMNS):
            a[i + 1, j] = b[i + 1, j] * 0.5


def nothing_of_a_row(a: Any, b: Any, c: Any, v: Any, w: Any) -> None:
    for i in range(ROWS):
        for j in range(COLUMNS):
            a[i, j:j] = b[i, j:j]
            a[i, j] = b[i, j] + 1.0


FUNCTIONS = [
    by_elements, other_numbers, other_powers, other_arrays, rows_that_meet, rows_that_part,
    one_row_that_stays,
    a_row_that_is_written_twice, to_and_fro, elements_that_are_kept, sums_that_begin_anew, sums_beside_a_view, pieces,
    pieces_of_columns, shorter_and_shorter, on_two_lines, nothing_of_a_row,
]


def returning(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that returns a number in any case."""

    def run(*args: Any) -> Any:
        made = fn(*args)
        return args[0][0, 0] if made is None else made

    return run


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_results(fn: Callable[..., Any]) -> None:
    check(returning(fn), A, B, C, V, W, rerolled=None)


def by_place(program: jf.FusedProgram) -> Any:
    """Return a program's steps and results by where values come up first, whatever numbers these have."""
    number: dict[int, int] = {}

    def places(ids: Iterable[int]) -> list[int]:
        return [number.setdefault(i, len(number)) for i in ids]

    steps = [(s.op_name, places(s.input_ids), s.attrs, places(s.result_ids), [program.meta[r] for r in s.result_ids])
             for s in program.steps]
    return steps, places(program.outputs.values()), places(program.writes), places(program.writes.values())


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("at_once", [1, 64])
def test_programs_are_those_of_loops_found_one_by_one(
    fn: Callable[..., Any], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with limits(24, 4, at_once):
        program = jf.fuse(fn).program(A, B, C, V, W)
        monkeypatch.setattr(repeated_runs.Runs, "_distances", lambda self, one, other: None)
        assert by_place(program) == by_place(jf.fuse(fn).program(A, B, C, V, W))


def test_strides_that_are_negative_or_none() -> None:
    def fn(a: Any, b: Any) -> Any:
        for i in range(ROWS):
            for j in range(COLUMNS):
                a[i, j] = b[i, j] * 2.0 - a[i, 0]
        return a

    check(fn, A[::-1, ::-1], np.broadcast_to(V, A.shape), rerolled=None)


@pytest.mark.parametrize("dtype", ["float32", "int16", "complex128", "bool"])
def test_dtypes(dtype: str) -> None:
    def fn(a: Any, b: Any) -> Any:
        for i in range(1, ROWS):
            for j in range(1, COLUMNS):
                a[i, j] = a[i, j - 1] if j % 5 else b[i, j]
                b[i, j] = a[i - 1, j]
        return b

    check(fn, (A * 9).astype(dtype), (B * 9).astype(dtype), rerolled=None)


def test_numbers_that_are_none_and_zeros_below_zero() -> None:
    a, b = np.copy(A), np.copy(B)
    a[2, 3], a[4], b[1, 2], b[:, 5] = np.nan, -0.0, np.inf, -0.0
    check(returning(by_elements), a, b, C, V, W, rerolled=None)
    check(returning(one_row_that_stays), a, b, C, V, W, rerolled=None)


def test_loops_of_alike_iterations_are_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    anew: list[int] = []
    roll_run = repeated_runs.reroll_run
    monkeypatch.setattr(repeated_runs, "reroll_run", lambda *args: anew.append(1) or roll_run(*args))
    with limits(24, 4):
        jf.fuse(by_elements).program(A, B, C, V, W)
        assert len(anew) <= 4  # of nine rounds, and of the loop around them
        del anew[:]
        jf.fuse(pieces).program(A, B, C, V, W)
        assert len(anew) <= 6
