"""Dispatch wrappers of the namespace, and the function that replaces each of them in a trace.

Owns the table. Does not own the wrappers (`jitfuse.array_api.entry_points`).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_UNWRAPPED: Final[dict[int, tuple[Any, Callable[..., Any]]]] = {}


def show_in_traces(front: Callable[..., Any], function: Callable[..., Any]) -> None:
    """Make traces see `function` where user code has the dispatch wrapper `front`."""
    _UNWRAPPED[id(front)] = (front, function)


def unwrapped_function(value: Any) -> Any:
    """Return the function of a dispatch wrapper; any other value itself."""
    found = _UNWRAPPED.get(id(value))
    return value if found is None else found[1]
