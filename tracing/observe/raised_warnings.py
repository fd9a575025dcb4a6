"""Warnings that a function turns into errors or records: kernels give none, so the function falls back.

Owns these replacements. Does not own the table of replacements (`jitfuse.tracing.numpy_like.substitutes`), nor what is
opaque (`jitfuse.tracing.interception.known`).
"""
from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

from jitfuse.errors import UntraceableError
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.array_class import class_proxy

_WAY_OUT: Final = "Kernels give no warnings. Check the results (np.isfinite)."


def raising(name: str, way_out: str) -> Callable[..., Any]:
    """Return a replacement that raises UntraceableError."""
    def raise_error(*args: Any, **kwargs: Any) -> Any:
        raise UntraceableError(f"{name} is called inside a fused function, at {user_line()}. {way_out}")

    return raise_error


def replacements() -> Iterator[tuple[Any, Callable[..., Any]]]:
    """Yield functions of `warnings` and their replacements."""
    yield warnings.catch_warnings, class_proxy(warnings.catch_warnings, _catch_warnings)
    for function in (warnings.simplefilter, warnings.filterwarnings):
        yield function, _filtering(function)


def _catch_warnings(*args: Any, record: bool = False, **kwargs: Any) -> Any:
    if record or kwargs.get("action") == "error":
        option = "record=True" if record else "action='error'"
        raising(f"warnings.catch_warnings({option})", _WAY_OUT)()
    return warnings.catch_warnings(*args, **kwargs)


def _filtering(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(action: Any, *args: Any, **kwargs: Any) -> Any:
        if action == "error":
            raising(f"warnings.{function.__name__}('error')", _WAY_OUT)()
        return function(action, *args, **kwargs)

    return call
