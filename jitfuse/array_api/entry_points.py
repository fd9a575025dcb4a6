"""The public functions of the namespace: eager arrays use a direct function, other arguments the function itself.

A class of eager arrays chooses its direct function for a namespace function (`EagerArray.direct_function`): a fast
path whose dispatch is decided once per class. If the direct function raises or returns NotImplemented, the namespace
function itself is called: it defines the result and makes all errors. User code in a trace gets the function itself.
Does not own any direct function.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.array_api.descriptions import documentation
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.record.device_array import HostArray
from jitfuse.tracing.record.dispatch_wrappers import show_in_traces

Function = Callable[..., Any]
DirectFunction = Callable[[tuple[Any, ...], dict[str, Any]], Any]
"""A direct function takes a call's arguments as a tuple and a dict: unpacking them costs a tenth of a microsecond."""
SEQUENCES: Final = frozenset({"concat", "stack"})
"""Functions whose first argument is a sequence of arrays."""


_FIRSTS: Final = frozenset({int, float, bool, complex, np.ndarray})
"""Types of a first argument that may come before an eager array."""


def _undecided(args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return NotImplemented, for arguments without a direct function."""
    return NotImplemented


class _DirectFunctions(dict[type, DirectFunction]):
    """A function's direct functions by the class of the first argument; each is looked up on first use."""

    def __init__(self, name: str, function: Function) -> None:
        super().__init__()
        self.name = name
        self.function = function

    def __missing__(self, kind: type) -> DirectFunction:
        found: DirectFunction = _undecided
        if kind in (list, tuple):
            found = self._of_first if self.name in SEQUENCES else _undecided
        elif kind in _FIRSTS:
            found = self._of_second
        elif issubclass(kind, HostArray) and issubclass(kind, AbstractTensor):
            found = kind.direct_function(self.name, self.function) or _undecided  # type: ignore[attr-defined]
        self[kind] = found
        return found

    def _of_first(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return self[type(args[0][0])](args, options)

    def _of_second(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        kind = type(args[1]) if len(args) > 1 else int
        return NotImplemented if kind in _FIRSTS else self[kind](args, options)


def entry_point(name: str, function: Function) -> Function:
    """Return the public form of a function; `name` is its name in the namespace, such as ``linalg.svd``."""
    edges = _DirectFunctions(name, function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            found = edges[type(args[0])](args, kwargs)
            if found is not NotImplemented:
                return found
        except Exception:  # the function itself raises the typed error
            pass
        return function(*args, **kwargs)

    call.__module__, _, call.__qualname__ = f"jitfuse.{name}".rpartition(".")
    if call.__module__ == "jitfuse":
        call.__module__ = "jitfuse.array_api.namespace"
    call.__doc__ = documentation(name, function)
    show_in_traces(call, function)
    return call
