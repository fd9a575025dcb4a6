"""Launches a plan's kernels from Python, for the first calls on a machine while the native runtime is compiled.

Owns the feeds and results of one call. Does not own how a plan is run (`jitfuse.compile.run.plan_call`).
"""
from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jitfuse.compile.call_plans.call_plan import CallPlan
from jitfuse.compile.objects.kernel_object import Kernels
from jitfuse.compile.objects.runtime_object import note_direct
from jitfuse.compile.run.delivery import Delivery, State, bind_feeds, returned_tensors
from jitfuse.compile.run.plan_call import Arrays, OnStatus, PlanCall
from jitfuse.dtypes import numpy_dtype
from jitfuse.tracing.trace import Trace


def call_directly(
    trace: Trace, plan: CallPlan, kernels: Kernels | None, constants: Arrays, args: Sequence[Any],
    kwargs: Mapping[str, Any], state: State, on_status: OnStatus, name: str,
) -> Delivery:
    """Return the delivery of the traced function `name` for arguments that match the trace's signature."""
    bound = bind_feeds(trace, args, kwargs, state)
    feeds = {
        feed: given if isinstance(given, np.ndarray) else np.array(given, numpy_dtype(trace.feeds[feed].meta.dtype))
        for feed, given in bound.items()
    }
    call = PlanCall(plan, kernels, constants, name)
    begin = time.perf_counter()
    call.run(feeds, on_status)
    note_direct(time.perf_counter() - begin)
    outputs = {path: call.output(value) for path, (value, _) in plan.results.items()}
    if trace.torch:
        bound |= returned_tensors(trace, args, kwargs)
    return Delivery.of(trace.result, outputs, bound)
