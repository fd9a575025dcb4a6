"""Writes in place: kernels store into arguments where that is sound, and what is sound gives NumPy's results."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

Function = Callable[..., Any]


def scaled(x: Any, y: Any) -> None:
    x *= 2.0 + y


def two(x: Any, y: Any) -> None:
    x[...] = x + y
    y[...] = y * 3


def reversed_(x: Any, y: Any) -> None:
    x[...] = x[::-1] * 2


def transposed(x: Any, y: Any) -> None:
    x[...] = x.T + 1


def without_first_row(x: Any, y: Any) -> None:
    x -= x[0]


def over_rows(x: Any, y: Any) -> None:
    x /= x.sum(axis=1, keepdims=True) + 5


def over_columns(x: Any, y: Any) -> None:
    x -= x.mean(axis=0)


def product(x: Any, y: Any) -> None:
    x[...] = x @ y + x


def read_again(x: Any, y: Any) -> Any:
    before = x.sum()
    x *= 2
    return x.sum(axis=0) + before, x * y


def exchanged(x: Any, y: Any) -> None:
    held = x * 1.5
    x[...] = y - 1
    y[...] = held


def shifted(x: Any, y: Any) -> None:
    x[1:] = x[:-1] + y[1:]


def returned(x: Any, y: Any) -> Any:
    x += y
    return x + 0.0


def sorted_(x: Any, y: Any) -> None:
    x += 1
    y[...] = np.sort(x, axis=-1)


FUNCTIONS = (scaled, two, reversed_, transposed, without_first_row, over_rows, over_columns, product, read_again,
             exchanged, shifted, returned, sorted_)


@pytest.mark.parametrize("n", [1, 7, 64, 300])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__.strip("_"))
def test_results_are_those_of_numpy(function: Function, n: int) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n, n)), rng.normal(size=(n, n))
    a, b = x.copy(), y.copy()
    fused = jf.fuse(function)
    for _ in range(3):
        wanted, found = function(x, y), fused(a, b)
        np.testing.assert_allclose(a, x, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(b, y, rtol=1e-9, atol=1e-9)
        for w, f in zip(wanted if isinstance(wanted, tuple) else (wanted,), found if isinstance(found, tuple) else (
                found,), strict=True):
            np.testing.assert_allclose(f, w, rtol=1e-9, atol=1e-9) if w is not None else None


@pytest.mark.parametrize(("function", "launches"), [
    (scaled, 1), (two, 1), (over_rows, 1), (reversed_, 2), (transposed, 2)])
def test_a_kernel_stores_where_it_is_read(function: Function, launches: int) -> None:
    x, y = np.ones((64, 64)), np.ones((64, 64))
    fused = jf.fuse(function)
    fused(x, y)
    assert fused.stats()["launches"] == launches


def test_what_may_raise_comes_first() -> None:
    """An index is checked after the kernel that could store x: x is as it was."""
    def function(x: Any, index: Any, y: Any) -> Any:
        x *= 2
        return y[index]

    fused, x = jf.fuse(function), np.ones(1000)
    with pytest.raises(IndexError):
        fused(x, np.array([5]), np.ones(3))
    assert (x == 1).all()
    fused(x, np.array([2]), np.ones(3))
    assert (x == 2).all()
