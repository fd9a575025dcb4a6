"""Bodies stay small whatever a program nests, and what is dear is stored rather than computed at many places."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.plans import ProgramPlan
from jitfuse.plans.inlining import MAX_STEPS

Plan = Callable[..., ProgramPlan]
x = np.ones((5, 4, 3))


def bodies(plan: ProgramPlan) -> list[int]:
    return [sum(len(s.body) for s in launch.form.stages) for launch in plan.best().launches]


@pytest.mark.parametrize("function", [
    lambda x: np.roll(x, 1, 0) * 2 + x,
    lambda x: np.roll(x, (1, 2), (0, 1)) - x,
    lambda x: np.pad(x, 2) * 2,
    lambda x: np.pad(x, ((1, 2), (0, 0), (0, 0)), mode="wrap") + 1,
    lambda x: np.concatenate([np.sqrt(x), x + 1], axis=1) * 2,
    lambda x: np.stack([x, x * 2, x - 1]).sum(axis=0),
])
def test_what_moves_little_shares_a_kernel(function: Callable[..., Any], plan_of: Plan) -> None:
    assert len(bodies(plan_of(function, x))) == 1


def padded(mode: str) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        for _ in range(3):
            x = np.pad(x, 7, mode=mode)
        return x

    return f


def joined_again(x: Any) -> Any:
    for k in range(12):
        x = np.concatenate([x * k, x[::-1] + k])[: x.shape[0]]
    return x


def joined_of_elementwise(x: Any) -> Any:
    for k in range(12):
        x = np.concatenate([x * k, x + k])[: x.shape[0]]
    return x


def moved_views(x: Any) -> Any:
    for _ in range(12):
        y = x[::-1]
        x = np.concatenate([y[:2], y[3:], y[2:3]]) * 2
    return x


def assigned(x: Any) -> Any:
    x = x + 0
    for k in range(400):
        x[k % 5] = x[(k + 1) % 5] * 2
    return x


def tiny_reductions(x: Any) -> Any:
    for k in range(8):
        x = np.stack([x, x + k, x * 2], axis=-1).sum(axis=-1)
    return x


def many_indices(x: Any) -> Any:
    for k in range(10):
        x = x[[0, 2, 1]] + np.roll(x, k, 1)[:3]
    return x


@pytest.mark.parametrize("function", [
    *map(padded, ("wrap", "reflect", "symmetric", "edge", "constant", "linear_ramp", "mean")),
    joined_again, joined_of_elementwise, moved_views, assigned, tiny_reductions, many_indices,
])
def test_bodies_of_nested_joins_are_bounded(function: Callable[..., Any], plan_of: Plan) -> None:
    # a step is a few nodes: bounds, choices, indices
    assert max(bodies(plan_of(function, x))) < 3 * MAX_STEPS


def test_long_programs_are_parted(plan_of: Plan) -> None:
    def chain(x: Any) -> Any:
        for n in range(3 * MAX_STEPS // 2):  # without a period: a loop would be rolled
            x = x * 1.5 + 1 if n * n * 2654435761 >> 20 & 1 else 1 - x * 1.5
        return x

    def doubled(x: Any) -> Any:  # 2**200 additions, were they not shared
        for _ in range(200):
            x = x + x
        return x

    assert len(bodies(plan_of(chain, x))) == 3
    assert len(bodies(plan_of(doubled, x))) == 1


def test_a_view_of_what_is_stored_is_a_load(plan_of: Plan) -> None:
    """Costs start again where a value is stored: not every later step is dear."""

    def f(x: Any) -> Any:
        for _ in range(20):
            x = x + x[::-1] * 0.5
        return x

    assert len(bodies(plan_of(f, x))) < 10


def test_dear_pieces_of_joins_are_computed_once(plan_of: Plan) -> None:
    pieces = 12
    plan = plan_of(lambda x: np.stack([np.sin(x * k) for k in range(pieces)]), x).best()
    sines = sum(i.op == "sin" for launch in plan.launches for s in launch.form.stages for i in s.body)
    (join,) = (launch for launch in plan.launches if max(launch.sizes) == pieces or launch.sizes[0] == pieces)
    assert sines == pieces and not any(i.op == "sin" for s in join.form.stages for i in s.body)


@pytest.mark.parametrize("function", [joined_again, joined_of_elementwise, moved_views, assigned, tiny_reductions])
def test_parted_programs_agree_with_numpy(function: Callable[..., Any]) -> None:
    data = np.arange(60.0).reshape(5, 4, 3)
    np.testing.assert_allclose(jf.fuse(function)(data), function(data), rtol=1e-12)


def network(x: Any, w: Any, y: Any, iterations: int) -> Any:
    """A layer of a network, whose offsets every round reads before a product and changes after it."""
    b = np.zeros(w.shape[1])
    for _ in range(iterations):
        error = np.maximum(x @ w + b, 0) - y
        b = b - 0.1 * error.sum(axis=0)
        w = w - 0.1 * (x.T @ error)
    return w, b


def test_what_iterations_hand_on_past_a_product_does_not_make_all_their_kernels_differ(plan_of: Plan) -> None:
    r = np.random.default_rng(2)
    arguments = r.normal(size=(7, 5)), r.normal(size=(5, 4)), r.normal(size=(7, 4))
    kernels = [len({launch.form.content_hash for launch in plan_of(network, *arguments, iterations).best().launches})
               for iterations in (8, 14)]
    assert kernels[0] == kernels[1]
    for got, want in zip(jf.fuse(network)(*arguments, 14), network(*arguments, 14), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10)


def test_values_within_rows_are_not_stored(plan_of: Plan) -> None:
    """Maxima and sums of rows are no products: a row goes through all of it in one kernel."""
    def twice(x: Any) -> Any:
        for _ in range(2):
            e = np.exp(x * 2 - np.max(x, axis=1, keepdims=True))
            x = e / e.sum(axis=1, keepdims=True)
        return x

    assert len(bodies(plan_of(twice, np.ones((64, 32))))) == 1
