"""What lies in memory: outputs, views of buffers, regions that are written back."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitfuse.plans import ProgramPlan

Plan = Callable[..., ProgramPlan]
x = np.ones((6, 8))


def test_outputs_that_are_views_share_a_buffer(plan_of: Plan) -> None:
    plan = plan_of(lambda x: (x + 1).reshape(-1), x).best()
    (view,) = plan.views.values()
    assert view.layout.shape == (48,) and view.layout.contiguous and plan.outputs == (view.base,)


def test_two_outputs_never_share_a_buffer(plan_of: Plan) -> None:
    def f(x: Any) -> Any:
        y = x + 1
        return y, y.T, y.reshape(-1)

    plan = plan_of(f, x).best()
    assert len(plan.outputs) == 3


def test_scalars_have_memory_of_their_own(plan_of: Plan) -> None:
    plan = plan_of(lambda x: (x[0, 0], (x + 1)[2, 3], x.sum()), x).best()
    assert not plan.views and len(plan.outputs) == 3


def test_only_the_written_region_is_written_back(plan_of: Plan) -> None:
    def f(x: Any, y: Any) -> None:
        x[1:3, ::2] = y

    (commit,) = plan_of(f, np.ones((6, 8)), np.ones(4)).best().commits
    assert sorted(commit.sizes) == [2, 4]
    (out,) = (k for k, o in enumerate(commit.form.operands) if o.out)
    assert commit.buffers[out] == (("feed", 0), 64)


def test_a_chain_of_updates_is_written_region_by_region(plan_of: Plan) -> None:
    def f(x: Any) -> None:
        x[0] = 1
        x[:, 1] = 2

    plan = plan_of(f, np.ones((6, 8))).best()
    assert sum(np.prod(c.sizes) for c in plan.commits) <= 14 and plan.arena_bytes == 0


def test_what_is_read_after_it_is_written_is_stored_first(plan_of: Plan) -> None:
    def f(x: Any) -> None:
        x[1:] = x[:-1]

    plan = plan_of(f, np.ones((600, 8))).best()
    assert len(plan.steps) == 1 and len(plan.commits) == 1 and plan.arena_bytes >= 599 * 8 * 8


def test_small_reductions_are_unrolled(plan_of: Plan) -> None:
    assert plan_of(lambda x: x.sum(axis=-1), np.ones((50, 3))).lower().grouping.values.inlining.unrolled
    assert not plan_of(lambda x: x.sum(axis=-1), np.ones((50, 5))).lower().grouping.values.inlining.unrolled
    assert not plan_of(lambda x: np.tanh(x).sum(axis=-1), np.ones((50, 3))).lower().grouping.values.inlining.unrolled
