"""`np.r_` and `np.c_` over traced arrays, numbers and ranges."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy import c_, r_

import jitfuse as jf

JOINS = {
    "padded": lambda x, y, s: np.r_[x, np.zeros(3)], "ends": lambda x, y, s: np.r_[0.0, x, 1],
    "one": lambda x, y, s: np.r_[x], "bools": lambda x, y, s: np.r_[x > 0, True],
    "scalars": lambda x, y, s: np.r_[x[0], s, 2.5], "lists": lambda x, y, s: np.r_[[x[0], 1], x[1:], (3, s)],
    "range": lambda x, y, s: np.r_[x, 0:4, 5:1:-2], "linspace": lambda x, y, s: np.r_[0:s:5j, x],
    "rows": lambda x, y, s: np.r_[np.ones((1, 3)) * x[0], np.zeros((2, 3))],
    "columns": lambda x, y, s: np.c_[x, y], "three": lambda x, y, s: np.c_[np.ones(len(x)), x, x * y],
    "of ranges": lambda x, y, s: np.c_[x, 0:len(x)], "of numbers": lambda x, y, s: np.c_[x[0], s, 1.0],
    "of rows": lambda x, y, s: np.c_[np.outer(x, y), x], "imported": lambda x, y, s: (c_[x, y], r_[x, s]),
    "ints": lambda x, y, s: np.r_[np.arange(3), s], "plain": lambda x, y, s: x[np.r_[0:1, 0, len(x) - 1]],
    "empty": lambda x, y, s: np.r_[x[:0], s, np.array([])], "zero": lambda x, y, s: np.r_[x.sum(), np.array(2.0), -0.0],
}


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "c16"])
@pytest.mark.parametrize("name", JOINS)
def test_joins(name: str, dtype: str) -> None:
    if dtype == "c16" and name in {"linspace", "bools"}:
        pytest.skip("of real numbers")

    def f(x: Any, y: Any, s: Any) -> Any:
        return JOINS[name](x, y, s)

    fused = jf.fuse(f)
    for n in (3, 1, 4):
        x = (np.arange(n) * 1.5 - 1).astype(dtype)
        for got, want in zip(fused(x, x[::-1], 2.0), f(x, x[::-1], 2.0), strict=True):
            assert np.asarray(got).dtype == np.asarray(want).dtype
            np.testing.assert_allclose(got, want, rtol=1e-6)
    assert fused.stats()["fallbacks"] == 0
    assert fused.stats()["splits"] == 0


def test_what_is_joined_is_a_copy() -> None:
    def f(x: Any) -> Any:
        y = np.r_[x]
        y[0] = 7.0
        z = np.r_[0:3]
        z[1] = x[0]
        return y, z

    x = np.array([1.5, 2.0])
    for got, want in zip(jf.fuse(f)(x), f(x)):
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype
    assert x[0] == 1.5


def test_text_is_plain_python() -> None:
    def f(x: Any) -> Any:
        return np.r_["0,2", x, x]

    x = np.arange(3.0)
    with pytest.warns(jf.FallbackWarning):
        np.testing.assert_array_equal(jf.fuse(f)(x), f(x))
