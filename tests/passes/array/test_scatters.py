"""Writes at traced places: where there are a few of them they are choices of kernels, in NumPy's order."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

X = np.arange(60.0).reshape(3, 4, 5)
I = np.array([2, -1, 0, 2, 1])


def rows(x: Any, i: Any) -> Any:
    x[i[0]] = 7
    x[:, i[1]] = i[0]
    x[i[2], i[0]] = 9


def middle(x: Any, i: Any) -> Any:
    x[i[0], :, i[1]] = np.arange(4)
    x[:, i[1], i[0]] = x[:, 0, 0]
    x[..., i[1]] = x[..., i[0]]
    x[i[0], i[1], i[2]] += 3


def swapped(x: Any, i: Any) -> Any:
    x[[i[0], i[2]]] = x[[i[2], i[0]]]
    x[:, i[:3]] = x[:, i[1:4]] * 2


def again(x: Any, i: Any) -> Any:
    x[i[[0, 3]]] = x[:2] * 2  # the same place twice: the last value stays
    x[i[:4], i[1:]] = np.arange(5)
    x[i[:1]] = x[i[1:2]]


def narrow(x: Any, i: Any) -> Any:
    x[i[0]] = 2.75
    x[i[:2], 1] = i[0] * 1.5


def many(x: Any, i: Any) -> Any:
    x[i] = x[i[::-1]]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "complex128", "bool"])
@pytest.mark.parametrize("function", [rows, middle, swapped, again, narrow, many])
def test_the_last_value_at_a_place_stays(function: Callable[..., Any], dtype: str) -> None:
    if function is middle and dtype == "bool":
        pytest.skip("NumPy has no + of booleans in place")
    fused = jf.fuse(function)
    for order in (I, np.roll(I, 1), np.roll(I, 2) % 3):
        want, got = X.astype(dtype), X.astype(dtype)
        function(want, order)
        fused(got, order)
        np.testing.assert_array_equal(got, want)
    assert fused.stats()["traces"] == 1


@pytest.mark.parametrize("bad", [4, -5])
def test_indices_are_checked(bad: int) -> None:
    def function(x: Any, i: Any) -> Any:
        x[:, i[0]] = 1
        return x

    fused = jf.fuse(function)
    for _ in range(3):
        given = X.copy()
        with pytest.raises(IndexError, match=f"index {bad} is out of bounds for axis 1 with size 4"):
            fused(given, np.array([bad]))
        np.testing.assert_array_equal(given, X)


def test_in_loops() -> None:
    def function(x: Any, i: Any) -> Any:
        seen = np.zeros(len(x), bool)
        for k in range(200):
            at = np.argmin(np.where(seen, np.inf, x))
            seen[at] = k % 3 > 0
            x[at] += i[k % 5] * 0.25
        return x, seen

    fused = jf.fuse(function)
    for seed in (1, 2):
        x = np.random.default_rng(seed).random(50)
        for a, b in zip(function(x.copy(), I), fused(x.copy(), I), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("shape", "write"), [
    ((3, 0), lambda x, i: x.__setitem__(i, 1.0)), ((0, 3), lambda x, i: x.__setitem__((slice(None), i), 1.0)),
])
def test_places_of_empty_arrays_are_checked(shape: tuple[int, int], write: Any) -> None:
    def function(x: Any, i: Any) -> Any:
        write(x, i)
        return x

    fused = jf.fuse(function)
    assert fused(np.zeros(shape), np.int64(1)).shape == shape
    with pytest.raises(IndexError):
        fused(np.zeros(shape), np.int64(3))
