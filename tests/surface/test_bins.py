"""Bins: their order and the arithmetic of their edges are NumPy's."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitfuse as jf


@pytest.mark.parametrize("bins", [[-1, 0, 1], [1, 0, -1], [1.0], [2, 2], [1, 1, 0], [0, 1, 1]])
@pytest.mark.parametrize("right", [False, True])
def test_digitize(bins: Any, right: bool) -> None:
    x = np.round(np.random.default_rng(0).standard_normal(20))
    expected = np.digitize(x, bins, right=right)
    np.testing.assert_array_equal(jf.fuse(lambda x: np.digitize(x, bins, right=right))(x), expected)
    f = jf.fuse(lambda x, b: np.digitize(x, b, right=right))
    for edges in (np.array(bins, float), np.array(bins, float)[::-1].copy()):
        np.testing.assert_array_equal(f(x, edges), np.digitize(x, edges, right=right))


def test_digitize_refuses_bins_without_order() -> None:
    with pytest.raises(ValueError):
        jf.fuse(lambda x: np.digitize(x, [1, 0, 1]))(np.ones(3))


@pytest.mark.parametrize("limits", [
    (0, 1), (0.1, 0.7), (1, 1), (np.float32(0), np.float64(1)), (np.int64(0), np.int64(1)),
])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64"])
def test_histogram_edges(limits: Any, dtype: str) -> None:
    x = (np.random.default_rng(0).integers(0, 11, 300) / 10).astype(dtype)
    for edges in ((lambda x: np.histogram(x, 10, range=limits)), (lambda x: np.histogram_bin_edges(x, 10, limits))):
        for e, r in zip(edges(x), jf.fuse(edges)(x), strict=True):
            np.testing.assert_array_equal(r, e)
            assert r.dtype == e.dtype


def test_histogram_of_numbers_that_are_arguments() -> None:
    def f(x: Any, low: Any, high: Any) -> Any:
        return np.histogram(x, 5, range=(low, high))

    fused, x = jf.fuse(f), (np.arange(11) / 10).astype(np.float32)
    for limits in ((0.1, 0.9), (0, 1), (0.2, 0.3)):
        for e, r in zip(f(x, *limits), fused(x, *limits), strict=True):
            np.testing.assert_array_equal(r, e)
            assert r.dtype == e.dtype
