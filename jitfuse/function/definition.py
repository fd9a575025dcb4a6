"""The definition of a fused function: the Python function, its options, and the parameter that is the mode.

Owns how the mode is read from a call, and how the function is traced and run as plain Python. Keeps no state of calls.
"""
from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse import reasons
from jitfuse.compile import interface as compiler
from jitfuse.errors import ArgumentError
from jitfuse.function.adapters import holds_eager
from jitfuse.function.options import Options
from jitfuse.reasons import Why
from jitfuse.tracing.record.device_array import DeviceArray
from jitfuse.tracing.record.mode import EagerMode, ModeFlag, inlined_mode, is_training
from jitfuse.tracing.record.recorder import active
from jitfuse.tracing.record.rng_states import RngStates
from jitfuse.tracing.tracer import trace_call, transformed

if TYPE_CHECKING:
    from jitfuse.tracing.record.value_reads import GraphBreaker
    from jitfuse.tracing.trace import Trace, TraceEnd

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
_MODE: Final = "training"


class Definition:
    """A Python function and its options; `training` is the default mode of calls."""

    def __init__(self, fn: Callable[..., Any], options: Options) -> None:
        self.fn, self.options = fn, options
        found = _training_parameter(fn) if options.own_arguments else None
        self._declares_training = found is not None
        self._training_position, self._after_training, default = found or (None, (), False)
        self.hands_on_mode = found is None and _takes_keywords(fn)
        """Whether ``training=`` is one of the function's own ``**options``."""
        self.training = default if options.training is None else options.training
        self.name = options.name or str(getattr(fn, "__qualname__", type(fn).__name__))
        """The function's name in reports."""
        self.runs_on_gpu = options.device == "gpu"
        """Whether all its calls run on the GPU."""

    @property
    def origin(self) -> compiler.Origin:
        """The name and the source location of the function, for what is compiled for it."""
        code = getattr(inspect.unwrap(self.fn), "__code__", None)
        where = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""
        return compiler.Origin(self.name, where)

    # ------------------------------------------------------------------ the mode of a call
    def pop_mode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, tuple[Any, ...], dict[str, Any]]:
        """Return the mode of a call, and its arguments without it; raises ArgumentError for an invalid mode."""
        args, kwargs = self._with_mode_by_name(args, kwargs)
        if _MODE not in kwargs:
            return self.training, args, kwargs
        mode = kwargs[_MODE]
        if not isinstance(mode, bool | np.bool_):
            raise ArgumentError(f"{self.name}: training= is True or False, not {mode!r}")
        return bool(mode), args, {name: value for name, value in kwargs.items() if name != _MODE}

    def refuses(self, kwargs: dict[str, Any]) -> ArgumentError | None:
        """Return why Python alone can answer a call that gives the mode among the function's ``**options``."""
        if not self.hands_on_mode or _MODE not in kwargs:
            return None
        return ArgumentError(Why(reasons.MODE_IN_OPTIONS, (
            f"{self.name} takes training= as one of its **options, which compiled calls take as their mode. Give it a "
            "parameter training=False.")))

    def _with_mode_by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Return a call's arguments with ``training``, and all after it, as keyword arguments."""
        at = self._training_position
        if at is None or len(args) <= at:
            return args, kwargs
        names = (_MODE, *self._after_training)
        if len(args) - at > len(names) or not kwargs.keys().isdisjoint(names[: len(args) - at]):
            raise ArgumentError(f"{self.name}: pass training= by keyword; it is the mode of the call, not an array")
        return args[:at], {**kwargs, **dict(zip(names, args[at:]))}

    # ------------------------------------------------------------------ the function itself
    def trace(
        self, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any], breaker: GraphBreaker | None,
        tensors: frozenset[int], states: RngStates,
    ) -> Trace | TraceEnd:
        """Run the function once on tracers; reads of values raise TracedValueError, or the breaker answers them.

        `tensors` has the ids of arrays that replace torch tensors.
        """
        if not self.runs_on_gpu:
            compiler.start_compiler(use_cache=self.options.cache)
        on_host = not self.runs_on_gpu and not any(isinstance(x, DeviceArray) for x in (*args, *kwargs.values()))
        return trace_call(
            self.fn, args, kwargs, breaker, training=training, declares_training=self._declares_training,
            static_argnames=self.options.static, schedule_method=self.options.schedule, on_host=on_host,
            foreign=tensors, states=states, transforms=self.options.transforms,
        )

    def run_fallback(self, args: tuple[Any, ...], kwargs: dict[str, Any], training: bool | None = None) -> Any:
        """Run the Python function itself: inlined in another trace, disabled, or as the fallback.

        The mode is `training`, or ``training=`` among the arguments.
        """
        inlined = active() is not None
        args, kwargs = self._with_mode_by_name(args, kwargs)
        own = inlined and _MODE in kwargs and type(kwargs[_MODE]) is not ModeFlag
        if training is None:
            training = kwargs.get(_MODE, is_training() if inlined else self.training)
        given = {name: value for name, value in kwargs.items() if name != _MODE}
        if self._declares_training or (self.hands_on_mode and _MODE in kwargs):
            given[_MODE] = training
        function = transformed(self.fn, self.options.transforms)
        if own:
            with inlined_mode(bool(training)):
                return function(*args, **given)
        if inlined:
            return function(*args, **given)
        with EagerMode(bool(training), not holds_eager(args, given)):
            return function(*args, **given)


def _takes_keywords(fn: Callable[..., Any]) -> bool:
    if type(fn) is types.FunctionType and not fn.__dict__:
        return bool(fn.__code__.co_flags & inspect.CO_VARKEYWORDS)
    try:
        return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return False


def _training_parameter(fn: Callable[..., Any]) -> tuple[int | None, tuple[str, ...], bool] | None:
    """Return the position, the names of later parameters, and the default of a function's parameter ``training``.

    The position is None if it is keyword-only. None for a function without such a parameter.
    """
    if type(fn) is types.FunctionType and not fn.__dict__ and _MODE not in fn.__code__.co_varnames:
        return None  # no decorator or signature says otherwise; `inspect` takes longer
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return None
    for k, parameter in enumerate(parameters):
        if parameter.name == _MODE:
            default = parameter.default if isinstance(parameter.default, bool) else False
            after = tuple(p.name for p in parameters[k + 1 :] if p.kind is p.POSITIONAL_OR_KEYWORD)
            return None if parameter.kind is parameter.KEYWORD_ONLY else k, after, default
    return None
