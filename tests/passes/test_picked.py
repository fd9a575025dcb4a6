"""Slices of single places that were joined are the places themselves."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.errors import BoundsError
from jitfuse.passes.pipeline import run_passes
from jitfuse.tracing.tracer import trace

A = np.arange(30.0).reshape(6, 5)


def of_joined_numbers(a: Any, i: Any, j: Any) -> Any:
    both = np.array([a[0, 0], a[i, 2], a[5, j]])
    return both[0] + 2 * both[2], both[1:], both[::-1], both[-1:]


def of_joined_rows(a: Any, i: Any, j: Any) -> Any:
    both = np.stack([a[i], a[j] * 2])
    return both[1], both[0, 1:4], both[:, 2], both[1, ::-2], both[:, 1:2]


def swapped_rows(a: Any, i: Any, j: Any) -> Any:
    a = a.copy()
    a[[i, j]] = a[[j, i]]
    return a


def swapped_columns(a: Any, i: Any, j: Any) -> Any:
    a = a.copy()
    a[:, [i, j]] = a[:, [j, i]]
    return a


def of_gathered(a: Any, i: Any, j: Any) -> Any:
    rows = a[[i, j, 0]]
    return rows[0], rows[2, 1:], rows[1, ::2], rows[:, 3], rows[1:]


def of_pairs(a: Any, i: Any, j: Any) -> Any:
    picked = a[[i, j], [j, i]]
    return picked[0], picked[1] - picked[0]


def of_parts(a: Any, i: Any, j: Any) -> Any:
    joined = np.concatenate([a[:1], a[2:4], a[i, None]])
    return joined[0], joined[1], joined[3], joined[:1] + j


FUNCTIONS = [of_joined_numbers, of_joined_rows, swapped_rows, swapped_columns, of_gathered, of_pairs, of_parts]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("places", [(1, 4), (4, 1), (2, 2), (-1, 0), (0, -2)])
@pytest.mark.parametrize("turned", [False, True])
def test_results_are_numpys(function: Callable[..., Any], places: tuple[int, int], turned: bool) -> None:
    a = A[::-1].copy(order="F")[::-1] if turned else A
    i, j = (np.int64(p) for p in places)
    got, want = jf.fuse(function)(a, i, j), function(a, i, j)
    for x, y in zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, want)), strict=True):
        assert x.dtype == y.dtype and np.shape(x) == np.shape(y)
        np.testing.assert_array_equal(x, y)


def passed(function: Callable[..., Any], *args: Any) -> list[str]:
    return [step.op_name for step in run_passes(trace(function, args, {}).program, False).steps]


def test_places_are_used_as_they_are() -> None:
    assert "slice" not in passed(lambda a, i: np.stack([a[i], a[i] * 2])[1], A, np.int64(1))
    assert "concat" not in passed(lambda x, y: np.array([x.sum(), y.sum()])[1], A, A)


def test_longer_pieces_stay_joined() -> None:
    """Whether a slice lies in a piece of several places depends on sizes: kernels must not."""
    assert "concat" in passed(lambda x: np.concatenate([x, x * 2])[0], A)
    assert "concat" in passed(lambda x, i: x[np.concatenate([i, i + 1])][0], A, np.array([0, 1]))


def test_an_index_out_of_bounds_is_told_at_its_line() -> None:
    def fn(a: Any, i: Any) -> Any:
        rows = a[[i, 1]]
        return rows[0]

    with pytest.raises(BoundsError, match=f"test_picked.py:{fn.__code__.co_firstlineno + 1}"):
        jf.fuse(fn)(A, np.int64(6))
