"""From traces to native code: the pipeline, the objects, the tables."""
from __future__ import annotations

from jitfuse.compile.call_plans.status import kernel_error, raise_status
from jitfuse.compile.debugging import debugging
from jitfuse.compile.objects.objects import start_compiler
from jitfuse.compile.objects.origin import Origin
from jitfuse.compile.objects.runtime_object import build_runtime, native_runtime, runtime_is_ready
from jitfuse.compile.objects.totals import thread_totals, totals
from jitfuse.compile.pipeline import Binding, ModePlan, Specialisation, compile_mode, native_entry

__all__ = [
    "Binding", "ModePlan", "Origin", "Specialisation", "build_runtime", "compile_mode", "debugging", "kernel_error",
    "native_entry", "native_runtime", "raise_status", "runtime_is_ready", "start_compiler", "thread_totals", "totals",
]
