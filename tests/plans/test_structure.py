"""Programs that differ in sizes of a class alone share the choice of how they are lowered."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.plans import ProgramPlan
from jitfuse.plans.policy import DEFAULT, LoweringPolicy, descend
from jitfuse.plans.structure import structure

Plan = Callable[..., ProgramPlan]


def named(plan: ProgramPlan) -> int | None:
    return structure(plan.program, plan.layouts)


def step(a: Any, k: int) -> Any:
    """A round of an elimination: rows change places, the rest is reduced by the outer product."""
    p = k + np.argmax(np.abs(a[k:, k]))
    a = a.copy()
    a[[k, p]] = a[[p, k]]
    a[k + 1 :, k] /= a[k, k]
    a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a, p


def weighed(a: Any, k: int) -> Any:
    """A round over the rest of a matrix: weights of its rows, and their sum for each column."""
    rest = np.exp(a[k:, k:] - a[k:, k:].max(axis=1, keepdims=True))
    weights = rest / rest.sum(axis=1, keepdims=True)
    return weights, weights.sum(axis=0)


def iteration_of(plan_of: Plan, k: int, n: int = 50) -> ProgramPlan:
    return plan_of(lambda a: weighed(a, k), np.ones((n, n)))


def test_sizes_of_a_class_do_not_count(plan_of: Plan) -> None:
    assert named(iteration_of(plan_of, 7)) == named(iteration_of(plan_of, 8)) == named(iteration_of(plan_of, 13))
    assert named(iteration_of(plan_of, 7)) != named(iteration_of(plan_of, 30))  # 20 of 50 are left


def test_what_kernels_know_counts(plan_of: Plan) -> None:
    x = np.ones((40, 50))
    functions: list[Callable[..., Any]] = [
        lambda x: x + 3.5, lambda x: x + 1.0, lambda x: x * 3.5, lambda x: x[1:] + 3.5, lambda x: x[:39] + 3.5,
        lambda x: x[::2] + 3.5, lambda x: x[::-1] + 3.5, lambda x: x.sum(axis=0), lambda x: x.sum(axis=1),
        lambda x: (x + 3.5, x * 3.5), lambda x: (x * 3.5, x + 3.5), lambda x: x[:2] + 3.5, lambda x: x[:3] + 3.5,
    ]
    names = [named(plan_of(f, x)) for f in functions]
    assert len(set(names)) == len(names)
    assert named(plan_of(functions[0], x)) == named(plan_of(lambda x: x + 4.5, np.ones((33, 64))))
    assert named(plan_of(functions[0], x)) != named(plan_of(functions[0], x.astype(np.float32)))
    assert named(plan_of(functions[0], x)) != named(plan_of(functions[0], x.T))
    assert named(plan_of(functions[0], x)) != named(plan_of(functions[0], x[:, ::2]))


def test_arrays_and_loops_have_no_structure(plan_of: Plan) -> None:
    table = np.arange(40.0)
    loop: Callable[..., Any] = lambda x: jf.fori_loop(0, 5, lambda i, y: y * x, x)  # noqa: E731
    assert named(plan_of(lambda x: x + np.array([1.0, 5.0, 7.0]), np.ones(3))) is None
    assert named(plan_of(loop, table)) is None


def lowered(plan: ProgramPlan, chosen: dict[int, LoweringPolicy]) -> tuple[LoweringPolicy, int]:
    """Return the best policy, and how many candidates there were."""
    made = plan.replace(chosen=chosen).candidates()
    return made[0].policy, len(made)


def test_what_is_known_is_lowered_once(plan_of: Plan) -> None:
    chosen: dict[int, LoweringPolicy] = {}
    first = lowered(iteration_of(plan_of, 7), chosen)
    assert first[1] > 1 and len(chosen) == 1
    assert lowered(iteration_of(plan_of, 9), chosen) == (first[0], 1)
    assert lowered(iteration_of(plan_of, 30), chosen)[1] > 1
    alone = iteration_of(plan_of, 9).candidates()
    assert alone[0].policy == first[0] and len(alone) == first[1]


def test_products_compete_whatever_is_known(plan_of: Plan) -> None:
    def function(a: Any, b: Any) -> Any:
        e = np.exp(a @ b)
        return e / e.sum(axis=0), np.tanh(e[1:] + e[:-1])

    plan = plan_of(function, np.ones((40, 40)), np.ones((40, 40)))
    chosen: dict[int, LoweringPolicy] = {}
    policy, _ = lowered(plan, chosen)
    for other in (policy, policy._replace(own=not policy.own), policy._replace(store=not policy.store)):
        chosen[named(plan)] = other  # type: ignore[index]
        found, _ = lowered(plan, chosen)
        assert (found.regroup, found.chain, found.own) == (policy.regroup, policy.chain, policy.own)


class _Candidate:
    choices = frozenset(LoweringPolicy._fields)

    def __init__(self, policy: LoweringPolicy) -> None:
        self.policy = policy


@pytest.mark.parametrize("products", [False, True])
def test_the_known_policy_wins_where_choices_of_products_agree(products: bool) -> None:
    known = DEFAULT._replace(store=False, keep=False)
    made = descend(_Candidate, lambda c, _: not c.policy.own, known=known, products=products)
    assert made[0].policy == known
    assert len(made) == (5 if products else 1)  # the default, three choices of products, what is known
    other = known._replace(own=False)
    assert descend(_Candidate, lambda c, _: not c.policy.own, known=other)[0].policy == DEFAULT


@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_eliminations_are_numpys(n: int) -> None:
    def eliminated(a: Any) -> Any:
        order = np.zeros(n, int)
        for k in range(n - 1):
            a, p = step(a, k)
            if p != k:  # a look: each round is a part of its own
                order[k] = p
        return a, order

    a = np.random.default_rng(0).normal(size=(n, n))
    fused = jf.fuse(eliminated)
    for values in (a, a[::-1], a.T):
        (got, places), (want, wanted) = fused(values), eliminated(values)
        np.testing.assert_array_equal(places, wanted)
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
