"""Slices, pads and joins whose bounds lie anywhere in groups of vectors, against NumPy: maps, rows, reductions."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amount import drawn, extended
from hypothesis import given, settings
from hypothesis import strategies as st

import jitfuse as jf
from jitfuse.backends.llvm.codegen.analysis import analysis_of
from jitfuse.backends.llvm.codegen.bounds import bounds_of

DTYPES = ["float64", "float32", "int8", "uint16", "complex128", "bool"]
SIZES = [1, 2, 7, 31, 64, 65, 127, 128, 200, 1000]


def values(dtype: str, *shape: int) -> Any:
    made = np.random.default_rng(sum(shape)).integers(0, 100, shape)
    return (made - 50 if dtype != "bool" else made % 2).astype(dtype)


def shifted(x: Any, k: int) -> Any:
    made = np.zeros_like(x)
    made[k:] = x[: len(x) - k]
    made[: len(x) - k] += x[k:]
    return made


def joined(x: Any, k: int) -> Any:
    return np.concatenate([x[k:], x[:k], x[k // 2 : k]]) + np.concatenate([x[:k], x[k // 2 : k], x[k:]])


def rolled(x: Any, k: int) -> Any:
    return np.roll(x, k) + np.roll(x, -k) + x


def padded(x: Any, k: int) -> Any:
    return np.pad(x, (k, 2)) + np.pad(x, (2, k))


def alternate(x: Any, k: int) -> Any:
    made = x + x
    made[k::2] = x[k::2]
    made[: k // 2] = x[: k // 2][::-1]
    return made


FUNCTIONS = [shifted, joined, rolled, padded, alternate]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", DTYPES)
def test_maps(f: Callable[[Any, int], Any], dtype: str) -> None:
    turn = FUNCTIONS.index(f) + DTYPES.index(dtype)
    for size in SIZES if extended() else SIZES[turn % 2 :: 2]:
        x = values(dtype, size)
        for k in sorted({0, 1, size // 3, size - 1, size} & set(range(size + 1))):
            np.testing.assert_array_equal(jf.fuse(f)(x, k), f(x, k), strict=True)


def test_two_dimensions() -> None:
    def f(x: Any) -> Any:
        made = np.zeros_like(x)
        made[1:, 2:] += x[:-1, :-2]
        made[:-3, :-1] += x[3:, 1:]
        return made + np.roll(x, 1, 0) + np.roll(x, 1, 1) + np.concatenate([x[:, 5:], x[:, :5]], axis=1)

    for shape in [(4, 6), (5, 64), (33, 65), (7, 400)]:
        x = values("float64", *shape)
        np.testing.assert_array_equal(jf.fuse(f)(x), f(x))
        x = np.asfortranarray(values("float32", *shape))
        np.testing.assert_array_equal(jf.fuse(f)(x), f(x))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_reductions(dtype: str) -> None:
    def f(x: Any, k: int) -> Any:
        y = shifted(x, k)
        return np.sum(y), np.max(y), np.argmin(y), np.sum(np.diff(x) ** 2), np.sum(y.reshape(2, -1), axis=1)

    for size in (2, 64, 130, 4096, 20_000):
        x = values(dtype, size)
        for k in (0, 1, size // 2):
            for found, expected in zip(jf.fuse(f)(x, k), f(x, k), strict=True):
                np.testing.assert_array_equal(found, expected)  # small integers: sums are exact


def test_beside_products() -> None:
    rng = np.random.default_rng(0)

    def f(a: Any, b: Any) -> Any:
        made = np.tril(np.roll(a, 3, axis=0) @ np.pad(b, 1)[1:-1, 2:]) * 2
        turned = np.concatenate([made[:, 2:], made[:, :2]], axis=1)
        return made, np.sum(turned, axis=0), np.max(np.triu(a @ a.T), axis=1)

    for n in (1, 2, 5, 16, 33, 70):
        a, b = rng.integers(-9, 9, (n, n)).astype(float), rng.integers(-9, 9, (n, n + 3)).astype(float)
        for found, expected in zip(jf.fuse(f)(a, b), f(a, b), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_infinities_outside_stay_outside() -> None:
    x = np.array([np.inf, *np.arange(200.0), np.nan])

    def f(x: Any) -> Any:
        made = np.zeros(len(x))
        made[1:-1] = x[1:-1] * 2
        return made, np.sum(made)

    for found, expected in zip(jf.fuse(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(found, expected)


@settings(max_examples=drawn(60), deadline=None)
@given(st.integers(1, 400), st.data())
def test_drawn_bounds(size: int, data: st.DataObject) -> None:
    ends = [sorted(data.draw(st.tuples(st.integers(0, size), st.integers(0, size)))) for _ in range(3)]

    def f(x: Any) -> Any:
        made = x * 2
        for begin, end in ends:
            made[begin:end] = x[size - end : size - begin] + 1
        return made

    x = np.arange(float(size))
    np.testing.assert_array_equal(jf.fuse(f)(x), f(x))


def test_which_kernels_have_two_bodies() -> None:
    def bounds(f: Callable[..., Any], *args: Any) -> list[bool]:
        fused = jf.fuse(f)
        fused(*args)
        return [bounds_of(analysis_of(kernel.form)) is not None for kernel in fused.kernels]

    x = np.arange(100.0)
    assert bounds(lambda x: np.roll(x, 1) * 2, x) == [True]
    assert bounds(lambda x: np.sum(np.pad(x, 1) ** 2), x) == [True]
    assert bounds(lambda x: np.where(x > 1, x, 0), x) == [False]
    assert bounds(lambda x: x[1:] - x[:-1], x) == [False]
