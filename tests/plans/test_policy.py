"""Plans compete: every choice of a policy is won by either side somewhere, and shown with what lost."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.ir.kernels.sum_tree import CHUNK
from jitfuse.plans import ProgramPlan
from jitfuse.plans.policy import DEFAULT, LoweringPolicy

Plan = Callable[..., ProgramPlan]
LONG = 2 * CHUNK


def softmax(x: Any) -> Any:
    return jf.softmax(x, axis=-1)


def shares(x: Any) -> Any:
    y = np.sqrt(abs(x) + 1)
    return y / y.sum(axis=-1, keepdims=True)


def repeated(x: Any) -> Any:
    return np.tanh(x[0]) * x


def centred(x: Any) -> Any:
    return x - x.mean(axis=0)


def differences(x: Any) -> Any:
    y = np.exp(x) * 2
    return y[1:] - y[:-1]


def both_sums(x: Any) -> Any:
    y = np.tanh(np.sin(x))
    return y.sum(axis=0), y.sum(axis=1)


def total(x: Any) -> Any:
    return x.sum(axis=-1)


def layer(x: Any) -> Any:
    return np.maximum(x.T @ (x + 1), 0)


def gram(x: Any) -> Any:
    return x.T @ x


def one_column(x: Any) -> Any:
    return x @ x[:, :1]


def twice(x: Any) -> Any:
    return np.maximum(x @ x.T, 0) @ x


def chained_products(x: Any) -> Any:
    return x @ x.T @ x


WON = [
    ("regroup", True, chained_products, (500, 20)), ("regroup", False, chained_products, (16, 4)),
    ("chain", True, twice, (300, 200)), ("chain", False, twice, (16_000, 512)),
    ("own", True, layer, (300, 200)), ("own", False, gram, (300, 200)), ("own", False, one_column, (500, 500)),
    ("one_pass", True, softmax, (5, LONG)), ("one_pass", False, centred, (LONG, 80)),
    ("split", True, total, (1, LONG)), ("split", False, total, (5, LONG)),
    ("store", True, both_sums, (50, 60)), ("store", True, repeated, (500, 600)),
    ("store", False, differences, (50, 60)),
    ("unroll", True, total, (50, 3)), ("unroll", False, softmax, (50, 3)),
    ("keep", True, softmax, (50, 60)), ("keep", False, shares, (10, LONG)),
]


@pytest.mark.parametrize(("choice", "value", "function", "shape"), WON)
def test_each_side_of_each_choice_wins_somewhere(
    choice: str, value: bool, function: Callable[..., Any], shape: tuple[int, ...], plan_of: Plan,
) -> None:
    winner, *losers = plan_of(function, np.zeros(shape)).candidates()
    assert getattr(winner.policy, choice) is value
    beaten = [loser for loser in losers if getattr(loser.policy, choice) is not value]
    assert beaten and all(winner.cost_ns(choice) <= loser.cost_ns(choice) for loser in losers)


def test_every_choice_is_tested() -> None:
    sides = {(field, value) for field in LoweringPolicy._fields for value in (True, False)}
    assert {(choice, value) for choice, value, _, _ in WON} == sides


def test_most_programs_have_one_plan(plan_of: Plan) -> None:
    assert len(plan_of(lambda x: np.sin(x) * x + 1, np.zeros((40, 50))).candidates()) == 1
    assert len(plan_of(centred, np.zeros((40, 50))).candidates()) == 1


def test_the_choice_and_what_lost_are_explained() -> None:
    f = jf.fuse(softmax)
    text = f.explain(np.zeros((50, 60)))
    assert "plan: fused, dear row values kept" in text
    assert "instead of: fused, row values computed again" in text


@functools.cache
def computed(policy: LoweringPolicy, function: Callable[..., Any], shape: tuple[int, ...]) -> tuple[Any, ...]:
    x = np.random.default_rng(3).normal(size=shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProgramPlan, "best", lambda plan: plan.lower(policy).specialise(()))
        found = jf.fuse(function)(x)
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("policy", [DEFAULT._replace(**{f: False}) for f in LoweringPolicy._fields], ids=str)
@pytest.mark.parametrize(("function", "shape"), [
    (softmax, (3, LONG + 17)), (centred, (LONG + 5, 70)), (differences, (41, 53)), (both_sums, (41, 53)),
    (twice, (70, 90)), (chained_products, (60, 20)),
    (total, (2, LONG + 1)), (softmax, (29, 4)), (lambda x: x / x.sum(axis=-1, keepdims=True), (77, 3)),
])
def test_every_policy_computes_the_same(
    policy: LoweringPolicy, function: Callable[..., Any], shape: tuple[int, ...]
) -> None:
    """Not a bit depends on the plan, but where products are regrouped or a library contracts."""
    tolerance = 0 if policy.own and policy.regroup else 1e-11
    for a, b in zip(computed(DEFAULT, function, shape), computed(policy, function, shape), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(a).max(initial=0))
