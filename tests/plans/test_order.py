"""The second scheduling: kernels and library calls in an order of little memory, by the bytes that they store."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.compile.planning import feed_layouts
from jitfuse.passes.pipeline import run_passes
from jitfuse.plans import ProgramPlan
from jitfuse.tracing.tracer import trace

rng = np.random.default_rng(0)


def accumulated(batches: Any, up: Any, down: Any, targets: Any) -> Any:
    """A train step that adds up the gradients of several batches, each with a wide hidden layer."""
    loss, grad_up, grad_down = 0.0, 0.0, 0.0
    for x, target in zip(batches, targets, strict=True):
        hidden = np.tanh(x @ up)
        error = hidden @ down - target
        loss = loss + (error * error).mean()
        grad_down = grad_down + hidden.T @ error
        grad_up = grad_up + x.T @ ((error @ down.T) * (1 - hidden * hidden))
    return loss, up - 0.1 * grad_up, down - 0.1 * grad_down


def towers(x: Any, weights: Any) -> Any:
    """Several deep branches that meet at the end: breadth first keeps all of them in memory."""
    total = x[:, :8]
    for a, b in weights:
        wide = np.tanh(x @ a)
        total = total + np.exp(-((wide @ b) ** 2)) + (wide @ a.T)[:, :8]
    return total


def layers(x: Any, weights: Any, target: Any) -> Any:
    """A train step of plain layers, with weight decay and a gradient norm."""
    seen = [x]
    for w in weights:
        seen.append(np.tanh(seen[-1] @ w))
    delta = (seen[-1] - target) / x.shape[0]
    grads = []
    for w, h, after in zip(weights[::-1], seen[-2::-1], seen[:0:-1], strict=True):
        delta = delta * (1 - after * after)
        grads.append(h.T @ delta + 0.01 * w)
        delta = delta @ w.T
    norm = np.sqrt(sum((g * g).sum() for g in grads))
    return [w - 0.1 * g / np.maximum(norm, 1) for w, g in zip(weights[::-1], grads, strict=True)]


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "accumulated": (accumulated, (
        [rng.normal(size=(200, 32)) for _ in range(4)], rng.normal(size=(32, 256)), rng.normal(size=(256, 8)),
        [rng.normal(size=(200, 8)) for _ in range(4)],
    )),
    "towers": (towers, (
        rng.normal(size=(200, 64)), [(rng.normal(size=(64, 300)), rng.normal(size=(300, 8))) for _ in range(6)],
    )),
    "layers": (layers, (
        rng.normal(size=(128, 64)), [rng.normal(size=(64, 64)) for _ in range(3)], rng.normal(size=(128, 64)),
    )),
}


def arena(function: Callable[..., Any], args: tuple[Any, ...], method: str) -> int:
    made = trace(function, args, {}, schedule_method=method)
    return ProgramPlan(run_passes(made.program, False), feed_layouts(made), method).best().arena_bytes


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_the_integer_program_is_never_above_asap(name: str) -> None:
    pytest.importorskip("highspy", reason="schedule='ilp' needs highspy (extra `ilp`)")
    assert arena(*CASES[name], "ilp") <= min(arena(*CASES[name], m) for m in ("asap", "slack"))


@pytest.mark.parametrize("name", ["accumulated", "towers"])
def test_the_integer_program_is_below_asap_in_training(name: str) -> None:
    pytest.importorskip("highspy", reason="schedule='ilp' needs highspy (extra `ilp`)")
    assert arena(*CASES[name], "ilp") < arena(*CASES[name], "asap")


@pytest.mark.parametrize("method", ["asap", "alap", "slack", "ilp"])
@pytest.mark.parametrize("name", CASES)
def test_the_order_changes_no_result(name: str, method: str) -> None:
    if method == "ilp":
        pytest.importorskip("highspy", reason="schedule='ilp' needs highspy (extra `ilp`)")
    function, args = CASES[name]
    found, expected = jf.fuse(function, schedule=method)(*args), function(*args)
    for a, b in zip(flat(found), flat(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def flat(tree: Any) -> list[Any]:
    if isinstance(tree, list | tuple):
        return [leaf for item in tree for leaf in flat(item)]
    return [tree]
