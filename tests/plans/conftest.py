"""What the tests of plans share: a program traced, lowered and planned without being compiled."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jitfuse.compile.planning import feed_layouts
from jitfuse.passes.pipeline import run_passes
from jitfuse.plans import ProgramPlan
from jitfuse.tracing.tracer import trace


def plan_of(function: Callable[..., Any], *args: Any, training: bool = False) -> ProgramPlan:
    """Return the plan of a function for these arguments."""
    made = trace(
        function, args, {}, training=training, declares_training=False, static_argnames=frozenset(),
        schedule_method="slack",
    )
    return ProgramPlan(run_passes(made.program, training), feed_layouts(made))


@pytest.fixture(name="plan_of")
def _plan_of() -> Callable[..., ProgramPlan]:
    return plan_of
