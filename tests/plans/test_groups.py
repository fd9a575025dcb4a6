"""Which steps share a kernel, and the reason for every refusal."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse import reasons
from jitfuse.ir.kernels.sum_tree import CHUNK
from jitfuse.plans import ProgramPlan
from jitfuse.plans.group import MAX_OPERANDS, NARROW
from jitfuse.plans.inlining import MAX_STEPS
from jitfuse.plans.policy import DEFAULT
from jitfuse.reasons import Reason

Plan = Callable[..., ProgramPlan]


def launches(plan: ProgramPlan) -> int:
    return len(plan.best().launches)


def refused(plan: ProgramPlan) -> set[Reason]:
    return {r.reason for r in plan.best().refusals}


x = np.ones((20, 30))


@pytest.mark.parametrize("function", [
    lambda x: np.sin(x) * x + 1,
    lambda x: (np.sin(x), np.sin(x) * 2, x - 1),
    lambda x: x.sum(axis=1),
    lambda x: np.sqrt(np.exp(x) * 2).sum(axis=0),
    lambda x: x - x.mean(axis=1, keepdims=True),
    lambda x: x - x.mean(axis=1)[:, None],
    lambda x: jf.softmax(x),
    lambda x: jf.softmax(x.T, axis=0),
    lambda x: (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5),
    lambda x: (x.sum(axis=0), x.max(axis=0), x * 2),
    lambda x: np.concatenate([x, x * 2], axis=0)[::-1].T + 1,
    lambda x: (x[1:, ::-2] * 2).reshape(-1),
    lambda x: (x.sum(), x.max(), x.min()),
    lambda x: x[:, :3].sum(axis=1) + x[:, 3],
    lambda x: np.where(x.any(axis=1, keepdims=True), x, 0),
])
def test_one_kernel(function: Callable[..., Any], plan_of: Plan) -> None:
    plan = plan_of(function, x)
    assert launches(plan) == 1, plan.best().refusals


def test_values_of_other_shapes_have_kernels_of_their_own(plan_of: Plan) -> None:
    plan = plan_of(lambda x: (x.sum(axis=0), x.sum(axis=1)), x)
    assert launches(plan) == 2 and reasons.INDEX_SPACES in refused(plan)


def test_a_reduced_value_at_other_grid_points(plan_of: Plan) -> None:
    square = np.ones((30, 30))
    plan = plan_of(lambda x: x - x.sum(axis=1), square)
    assert launches(plan) == 2 and reasons.MISALIGNED in refused(plan)


def test_values_that_share_nothing(plan_of: Plan) -> None:
    assert launches(plan_of(lambda x, y: (x + 1, y * 2), x, np.ones((20, 30)))) == 2


def test_a_library_call_between(plan_of: Plan) -> None:
    def f(x: Any) -> Any:
        a = np.exp(x)
        return a, np.sort(a) + x

    plan = plan_of(f, np.ones((30, 30)))
    assert launches(plan) == 2 and reasons.BETWEEN in refused(plan)


def test_split_reductions(plan_of: Plan) -> None:
    long = np.zeros((2, 2 * CHUNK))
    plan = plan_of(lambda x: x - x.mean(axis=1, keepdims=True), long)
    assert launches(plan) == 3 and reasons.SPLIT_REDUCTION in refused(plan)
    assert launches(plan_of(lambda x: x.mean(axis=1) * 2, long)) == 2
    assert launches(plan_of(lambda x, g: (x.sum(axis=1) + g, g * 2), long, np.ones(2))) == 2


def test_rows_swept_once(plan_of: Plan) -> None:
    plan = plan_of(lambda x: x - x.mean(axis=0), np.zeros((2 * CHUNK, NARROW)))
    assert launches(plan) == 2 and reasons.SWEPT_ROWS in refused(plan)
    assert launches(plan_of(lambda x: x - x.mean(axis=0), np.zeros((2 * CHUNK, NARROW - 1)))) == 1
    assert launches(plan_of(lambda x: x - x.mean(axis=0), np.zeros((2 * CHUNK - 1, NARROW)))) == 1


def test_too_many_operands(plan_of: Plan) -> None:
    many = [np.ones(5) for _ in range(2 * MAX_OPERANDS)]
    plan = plan_of(lambda *xs: [v + xs[0] for v in xs], *many)
    assert launches(plan) > 1 and reasons.MANY_OPERANDS in refused(plan)


def test_too_many_steps(plan_of: Plan) -> None:
    def f(x: Any) -> Any:
        outputs = []
        for k in range(3):
            y = x
            for n in range(MAX_STEPS * 2 // 3):
                y = y * x if n * 2654435761 >> 7 & 1 else y + (k + 1.5)  # no period: a loop would be rolled
            outputs.append(y)
        return outputs

    plan = plan_of(f, np.ones(5))
    assert launches(plan) > 1 and reasons.LARGE_KERNEL in refused(plan)


def test_siblings_that_would_lie_in_memory_at_once(plan_of: Plan) -> None:
    plan = plan_of(lambda x: [np.sort(x * k).sum(axis=1) for k in (2, 3, 4)], np.ones((100, 100)))
    assert launches(plan) == 6 and reasons.HELD_VALUES in refused(plan)


def test_every_reason_is_tested() -> None:
    of_merges = {name for name, r in vars(reasons).items() if isinstance(r, Reason) and r.code.startswith("JF5")}
    assert of_merges == {
        "INDEX_SPACES", "MISALIGNED", "BETWEEN", "SPLIT_REDUCTION", "SWEPT_ROWS", "MANY_OPERANDS", "LARGE_KERNEL",
        "HELD_VALUES",
    }


def test_dear_values_are_computed_once(plan_of: Plan) -> None:
    plan = plan_of(lambda x: (np.tanh(np.sin(x)).sum(axis=0), np.tanh(np.sin(x)).sum(axis=1)), x)
    names = [i.op for launch in plan.best().launches for stage in launch.form.stages for i in stage.body]
    assert names.count("tanh") == 1


def test_nothing_is_launched_where_there_is_nothing(plan_of: Plan) -> None:
    assert launches(plan_of(lambda x: (x + 1, x.sum(axis=0)), np.ones((3, 0)))) == 0
    assert launches(plan_of(lambda x: x.sum(axis=1), np.ones((3, 0)))) == 1


def test_views_of_results_need_no_kernel(plan_of: Plan) -> None:
    plan = plan_of(lambda x: (x + 1).T, x)
    assert launches(plan) == 1 and len(plan.best().views) == 1


def test_matmul_reads_views_in_place(plan_of: Plan) -> None:
    plan = plan_of(lambda x: x.T @ x[:, ::-1], x)
    assert launches(plan) == 1 and len(plan.best().steps) == 1
    library = plan.lower(DEFAULT._replace(own=False))
    assert not library.launches and len(library.steps) == 1
