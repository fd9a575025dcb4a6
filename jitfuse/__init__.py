"""jitfuse: a tracing JIT decorator for array code.

`@jf.fuse` runs a function once on traced arrays, records one program, fuses it and compiles it to native
kernels that are cached on disk. This module is the public API; whatever it does not need at once is imported
on first use.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from jitfuse.base import forks as _forks  # noqa: F401 (first: see there)
from jitfuse.base.gc_pause import PAUSED as _PAUSED
from jitfuse.base.gc_pause import search_young as _search_young
from jitfuse.base.later import Later as _Later

with _PAUSED:  # objects that modules make are long-lived
    from jitfuse.errors import (
        ArgumentError,
        CacheWarning,
        CompileError,
        CutWireError,
        DTypeError,
        FallbackWarning,
        JitfuseError,
        LeakedTracerError,
        NumericError,
        OverlapError,
        ShapeError,
        TracedValueError,
        UntraceableError,
        VerifyError,
    )
    from jitfuse.function import pipeline as _pipeline
    from jitfuse.function.adapters import spec
    from jitfuse.fuse import FusedFunction, fuse
    from jitfuse.ir.program import FusedProgram
    from jitfuse.tracing.abstract import AbstractTensor
    from jitfuse.tracing.record.mode import is_training
    from jitfuse.version import __version__

_pipeline.gpu = _Later("jitfuse.gpu.call")
_search_young()  # once, so that no first call has to

if TYPE_CHECKING:
    from jitfuse import nn, random
    from jitfuse.backends.interpreter.runner import ProgramRunner
    from jitfuse.exporting import export

ARRAY_API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
"""Versions of the Python array API standard that this namespace keeps; the last one is `__array_api_version__`."""
__array_api_version__ = ARRAY_API_VERSIONS[-1]

__all__ = [
    "AbstractTensor", "ArgumentError", "CacheWarning", "CompileError", "CutWireError", "DTypeError",
    "FallbackWarning", "FusedFunction", "FusedProgram", "JitfuseError", "LeakedTracerError", "NumericError",
    "OverlapError", "ProgramRunner", "ShapeError", "TracedValueError", "UntraceableError", "VerifyError",
    "__version__", "export", "fuse", "is_training", "nn", "random", "spec",
]


def __getattr__(name: str) -> Any:
    if name in ("nn", "random", "linalg", "fft", "gpu"):
        return importlib.import_module(f"jitfuse.{name}")
    if name in ("cond", "fori_loop", "map", "scan", "while_loop"):
        return getattr(importlib.import_module("jitfuse.control"), name)
    if name == "export":
        return importlib.import_module("jitfuse.exporting").export
    if name == "ProgramRunner":
        return importlib.import_module("jitfuse.backends.interpreter.runner").ProgramRunner
    if name.startswith("__") and name != "__array_namespace_info__":
        raise AttributeError(name)
    namespace = importlib.import_module("jitfuse.array_api.namespace")
    try:
        found = globals()[name] = getattr(namespace, name)  # kept: this function takes longer than a small sum
    except AttributeError:
        raise AttributeError(f"module 'jitfuse' has no attribute {name!r}") from None
    return found


def __dir__() -> list[str]:
    namespace = importlib.import_module("jitfuse.array_api.namespace")
    return sorted({*globals(), *__all__, *dir(namespace), "fft", "gpu", "linalg"})
