"""The options of `jf.fuse`, and the rejection of unsupported ones.

Owns the record of options. Does not own what they mean (`jitfuse.fuse`).
"""
from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection
from typing import Any, Final

from jitfuse.budget import Budget
from jitfuse.errors import ArgumentError
from jitfuse.tracing.tracer import Transform

_SCHEDULES: Final = ("slack", "asap", "alap", "ilp")


class Options:
    """The options of one fused function; see `jitfuse.fuse.fuse`.

    `transforms` make other functions of it, the first one first: `jf.grad` and its kin (`jitfuse.derivatives`).
    `own_arguments`: what they make takes the function's arguments.
    """

    __slots__ = ("budget", "cache", "device", "name", "own_arguments", "schedule", "static", "strict", "training",
                 "transforms")

    def __init__(
        self, training: bool | None, device: str | None, strict: bool, schedule: str, static: frozenset[str],
        cache: bool, name: str | None, budget: Budget, transforms: tuple[Transform, ...] = (),
        own_arguments: bool = True,
    ) -> None:
        self.training = training
        self.device = device
        self.strict = strict
        self.schedule = schedule
        self.static = static
        self.cache = cache
        self.name = name
        self.budget = budget
        self.transforms = transforms
        self.own_arguments = own_arguments

    def transformed(
        self, transform: Transform, name: str, *, own_arguments: bool = True, strict: bool = True
    ) -> Options:
        """Return the options of the function that a transform makes. `strict` ones never run as plain Python."""
        own = own_arguments and self.own_arguments
        return Options(self.training, self.device, strict, self.schedule, self.static if own else frozenset(),
                       self.cache, name, self.budget, (*self.transforms, transform), own)


def reject_unknown(
    device: str | None, schedule: str, donate: Collection[str], fastmath: bool, budget: Budget | None,
) -> None:
    """Raise ArgumentError for options that this version does not have."""
    if schedule not in _SCHEDULES:
        raise ArgumentError(f"schedule={schedule!r}: pass one of {', '.join(map(repr, _SCHEDULES))}")
    if device not in (None, "cpu", "gpu"):
        raise ArgumentError(f"device={device!r}: pass 'cpu' or 'gpu', or leave it out to run where the inputs live")
    if budget is not None and not isinstance(budget, Budget):
        raise ArgumentError(f"budget={budget!r}: pass a jf.Budget, such as jf.Budget(seconds=10)")
    if donate:
        raise ArgumentError("donate= is not available in this version; write into an argument (x[...] = ...) instead")
    if fastmath:
        raise ArgumentError("fastmath=True is not available in this version; results are strict IEEE")


def reject_unfit(fn: Callable[..., Any], static: frozenset[str]) -> None:
    """Raise ArgumentError for what is no array function, and for static arguments that it does not have."""
    if isinstance(fn, staticmethod | classmethod):
        raise ArgumentError(f"put @{type(fn).__name__} above @jf.fuse: it must be the outer decorator")
    if isinstance(fn, type) or not callable(fn):
        what = "the class " + fn.__qualname__ if isinstance(fn, type) else f"a {type(fn).__name__}"
        raise ArgumentError(f"jf.fuse decorates functions; got {what}")
    code = getattr(fn, "__code__", None)
    if isinstance(code, types.CodeType) and code.co_flags & _ASYNC:
        raise ArgumentError(f"{fn.__qualname__} is async: fuse the array function that it calls")
    if static:
        names = inspect.signature(fn).parameters
        missing = sorted(static.difference(names))
        if missing and not any(p.kind is p.VAR_KEYWORD for p in names.values()):
            raise ArgumentError(f"static_argnames={missing}: {getattr(fn, '__qualname__', fn)} has the parameters "
                                f"{', '.join(names)}")


_ASYNC: Final = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
