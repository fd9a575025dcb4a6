"""Runs a call of a signature on the GPU, and counts it and what it compiles.

Does not own how it runs (`jitfuse.gpu.call`).
"""
from __future__ import annotations

from typing import Any

from jitfuse.compile.interface import Specialisation
from jitfuse.function.call import Call
from jitfuse.gpu.call import GpuCall, call_on_gpu
from jitfuse.random import state_feeds


def gpu_call(call: Call, spec: Specialisation) -> GpuCall:
    """Return a call as the GPU runs it; raises DeviceError if there is none."""
    definition = call.table.definition
    return GpuCall(
        spec, call.training, call.args, call.kwargs, state_feeds(), definition.origin,
        use_cache=definition.options.cache,
    )


def run(call: Call, spec: Specialisation) -> Any:
    """Run a call and return its result; raises DeviceError if there is no GPU."""
    counters = call.table.counters
    before = counters.counts["cache_misses"]
    with call.table.lock:
        with counters.counting():
            made = gpu_call(call, spec)
            call.hold_generators()
            result = call_on_gpu(made, counters.note_fallback)
        counters.launches += made.launches
        if counters.counts["cache_misses"] > before:
            kernels = (k for plan in spec.gpu_plans.values() for k in plan.kernels)
            counters.missed = tuple(k for k in kernels if not k.from_cache)
        return result
