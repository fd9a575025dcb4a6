"""From traces to native code: the pipeline, the objects, the tables."""
from __future__ import annotations

from jitfuse.compile.objects import Origin, native_runtime, totals
from jitfuse.compile.pipeline import ModePlan, Specialisation, compile_mode, debugging, specialise

__all__ = [
    "ModePlan", "Origin", "Specialisation", "compile_mode", "debugging", "native_runtime", "specialise", "totals",
]
