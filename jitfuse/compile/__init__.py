"""From traces to native code: the pipeline, the objects, the tables."""
from __future__ import annotations

from jitfuse.compile.debugging import debugging
from jitfuse.compile.objects import Origin, build_runtime, native_runtime, runtime_is_ready, thread_totals, totals
from jitfuse.compile.pipeline import ModePlan, Specialisation, compile_mode, specialise
from jitfuse.compile.status import kernel_error

__all__ = [
    "ModePlan", "Origin", "Specialisation", "build_runtime", "compile_mode", "debugging", "kernel_error",
    "native_runtime", "runtime_is_ready", "specialise", "thread_totals", "totals",
]
