"""Python numbers that are written into arrays whose dtype does not hold them: refused as NumPy refuses them."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf


def everywhere(x: Any, m: Any, value: Any) -> Any:
    x[...] = value
    return x


def in_a_place(x: Any, m: Any, value: Any) -> Any:
    x[1:2] = value
    return x


def by_a_mask(x: Any, m: Any, value: Any) -> Any:
    x[m] = value
    return x


def by_indices(x: Any, m: Any, value: Any) -> Any:
    x[[0, 2]] = value
    return x


@pytest.mark.parametrize("function", [everywhere, in_a_place, by_a_mask, by_indices])
@pytest.mark.parametrize(("dtype", "value"), [
    ("int8", 300), ("uint8", -1), ("float64", 1j), ("int64", 1j), ("int8", 7), ("int64", 2.5),
    ("bool", 1j), ("complex64", 1j), ("float32", float("nan")),
])
def test_as_numpy(function: Callable[..., Any], dtype: str, value: Any) -> None:
    x, m = np.arange(4).astype(dtype), np.array([True, False, True, False])
    try:
        expected = function(x.copy(), m, value)
    except (TypeError, ValueError, OverflowError) as error:
        with pytest.raises(type(error)):
            jf.fuse(lambda x, m: function(x, m, value))(x.copy(), m)
    else:
        np.testing.assert_array_equal(jf.fuse(lambda x, m: function(x, m, value))(x.copy(), m), expected)


def nan_in_a_place(x: Any) -> None:
    x[0] = np.nan


def infinity_by_a_mask(x: Any) -> None:
    x[x > 0] = -np.inf


@pytest.mark.parametrize("function", [nan_in_a_place, infinity_by_a_mask])
def test_numbers_that_are_not_finite(function: Callable[..., Any]) -> None:
    with pytest.raises((ValueError, OverflowError)) as error:
        function(np.arange(4))
    with pytest.raises(error.type):
        jf.fuse(function)(np.arange(4))


@pytest.mark.parametrize("function", [in_a_place, by_a_mask, by_indices])
def test_arguments(function: Callable[..., Any]) -> None:
    f = jf.fuse(function)
    x, m = np.zeros(4, np.int8), np.array([True, False, True, False])
    np.testing.assert_array_equal(f(x.copy(), m, 7), function(x.copy(), m, 7))
    with pytest.raises(OverflowError):
        f(x, m, 300)
