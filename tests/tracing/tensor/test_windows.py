"""Slices of a fixed length between bounds that change from call to call."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from tests.oracle import ROUNDED, same


def sums(x: Any, t: int) -> Any:
    return x[t - 3 : t].sum(axis=0)


def view(x: Any, t: int) -> Any:
    return x[t : t + 3]


def written_later(x: Any, t: int) -> Any:
    y = x * 1.0
    part = y[t : t + 3]
    y[:] = 0
    return part.sum()


def added_to(x: Any, t: int) -> Any:
    y = x * 1.0
    y[t : t + 3] += 5
    y[t : t + 2] = 7
    return y


def of_an_argument(x: Any, t: int) -> Any:
    part = x[t : t + 3]
    part *= 2
    return part + 0


def batches(x: Any, t: int) -> Any:
    return x[t * 2 : (t + 1) * 2] + x[2 * t : 2 * t + 2]


def other_axes(x: Any, t: int) -> Any:
    return x[t : t + 3, 1] * x[t : t + 3, 1:3].sum(), x.T[1:3, t : t + 2]


def chained(x: Any, t: int) -> Any:
    y = x * 1.0
    y[t : t + 3, 1] = x[t : t + 3, 0]
    y[t + 1 : t + 2][0] = -1
    y[t : t + 2][::-1] += 1
    return y[t : t + 2].T


def moved(x: Any, t: int) -> None:
    x[t : t + 2] = x[t + 1 : t + 3]


def empty(x: Any, t: int) -> Any:
    return x[t:t].size, x[-t : 5 - t].sum(), x[t : t - 1].sum()


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
@pytest.mark.parametrize("function", [
    sums, view, written_later, added_to, of_an_argument, batches, other_axes, chained, moved, empty,
])
def test_within_and_beyond_the_array(function: Callable[..., Any]) -> None:
    fused = jf.fuse(function)
    for n in range(50):
        x, t = np.arange(40.0).reshape(10, 4) + n, (n * 7) % 13
        y = x.copy()
        outcomes = []
        for f, given in ((function, x), (fused, y)):
            try:
                outcomes.append(f(given, t))
            except (ValueError, IndexError) as error:
                outcomes.append(isinstance(error, ValueError))
        if not (isinstance(outcomes[0], np.ndarray) and outcomes[0].size == 0):
            same(*outcomes, ROUNDED)
        same(x, y, ROUNDED)
        if function is view and outcomes[0].size:
            assert np.shares_memory(outcomes[1], y)


@pytest.mark.parametrize("function", [sums, view, written_later, added_to, of_an_argument, other_axes, chained, moved])
def test_positions_are_run_time_values(function: Callable[..., Any]) -> None:
    fused = jf.fuse(function)
    for t in range(3, 60):
        x = np.arange(400.0).reshape(100, 4)
        same(function(x.copy(), t), fused(x, t), ROUNDED)
    assert fused.stats()["traces"] <= 9 and fused.stats()["fallbacks"] == 0


def test_results_of_several_positions_do_not_meet() -> None:
    fused = jf.fuse(view)
    x = np.arange(400.0).reshape(100, 4)
    kept = [fused(x, t) for t in range(40)]
    for t, part in enumerate(kept):
        assert np.array_equal(part, x[t : t + 3]) and np.shares_memory(part, x)
