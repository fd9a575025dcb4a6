"""Functions of the namespace that look at eager arrays first, and the function that a trace sees in place of each.

Owns the table. Does not own what they do (`jitfuse.array_api.entry_points`).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_UNWRAPPED: Final[dict[int, tuple[Any, Callable[..., Any]]]] = {}


def show_in_traces(front: Callable[..., Any], function: Callable[..., Any]) -> None:
    """Have traces see a function where user code has its front."""
    _UNWRAPPED[id(front)] = (front, function)


def unwrapped_function(value: Any) -> Any:
    """Return the function behind a front; any other value itself."""
    found = _UNWRAPPED.get(id(value))
    return value if found is None else found[1]
