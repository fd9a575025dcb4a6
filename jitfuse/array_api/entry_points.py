"""What users see of a function of the namespace: eager arrays take a direct way, everything else the function itself.

A class of eager arrays says which direct way a function has for it (`EagerArray.direct_function`): a function over its
arrays that decides nothing again which the class, or a call before, has decided. A way that raises, or gives
NotImplemented, has nothing to say, and the function itself is called: it means what the function means, and no error is
made there. In a trace user code gets the function itself. Does not own any way.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.record.device_array import HostArray
from jitfuse.tracing.record.dispatch_wrappers import show_in_traces

Function = Callable[..., Any]
DirectFunction = Callable[[tuple[Any, ...], dict[str, Any]], Any]
"""A direct way takes a call's arguments as they came: to hand them on one by one costs a tenth of a microsecond."""
SEQUENCES: Final = frozenset({"concat", "stack"})
"""Functions whose first argument is a sequence of arrays."""


_FIRSTS: Final = frozenset({int, float, bool, complex, np.ndarray})
"""What may be before an eager array."""


def _undecided(args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The way where there is none."""
    return NotImplemented


class _DirectFunctions(dict[type, DirectFunction]):
    """A function's direct ways by the class of the first argument, found when one is first there."""

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
    """Return what users see of a function; `name` is its name in the namespace, such as ``linalg.svd``."""
    edges = _DirectFunctions(name, function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            found = edges[type(args[0])](args, kwargs)
            if found is not NotImplemented:
                return found
        except Exception:  # the function itself says what is wrong
            pass
        return function(*args, **kwargs)

    call.__module__, _, call.__qualname__ = f"jitfuse.{name}".rpartition(".")
    if call.__module__ == "jitfuse":
        call.__module__ = "jitfuse.array_api.namespace"
    show_in_traces(call, function)
    return call
