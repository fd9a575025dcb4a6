"""The arena: buffers that are alive at the same time never overlap."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jitfuse.plans import ProgramPlan
from jitfuse.plans.memory import ALIGN, Interval, live_intervals, plan_arena
from jitfuse.plans.plan import buffers_of


@st.composite
def intervals(draw: Any) -> dict[str, Interval]:
    found = {}
    for k in range(draw(st.integers(0, 12))):
        first = draw(st.integers(0, 15))
        found[f"b{k}"] = Interval(draw(st.integers(0, 1000)), first, first + draw(st.integers(0, 6)))
    return found


def overlap(a: Interval, b: Interval) -> bool:
    return a.first <= b.last and b.first <= a.last


@given(intervals())
def test_buffers_alive_together_lie_apart(found: dict[str, Interval]) -> None:
    offsets, total = plan_arena(found)
    assert offsets.keys() == found.keys()
    for name, at in offsets.items():
        assert at % ALIGN == 0 and at + found[name].size <= total
        for other, place in offsets.items():
            if other != name and overlap(found[name], found[other]):
                assert at + found[name].size <= place or place + found[other].size <= at
    rounded = {n: max(-(-i.size // ALIGN), 1) * ALIGN for n, i in found.items()}
    assert total <= sum(rounded.values())
    times = {t for i in found.values() for t in (i.first, i.last)}
    assert total >= max((sum(rounded[n] for n, i in found.items() if i.first <= t <= i.last) for t in times), default=0)


def test_a_chain_needs_two_buffers() -> None:
    chain = {f"b{k}": Interval(64, k, k + 1) for k in range(10)}
    assert plan_arena(chain)[1] == 128


def test_intervals_reach_from_the_first_to_the_last_touch() -> None:
    found = live_intervals({"a": 8, "b": 16, "never": 4}, [["a"], ["x", "b"], [], ["a", "a"]])
    assert found == {"a": Interval(8, 0, 3), "b": Interval(16, 1, 1)}


def test_temporaries_of_a_plan_lie_apart(plan_of: Callable[..., ProgramPlan]) -> None:
    def f(x: Any, w: Any) -> Any:
        for _ in range(6):
            x = np.tanh(x @ w) + x.sum(axis=0)
        return x

    plan = plan_of(f, np.ones((30, 30)), np.ones((30, 30))).best()
    touched = [[b for b, _ in buffers_of(s)] for s in (*plan.steps, *plan.commits)]
    sizes = dict.fromkeys(plan.offsets, 30 * 30 * 8)
    live = live_intervals(sizes, touched)
    row = 30 * 8
    for a, i in live.items():
        for b, j in live.items():
            if a != b and overlap(i, j):
                assert abs(plan.offsets[a] - plan.offsets[b]) >= row
    assert plan.arena_bytes < len(plan.offsets) * 30 * 30 * 8
