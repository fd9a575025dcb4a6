"""Results whose shape depends on data: masks, places, sets, repetitions; counts of none, one, some and all."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from split_results import check

import jitfuse as jf

CALLS = (
    np.array([[1.0, -2.0, 3.0], [-4.0, 5.0, 0.0]]), -np.ones((2, 3)), np.ones((2, 3)),
    np.array([[-1.0, -1.0, -1.0], [-1.0, -1.0, 2.0]]), np.array([[1.0, 2.0, -3.0], [3.0, 0.0, np.nan]]),
)


def masked_sum(x: Any) -> Any:
    return x[x > 0].sum() * 2, np.sin(x[x > 0])


def masked_rows(x: Any) -> Any:
    return x[x[:, 0] > 0] + 1, x[:, x[0] > 0], x[x[:, 0] > 0, 1:], x[..., x[0] > 0]


def masked_pairs(x: Any) -> Any:
    return x[x[:, 0] < 9, 0], x[0, x[1] > 0] * 2


def masked_scale(x: Any) -> Any:
    x = x.copy()
    x[x > 0] *= 2
    return x


def masked_values(x: Any) -> Any:
    y = np.zeros_like(x)
    y[x > 0] = np.sqrt(np.abs(x[x > 0])) + 1
    return y


def masked_argument(x: Any) -> Any:
    x[x < 0] -= 1
    return x.sum()


def places(x: Any) -> Any:
    i, j = np.nonzero(x > 0)
    return i + j, x[i, j], np.flatnonzero(x), np.argwhere(x > 1), np.where(x < 0)[0], x.ravel().nonzero()[0]


def picked(x: Any) -> Any:
    return np.extract(x > 0, x), np.compress(x[0] > 0, x, axis=1), x.ravel().compress([True, False, True])


def repeated(x: Any) -> Any:
    counts = (x[0] > 0).astype(int) * 2
    return np.repeat(x, counts, axis=1), np.repeat(x[0], counts), x.repeat(counts.sum(), 0)


def sets(x: Any) -> Any:
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    return values * 2, inverse, counts, np.union1d(x, x + 1), np.setdiff1d(x, np.array([1.0, -1.0]))


def scalar_mask(x: Any) -> Any:
    return x[x.sum() > 0], x[0, 0] > 0


def masks_and_branches(x: Any) -> Any:
    found = x[x > 0]
    if found.size == 0:
        return x
    if found[0] > 1:
        return found
    return found - found.mean()


def loop_of_masks(x: Any) -> Any:
    y = x[x > 0]
    while y.size > 1:
        y = y[1:][y[1:] > 0] - 0.5
    return y


FUNCTIONS = (
    masked_sum, masked_rows, masked_pairs, masked_scale, masked_values, masked_argument, places, picked, repeated, sets,
    scalar_mask, masks_and_branches, loop_of_masks,
)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_masks(function: Any) -> None:
    fused = check(function, *CALLS)
    before = fused.stats()
    fused(CALLS[0].copy())
    assert fused.stats()["traces"] == before["traces"] and before["fallbacks"] == 0


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float32", "complex64", "bool"])
@pytest.mark.parametrize("size", [0, 1, 7, 5000])
def test_dtypes_and_sizes(dtype: str, size: int) -> None:
    def function(x: Any) -> Any:
        return x[x != 0], np.flatnonzero(x), np.unique(x)

    rng = np.random.default_rng(size)
    check(function, rng.integers(0, 2, size).astype(dtype), np.zeros(size, dtype), np.ones(size, dtype))


def test_counts_that_come_again_trace_nothing() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(40)
    fused = check(lambda x: np.cumsum(x[x > 0]), *(rng.permutation(x) for _ in range(6)), iterations=1)
    assert fused.stats()["traces"] == 1


def test_wrong_masks_raise_as_in_numpy() -> None:
    def function(x: Any) -> Any:
        return x[x[:, 0] > 0, :, 0]

    for wrong in (lambda x: x[x[0] > 0], lambda x: x[x > 0, 0], function):
        with pytest.raises(IndexError):
            wrong(CALLS[0])
        with pytest.raises(IndexError):
            jf.fuse(wrong)(CALLS[0])
    with pytest.raises(ValueError):
        jf.fuse(lambda x: np.repeat(x, (x[0] - 9).astype(int), axis=1))(CALLS[0])

    def assigned(x: Any) -> Any:
        x[x > 0] = np.ones(4)
        return x

    with pytest.raises(ValueError):
        jf.fuse(assigned)(CALLS[0])


def test_array_api_functions() -> None:
    x = np.array([3.0, 1.0, 3.0, 0.0])
    for name in ("unique_all", "unique_counts", "unique_inverse"):
        found, expected = jf.fuse(getattr(jf, name))(x), getattr(np, name)(x)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(a), b)
    np.testing.assert_array_equal(jf.fuse(jf.nonzero)(x)[0], [0, 1, 2])
    np.testing.assert_array_equal(jf.fuse(jf.unique_values)(x), [0, 1, 3])
