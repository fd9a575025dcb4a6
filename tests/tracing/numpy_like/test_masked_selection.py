"""x[mask] with a mask that is data: what can be computed without picking equals NumPy, the rest is refused or split."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf


def scaled(x: Any, y: Any) -> Any:
    x[x > 0] *= 2
    return x


def replaced(x: Any, y: Any) -> Any:
    m = x < y
    x[m] = np.sqrt(np.abs(y[m])) + x[m] ** 2 - 1.5
    return x, y[m].sum()


def same_comparison(x: Any, y: Any) -> Any:
    x[x < 0.25] = -x[x < 0.25]
    return x


def several(x: Any, y: Any) -> Any:
    m = (x > 0) & ~(y > 0.5)
    t = x[m]
    t += y[m]
    t -= 1
    u = t.copy()
    t *= 3
    y[m] = t + u
    x[m] = u
    return x, y


def reduced(x: Any, y: Any) -> Any:
    m = x > y
    return x[m].sum(), np.prod(1 + 0.1 * x[m]), (y[m] > 0).any(), np.all(y[m] < 2), np.mean(x[m]), x[m].std(), np.var(
        x[m] * y[m], ddof=1)


def rows(x: Any, y: Any) -> Any:
    m = x[:, 0] > 0
    y[m] = x[m] * 2 + np.arange(x.shape[1])
    x[m] -= y[0]
    return x[m].sum(axis=0), x[m].sum(), y


def later_axes(x: Any, y: Any) -> Any:
    m = x[0] > 0
    y[:, m] = x[:, m] + 1
    x[..., y[-1] > 0.5] = 0
    x[:, m] /= 2
    return x, x[:, m].mean(axis=1), y[:, m].sum()


def overwritten_between(x: Any, y: Any) -> Any:
    m = x > 0
    t = x[m] + 1
    x[:] = y
    x[m] = t
    return x


def selected_by_what_it_changes(x: Any, y: Any) -> Any:
    x[x > 0] = x[x > 0] - 1
    x[x > 0] = -1
    return x


FUNCTIONS = (scaled, replaced, same_comparison, several, reduced, rows, later_axes, overwritten_between,
             selected_by_what_it_changes)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("content", ["random", "none", "all", "nan"])
def test_as_numpy(function: Callable[..., Any], dtype: str, content: str) -> None:
    fused = jf.fuse(function)
    for shape in ((4, 5), (1, 3), (7, 1)):
        x, y = np.random.default_rng(3).standard_normal((2, *shape)).astype(dtype)
        if content == "none":
            x, y = -np.abs(x), np.abs(y)
        if content == "all":
            x, y = np.abs(x), -np.abs(y)
        if content == "nan":
            x[0, 0], y[-1, -1] = np.nan, np.inf
        ours = x.copy(), y.copy()
        with warnings.catch_warnings(action="ignore"):
            expected = function(x, y)
            result = fused(*ours)
        for e, r in zip((*expected, x, y), (*result, *ours), strict=True):
            assert np.asarray(e).dtype == np.asarray(r).dtype
            np.testing.assert_allclose(r, e, rtol=1e-5 if dtype == "float32" else 1e-12, atol=1e-6)


@pytest.mark.parametrize("kind", ["int64", "int8", "uint8", "bool", "complex128"])
def test_other_dtypes(kind: str) -> None:
    def f(x: Any, m: Any) -> Any:
        x[m] += x[m]
        return x, x[m].sum()

    x = np.array([3, 0, 1, 100, 5]).astype(kind)
    m = np.array([True, True, False, True, False])
    expected, ours = f(x.copy(), m), x.copy()
    result = jf.fuse(f)(ours, m)
    for e, r in zip(expected, result, strict=True):
        np.testing.assert_array_equal(r, e)
        assert np.asarray(r).dtype == np.asarray(e).dtype


@pytest.mark.parametrize("base", ["bool", "int64", "uint8", "float64"])
@pytest.mark.parametrize("exponent", ["int64", "float64"])
def test_powers_that_were_not_picked_raise_nothing(base: str, exponent: str) -> None:
    """A negative power of an integer is an error, where it is picked."""
    def f(x: Any, p: Any, m: Any) -> Any:
        return np.sum(x[m] ** p[m]), x[m] ** p[m] + 1

    x, p = np.array([1, 1, 2, 3]).astype(base), np.array([1, -1, 2, 3]).astype(exponent)
    m = np.array([True, False, True, True])
    for want, got in zip(f(x, p, m), jf.fuse(f)(x, p, m), strict=True):
        np.testing.assert_array_equal(got, want)
        assert np.asarray(got).dtype == np.asarray(want).dtype
    if base != "float64" and exponent == "int64":
        with pytest.raises(ValueError, match="negative integer powers"):
            jf.fuse(lambda x, p, m: np.sum(x[m] ** p[m]))(x, p, ~m)


def test_elements_that_were_not_picked_raise_nothing() -> None:
    @jf.fuse
    def f(x: Any, p: Any) -> Any:
        m = p >= 0
        x[m] = x[m] * p[m]
        return x

    np.testing.assert_array_equal(f(np.array([2, 3]), np.array([3, -1])), [6, 3])


def test_in_place_keeps_the_dtype() -> None:
    @jf.fuse
    def f(x: Any, m: Any) -> Any:
        x[m] *= 0.5
        return x

    with pytest.raises((TypeError, jf.JitfuseError), match="same_kind"):
        f(np.array([1, 2]), np.array([True, False]))


def test_a_mask_of_another_shape_is_an_index_error() -> None:
    with pytest.raises(IndexError, match="boolean index"):
        jf.fuse(lambda x, m: x[m].sum())(np.ones(3), np.ones(4, bool))


def test_the_last_axis_of_one_is_reduced() -> None:
    x = np.random.default_rng(0).standard_normal((5, 3))
    assert jf.fuse(lambda x: x[x[:, 0] > 0].argmax(axis=1).sum())(x) == x[x[:, 0] > 0].argmax(axis=1).sum()


@pytest.mark.parametrize("function", [
    lambda x, m: x[m], lambda x, m: x[m].max(), lambda x, m: np.sort(x[m]), lambda x, m: x[m] + np.arange(2.0),
    lambda x, m: np.zeros_like(x[m]), lambda x, m: np.full_like(x[m], 2.0), lambda x, m: np.zeros(x[m].shape),
    lambda x, m: len(x[m]), lambda x, m: x[m].shape, lambda x, m: x[m][0], lambda x, m: x[m] + x[~m][:2],
])
def test_what_needs_the_elements_is_picked_or_refused(function: Callable[..., Any]) -> None:
    x, m = np.array([3.0, 1.0, 2.0, 5.0]), np.array([True, False, True, False])
    try:
        with warnings.catch_warnings(action="ignore"):
            result = jf.fuse(function)(x, m)
    except jf.JitfuseError as error:
        assert "depends on data" in str(error)
    else:
        np.testing.assert_array_equal(result, function(x, m))
