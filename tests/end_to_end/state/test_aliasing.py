"""Writes into arguments, overlapping reads and overlapping arguments, small and large."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import ROUNDED, check

import jitfuse as jf


def shift_right(x: Any) -> None:
    x[1:] = x[:-1]


def shift_left(x: Any) -> Any:
    x[:-1] = x[1:] * 2
    return x.sum()


def reverse(x: Any) -> None:
    x[:] = x[::-1]


def increase(x: Any) -> Any:
    x += 1
    return x * 2


def twice(x: Any) -> Any:
    x[::2] += x[1::2]
    x[1::2] = x[::2] - 1
    return x[:3]


def through_a_view(x: Any) -> Any:
    y = x[10:20]
    y += 5
    x *= 2
    return y + 0


def swap(x: Any, y: Any) -> None:
    t = x.copy()
    x[:] = y
    y[:] = t


def into_other(x: Any, y: Any) -> Any:
    y[1:] = x[:-1] + y[1:]
    return x + y


SIZES = (20, 100, 10_000_000)


def assert_as_numpy(
    function: Callable[..., Any], make: Callable[[], tuple[Any, ...]], *, overlaps: bool = False
) -> None:
    check(function, make, within=ROUNDED, compiled=not overlaps, times=1)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("function", [shift_right, shift_left, reverse, increase, twice, through_a_view])
def test_one_argument(function: Callable[..., Any], n: int) -> None:
    assert_as_numpy(function, lambda: (np.arange(n, dtype="float64"),))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("function", [swap, into_other])
def test_two_arguments(function: Callable[..., Any], n: int) -> None:
    assert_as_numpy(function, lambda: (np.arange(n, dtype="float64"), np.arange(n, dtype="float64") * 3))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("function", [swap, into_other])
def test_overlapping_arguments(function: Callable[..., Any], n: int) -> None:
    def overlapping() -> tuple[Any, ...]:
        base = np.arange(n + 1, dtype="float64")
        return base[:-1], base[1:]

    def same() -> tuple[Any, ...]:
        base = np.arange(n, dtype="float64")
        return base, base

    assert_as_numpy(function, overlapping, overlaps=True)
    assert_as_numpy(function, same, overlaps=True)


def test_overlap_after_a_call_without() -> None:
    fused = jf.fuse(into_other)
    a, b = np.arange(100.0), np.arange(100.0)
    fused(a, b)
    base, expected = np.arange(101.0), np.arange(101.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fused(base[:-1], base[1:])
    into_other(expected[:-1], expected[1:])
    np.testing.assert_array_equal(base, expected)


def test_read_only_arguments_are_refused() -> None:
    x = np.arange(5.0)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        jf.fuse(increase)(x)
    y = np.arange(5.0)
    fused = jf.fuse(increase)
    fused(y)
    with pytest.raises(ValueError, match="read-only"):
        fused(x)
    np.testing.assert_array_equal(x, np.arange(5.0))


def test_results_keep_their_memory() -> None:
    fused = jf.fuse(lambda x: (x + 1, x[::-1] * 2))
    kept = [fused(np.full(1000, float(k))) for k in range(50)]
    for k, (a, b) in enumerate(kept):
        np.testing.assert_array_equal(a, np.full(1000, k + 1.0))
        np.testing.assert_array_equal(b, np.full(1000, k * 2.0))


def test_returned_views_share_with_arguments() -> None:
    x = np.arange(12.0).reshape(3, 4)
    fused = jf.fuse(lambda x: (x, x[1:, ::-2], x + 0))
    same, tail, fresh = fused(x)
    assert same is x and np.shares_memory(tail, x) and not np.shares_memory(fresh, x)


def test_iteration_sees_what_is_written_while_it_goes_on() -> None:
    def sums(x: Any) -> Any:
        total = 0.0
        for k, value in enumerate(x):
            if k + 1 < len(x):
                x[k + 1] += value
            total += value
        return total

    def rows(x: Any) -> Any:
        seen = []
        for row, first in zip(x, x[:, 0]):
            row += 1
            seen.append(row.sum() + first)
            x[-1] = seen[-1]
        return np.array(seen)

    for function, given in ((sums, np.arange(5.0)), (rows, np.arange(9.0).reshape(3, 3))):
        fused = jf.fuse(function)
        for _ in range(2):
            plain, own = given.copy(), given.copy()
            np.testing.assert_array_equal(fused(own), function(plain))
            np.testing.assert_array_equal(own, plain)
