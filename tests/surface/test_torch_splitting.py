"""torch functions whose way depends on data: loops that are closed, and what plain runs change of the caller's."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import TORCH, same

import jitfuse as jf

torch = pytest.importorskip("torch", reason="torch is not installed")


def halve(x: Any) -> Any:
    while x.abs().max() > 1:
        x = x * 0.5
    return x


def halve_in_place(x: Any) -> Any:
    iterations = 0
    while x.norm() > 1:
        x.mul_(0.5)
        iterations += 1
    return x, iterations


def swap(x: Any) -> Any:
    a, b = x, torch.ones_like(x)
    while a[0] > b[0]:
        a, b = b * 1, a * 0.5
    return a, b


def until_close(x: Any) -> Any:
    last = torch.tensor(0.0)
    for k in range(100):  # noqa: B007 -- it is returned
        total = (x * x).sum()
        x = x / (1 + total.sqrt())
        if (total - last).abs() < 1e-3 * total or total < 1e-6:
            break
        last = total
    return x, last, k


def best_of(x: Any) -> Any:
    best, kept, k = torch.tensor(torch.inf), x, 0
    while k < 30:
        loss = (x[0] - 3).abs()
        if loss < best:
            best, kept = loss, x.clone()
        x = x * 0.7
        k += 1
    return best, kept


def through_a_view(x: Any) -> Any:
    first, other = x[:1], x.clone()[:1]
    while x[0] > 1:
        first, other = other, first
        first -= 0.5
        x.mul_(0.75)
    return first, other


LOOPS = (halve, halve_in_place, swap, until_close, best_of, through_a_view)
STARTS = tuple(torch.tensor([2.0**k, 1.0, 0.5]) for k in (0, 1, 3, 9, 2, 0, 30))


@pytest.mark.parametrize("function", LOOPS, ids=lambda f: f.__name__)
def test_loops_are_detected(function: Callable[..., Any]) -> None:
    fused = jf.fuse(function)
    for start in STARTS:
        theirs, ours = start.clone(), start.clone()
        same(fused(ours), function(theirs), TORCH)
        same(ours, theirs, TORCH)
    before = fused.stats()
    start = torch.tensor([2.0**14, 1.0, 0.5])
    same(fused(start.clone()), function(start.clone()), TORCH)
    after = fused.stats()
    assert after["compiles"] == before["compiles"] and after["traces"] <= before["traces"] + 1
    assert after["fallbacks"] == 0 and after["splits"] < 16


@pytest.mark.filterwarnings("ignore::jitfuse.errors.FallbackWarning")
@pytest.mark.parametrize("kind", [torch.tensor, np.array, jf.asarray], ids=["torch", "numpy", "eager"])
def test_plain_runs_change_the_callers_containers(kind: Callable[..., Any]) -> None:
    def function(state: Any, x: Any) -> Any:
        if x.sum() > 0:
            state["new"] = x * 2
            state["log"].append(1)
            return state
        x += 1
        return state["w"] + x

    fused = jf.fuse(function)
    for value in (-5.0, -5.0, -5.0, 5.0, -5.0, 5.0, 5.0, -5.0):
        weights, x = kind([1.0, 2.0]), kind([value, 1.0])
        state = {"w": weights, "log": [0]}
        result = fused(state, x)
        assert state["w"] is weights
        if value > 0:
            assert result is state and state["log"] == [0, 1] and type(state["new"]) is type(x)
            assert float(state["new"][0]) == 10 and float(x[0]) == value
        else:
            assert state["log"] == [0] and float(result[0]) == value + 2 and float(x[0]) == value + 1


@pytest.mark.filterwarnings("ignore::jitfuse.errors.FallbackWarning")
def test_plain_runs_change_unaligned_arrays_themselves() -> None:
    memory = np.zeros(33, np.uint8)[1:].view(np.float64)

    def function(state: Any, x: Any) -> Any:
        x[0] = 5
        state["sum"] = x.sum()
        return x

    fused = jf.fuse(function)
    for _ in range(3):
        memory[:] = 1
        state: dict[str, Any] = {}
        assert fused(state, memory) is memory
        assert state["sum"] == 8 and memory[0] == 5
