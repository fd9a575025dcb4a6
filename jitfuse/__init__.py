"""jitfuse: a tracing JIT decorator for array code.

`@jf.fuse` runs a function once on traced arrays, records one program, fuses it and compiles it to native
kernels that are cached on disk. This module is the public API; whatever it does not need at once is imported
on first use.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from jitfuse.base import forks as _forks  # noqa: F401 (first: see there)
from jitfuse.base.gc_pause import PAUSED as _PAUSED
from jitfuse.base.gc_pause import search_young as _search_young
from jitfuse.base.later import Later as _Later

with _PAUSED:  # objects that modules make are long-lived
    from jitfuse.budget import Budget as Budget
    from jitfuse.errors import ArgumentError as ArgumentError
    from jitfuse.errors import CacheWarning as CacheWarning
    from jitfuse.errors import CompileError as CompileError
    from jitfuse.errors import CutWireError as CutWireError
    from jitfuse.errors import DerivativeError as DerivativeError
    from jitfuse.errors import DTypeError as DTypeError
    from jitfuse.errors import FallbackWarning as FallbackWarning
    from jitfuse.errors import JitfuseError as JitfuseError
    from jitfuse.errors import LeakedTracerError as LeakedTracerError
    from jitfuse.errors import NumericError as NumericError
    from jitfuse.errors import OverlapError as OverlapError
    from jitfuse.errors import ShapeError as ShapeError
    from jitfuse.errors import TracedValueError as TracedValueError
    from jitfuse.errors import UntraceableError as UntraceableError
    from jitfuse.errors import VerifyError as VerifyError
    from jitfuse.function import pipeline as _pipeline
    from jitfuse.function.adapters import spec as spec
    from jitfuse.fuse import FusedFunction as FusedFunction
    from jitfuse.fuse import fuse as fuse
    from jitfuse.ir.program import FusedProgram as FusedProgram
    from jitfuse.tracing.abstract import AbstractTensor as AbstractTensor
    from jitfuse.tracing.record.mode import is_training as is_training
    from jitfuse.version import __version__ as __version__

_pipeline.gpu = _Later("jitfuse.gpu.call")
_search_young()  # once, so that no first call has to

if TYPE_CHECKING:
    from jitfuse import axes as axes
    from jitfuse import einops as einops
    from jitfuse import errors as errors
    from jitfuse import factors as factors
    from jitfuse import fft as fft
    from jitfuse import gpu as gpu
    from jitfuse import linalg as linalg
    from jitfuse import nn as nn
    from jitfuse import optim as optim
    from jitfuse import random as random
    from jitfuse.array_api.data_types import namespace_info as __array_namespace_info__  # noqa: F401
    from jitfuse.array_api.signatures import *  # noqa: F403
    from jitfuse.arrays.state import Buffer as Buffer
    from jitfuse.arrays.state import Parameter as Parameter
    from jitfuse.backends.interpreter.runner import ProgramRunner as ProgramRunner
    from jitfuse.control import cond as cond
    from jitfuse.control import fori_loop as fori_loop
    from jitfuse.control import map as map
    from jitfuse.control import scan as scan
    from jitfuse.control import while_loop as while_loop
    from jitfuse.derivatives import grad as grad
    from jitfuse.derivatives import hvp as hvp
    from jitfuse.derivatives import jvp as jvp
    from jitfuse.derivatives import value_and_grad as value_and_grad
    from jitfuse.derivatives import vjp as vjp
    from jitfuse.exporting import export as export
    from jitfuse.own_derivatives import checkpoint as checkpoint
    from jitfuse.own_derivatives import custom_jvp as custom_jvp
    from jitfuse.own_derivatives import custom_vjp as custom_vjp
    from jitfuse.own_derivatives import stop_gradient as stop_gradient

ARRAY_API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
"""Versions of the Python array API standard that this namespace keeps; the last one is `__array_api_version__`."""
__array_api_version__ = ARRAY_API_VERSIONS[-1]

_MODULES: Final = ("axes", "einops", "errors", "factors", "fft", "gpu", "linalg", "nn", "optim", "random")
_LATER: Final = {
    **dict.fromkeys(("cond", "fori_loop", "map", "scan", "while_loop"), "jitfuse.control"),
    **dict.fromkeys(("grad", "hvp", "jvp", "value_and_grad", "vjp"), "jitfuse.derivatives"),
    **dict.fromkeys(("checkpoint", "custom_jvp", "custom_vjp", "stop_gradient"), "jitfuse.own_derivatives"),
    **dict.fromkeys(("Buffer", "Parameter"), "jitfuse.arrays.state"),
    "export": "jitfuse.exporting", "ProgramRunner": "jitfuse.backends.interpreter.runner",
}
"""Names that are imported on first use, and where from; all others are those of the namespace."""

if not TYPE_CHECKING:  # type checkers know every name, and find misspelt ones
    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"jitfuse.{name}")
        if name in _LATER:
            return getattr(importlib.import_module(_LATER[name]), name)
        if name == "__all__":
            return _names()
        if name.startswith("__") and name != "__array_namespace_info__":
            raise AttributeError(name)
        namespace = importlib.import_module("jitfuse.array_api.namespace")
        try:
            found = globals()[name] = namespace.__getattr__(name)  # kept: this function takes longer than a small sum
        except AttributeError:
            raise AttributeError(f"module 'jitfuse' has no attribute {name!r}") from None
        return found


def __dir__() -> list[str]:
    return _names()


def _names() -> list[str]:
    """Return every public name."""
    namespace = importlib.import_module("jitfuse.array_api.namespace")
    here = [name for name, value in globals().items()
            if str(getattr(value, "__module__", "")).startswith("jitfuse.") and not name.startswith("_")]
    named = ("ARRAY_API_VERSIONS", "__array_api_version__", "__version__")
    return sorted({*here, *named, *_MODULES, *_LATER, *dir(namespace)})
