"""Functions of one plan and one array, for the tests of the driver and its ops."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitfuse.backends.llvm.runtime.tables import EntryBuilder, NativeEntry, PlanBuilder, StateBlock


def refuse(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(("unexpected", args))


class StatusError(Exception):
    pass


def single_entry(
    build: Callable[[PlanBuilder, int], Any], *, dtype: str = "int64", shape: tuple[int, ...] = (1,),
    handler: Any = refuse,
) -> NativeEntry:
    """Return an entry of one writeable array; `build` fills the plan for its value."""
    b = EntryBuilder(1, handler=handler)
    value = b.guard_array(b.argument(0), dtype, shape, writeable=True)
    entry = b.build()
    plan = entry.plan_builder()
    build(plan, value)
    entry.set_plan(training=False, plan=plan.build())
    return entry


def single(harness: Any, build: Callable[[PlanBuilder, int], Any], **options: Any) -> Any:
    """Return a function of one writeable array; `build` fills the plan for its value."""
    state = StateBlock(refuse)
    state.prepend(single_entry(build, **options))
    return harness.attach(state)
