"""Exact operators give NumPy's bits at every size and layout, for every number of threads."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import amount
import numpy as np
import pytest
from oracle import same
from programs import make, quiet

import jitfuse as jf

SIZES = (0, 1, 7, 100_003)
LAYOUTS = ("C", "F", "strided", "reversed", "transposed", "broadcast", "offset", "stepped")


def arithmetic(x: Any, y: Any) -> Any:
    return (x + y) * x - y / x, np.sqrt(np.abs(x)) - x * y


def comparisons(x: Any, y: Any) -> Any:
    return x < y, (x >= y) | (x == 0), np.where(x > y, x, -y), x != x


def casts(x: Any, y: Any) -> Any:
    return [x.astype(d) for d in ("float32", "float64", "int32", "int64", "bool")]


def integers(x: Any, y: Any) -> Any:
    i, j = x.astype("int64"), y.astype("int32")
    return i + j * 3 - i * i, i // j, i % j, i & j, (i ^ j) >> 3, j << 2


def rounding(x: Any, y: Any) -> Any:
    return np.floor(x), np.ceil(y), np.trunc(x), x // y, x % y, abs(y), -x


FUNCTIONS = (arithmetic, comparisons, casts, integers, rounding)


def plain(function: Callable[..., Any], *args: Any) -> Any:
    with quiet():
        return function(*args)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_bits_at_every_size(function: Callable[..., Any], dtype: str) -> None:
    if dtype == "bool" and function is not casts:
        pytest.skip("NumPy has no such arithmetic on bools")
    fused = jf.fuse(function)
    for n in SIZES:
        for style in ("plain", "special"):
            x, y = make((n,), dtype, n, "C", style), make((n,), dtype, n + 1, "C", style)
            same(fused(x, y), plain(function, x, y))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_bits_in_every_layout(function: Callable[..., Any], layout: str) -> None:
    fused = jf.fuse(function)
    shapes = ((100_003,), (317, 211), (3, 50, 70), (1, 0, 4), (2, 1, 5, 3))
    for shape, dtype in amount.covering(LAYOUTS, layout, shapes, ("float32", "float64")):
        x, y = make(shape, dtype, 1, layout, "special"), make(shape, dtype, 2, "C", "special")
        same(fused(x, y), plain(function, x, y))
        same(fused(y, x), plain(function, y, x))


def test_bits_of_broadcast_operands() -> None:
    fused = jf.fuse(arithmetic)
    for a, b in (((300, 1), (1, 400)), ((300, 400), (400,)), ((), (1000,)), ((5, 1, 7), (6, 1)), ((1, 1), (3, 0))):
        x, y = make(a, "float64", 1, "C", "special"), make(b, "float64", 2, "C", "special")
        same(fused(x, y), plain(arithmetic, x, y))


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits_at_twenty_million(dtype: str) -> None:
    def mixed(x: Any, y: Any) -> Any:
        return np.where(x < y, np.sqrt(x * x + y), x / y - 1).astype("float32"), (x > y)

    n = 20_000_000
    x, y = make((n,), dtype, 1, "reversed"), make((n,), dtype, 2)
    same(jf.fuse(mixed)(x, y), plain(mixed, x, y))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "int64"])
def test_nothing_over_a_choice_of_one_and_nothing(dtype: str) -> None:
    """LLVM finds the zero after it has seen the choice, and forgets that 0 / 0 is NaN."""

    def quotients(x: Any, y: Any) -> Any:
        nothing, choice = x ^ x, np.where(y > 0, 0.0, 1.0)
        return nothing / choice, (x < x) / (x > 0), x | x, (nothing * 1.0) // choice, np.fmod(nothing * 1.0, choice)

    for n in (3, 64, 1000):
        x, y = (np.arange(n) % 3).astype(dtype), (np.arange(n) % 5 - 2).astype("int64")
        same(jf.fuse(quotients)(x, y), plain(quotients, x, y))


# ---------------------------------------------------------------- threads, strides
def sums(x: Any) -> Any:
    return np.sum(x), np.sum(x, axis=0), np.sum(x, axis=1), np.mean(x * x, axis=-1), x.max(axis=0), jf.softmax(x)


@pytest.mark.parametrize("shape", [(3, 700_001), (1021, 977), (300_007, 3), (1, 1_000_003), (70_001, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits_do_not_depend_on_threads(runtime: Any, shape: tuple[int, ...], dtype: str) -> None:
    fused, x = jf.fuse(sums), make(shape, dtype, 3)
    results = []
    for threads in (1, 2, 5):
        runtime.set_threads(threads)
        results.append(fused(x))
    same(results[1], results[0])
    same(results[2], results[0])


@pytest.mark.parametrize("shape", [(2, 300_001), (257, 1023), (5000, 9), (7, 33, 65)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits_do_not_depend_on_strides(shape: tuple[int, ...], dtype: str) -> None:
    fused, x = jf.fuse(sums), make(shape, dtype, 4)
    expected = fused(x)
    wide = np.zeros(tuple(2 * n for n in shape), dtype)
    wide[(slice(None, None, 2),) * len(shape)] = x
    strided, reversed_ = wide[(slice(None, None, 2),) * len(shape)], x[..., ::-1].copy()[..., ::-1]
    for equal in (x.copy("F"), strided, reversed_, x[::-1].copy()[::-1]):
        same(fused(equal), expected)


def test_sums_are_close_to_numpy() -> None:
    fused = jf.fuse(sums)
    for shape in ((3, 70_001), (1021, 977), (70_001, 3)):
        for dtype in ("float32", "float64"):
            x = make(shape, dtype, 5, "C", "positive")
            for a, e in zip(fused(x), sums(x), strict=True):
                # NumPy adds rows one after another along axis 0: its error grows with the number of terms
                np.testing.assert_allclose(a, e, rtol=(shape[0] + 32) * np.finfo(dtype).eps)
