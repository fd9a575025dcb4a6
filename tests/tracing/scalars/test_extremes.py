"""Python's `min` and `max` of computed numbers: the same values as in Python, without a look at data."""
from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.errors import TracedValueError

VALUES = [0.0, -0.0, 1.5, -2.0, float("nan"), float("inf")]


@pytest.mark.parametrize("choose", [min, max])
def test_numbers_of_arrays(choose: Callable[..., Any]) -> None:
    def fn(x: Any) -> Any:
        return choose(x[0], x[1], x[2]), choose([x[2], x[0]]), choose((x[1], 0.0)), choose(1, x[0] * 1)

    fused = jf.fuse(fn)
    for values in itertools.product(VALUES, repeat=3):
        x = np.array(values)
        for got, want in zip(fused(x), fn(x), strict=True):
            np.testing.assert_array_equal(got, want)
            assert np.signbit(got) == np.signbit(float(want)) or np.isnan(want)
    assert fused.stats()["traces"] == 1 and not fused.stats()["splits"]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float32", "float16"])
def test_dtypes(dtype: str) -> None:
    def fn(x: Any) -> Any:
        return min(x[0], x[1]), max(x[1], x[0], 7), max(x[0], 7, x[1]) + x

    x = np.array([3, 9], dtype)
    for a, b in zip(jf.fuse(fn, strict=True)(x), fn(x), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("fn", [
    lambda x: max(x[0], np.float32(1) * x[1].astype("float32")), lambda x: max(x[:1], x[1:]),
    lambda x: max(x[0], x[1], key=abs), lambda x: max(x[0].astype("int8"), 300), lambda x: min(x[0] > 1, x[1] > 2),
    lambda x: max(x), lambda x: max(x[0].astype(int), 2.5),
])
def test_what_graph_breaks_at_values_as_before(fn: Callable[..., Any]) -> None:
    x = np.array([3.0, 4.0])
    with pytest.raises(TracedValueError):
        jf.fuse(fn).program(x)
    np.testing.assert_array_equal(jf.fuse(fn)(x), fn(x))


def test_plain_values_stay_plain() -> None:
    def fn(x: Any, n: int) -> Any:
        return x[: max(min(n, 3), 1)] * max([1, 2]) + max(x.shape, default=0)

    x = np.arange(5.0)
    for n in (0, 2, 9):
        np.testing.assert_array_equal(jf.fuse(fn)(x, n), fn(x, n))


def test_a_table_of_distances_is_a_short_program() -> None:
    def fn(a: Any, b: Any) -> Any:
        d = np.zeros((len(a) + 1, len(b) + 1), np.int64)
        for i in range(len(a) + 1):
            d[i, 0] = i
        for j in range(len(b) + 1):
            d[0, j] = j
        for i in range(1, len(a) + 1):
            for j in range(1, len(b) + 1):
                d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + (a[i - 1] != b[j - 1]))
        return d

    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 3, 20), rng.integers(0, 3, 30)
    fused = jf.fuse(fn)
    for _ in range(2):
        np.testing.assert_array_equal(fused(a, b), fn(a, b))
    assert len(fused.program(a, b).steps) < 150
