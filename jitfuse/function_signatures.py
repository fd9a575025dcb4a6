"""The signatures of a fused function: found, traced, compiled, put before native code.

Owns what a function keeps between calls: its specialisations, its native state block, its counts and what it has
warned of. Does not own calls (`jitfuse.fuse`), reports (`jitfuse.function_faces`) or any stage of the pipeline.
"""
from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from jitfuse import compile as compiler
from jitfuse import random as jf_random
from jitfuse.backends.llvm.runtime.entries import StateBlock
from jitfuse.drawing import Drawing
from jitfuse.errors import ArgumentError, CompileError, FallbackWarning, JitfuseError, VolatileError
from jitfuse.frameworks import tensor_feeds, tensor_ids
from jitfuse.function_draws import Draws
from jitfuse.ir.program import RANDOM_STATE
from jitfuse.options import Options
from jitfuse.tracing.device_array import DeviceArray
from jitfuse.tracing.found import Trace, TraceEnd
from jitfuse.tracing.tracer import trace_call

if TYPE_CHECKING:
    from jitfuse.tracing.observing import Splitter

MAX_SIGNATURES: Final = 512
"""Signatures that a function keeps ready; past that it starts over, with every kernel still cached."""
MAX_KEPT_PLANS: Final = 16
"""Signatures of a function whose plans a process puts on the disk: those that the next process starts with."""
MANY_VALUES: Final = 8
MAX_TRIES: Final = 3


class Signatures(Draws):
    """What a fused function knows of the calls that it has seen."""

    def __init__(self, fn: Callable[..., Any], options: Options) -> None:
        self._fn = fn
        self._options = options
        declared = _training_parameter(fn)
        self._declares_training = declared is not None
        self._training_position, self._after_training, default = declared or (None, (), False)
        self._training = default if options.training is None else options.training
        self._lock = threading.RLock()
        self._specs: list[Any] = []
        self._state: Any = None
        self._keeps = False
        """Whether calls bind anything in Python's state anew."""
        self._counts = {"traces": 0, "compiles": 0, "cache_hits": 0, "cache_misses": 0, "fallbacks": 0, "splits": 0}
        self._warned: set[str] = set()
        self._looked_at: dict[str, set[str]] = {}
        self._retired: Any = None
        self._launches = 0
        self._tensor_places: tuple[int, ...] = ()
        self._twins: dict[tuple[tuple[int, ...], Drawing], Any] = {}
        self._busy = threading.local()
        self._why_new: tuple[str, ...] | None = None
        self._missed: tuple[Any, ...] = ()
        """The objects and GPU kernels that the last new call had compiled."""

    @property
    def name(self) -> str:
        """The function's name in reports."""
        return self._options.name or str(getattr(self._fn, "__qualname__", type(self._fn).__name__))

    def _signature(self, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the specialisation that a call belongs to; trace the function where there is none."""
        spec = self._known_signature(training, args, kwargs)
        if spec is None:
            why = self._why_not(args, kwargs)
            spec = self._add_signature(self._whole_trace(training, args, kwargs), why, args, kwargs)
        return spec

    def _known_signature(self, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the specialisation that a call belongs to, or None."""
        return next((s for s in self._specs if s.matches(args, kwargs, training)), None)

    def _add_signature(
        self, trace: Trace, why: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the specialisation of a new trace; `why` no other would do is for reports."""
        if len(self._specs) >= MAX_SIGNATURES:
            self._forget_signatures()
        tensors = tensor_feeds(trace, self._tensor_places, args, kwargs)
        spec = compiler.specialise(
            trace, random_state(), functools.partial(leave_or_raise, self.name), tensors or (),
            tensors is not None and (trace.torch or bool(self._tensor_places)),
        )
        self._specs.insert(0, spec)
        self._why_new, self._missed = why, ()
        self._warn_of_many_values(trace)
        return spec

    def _why_not(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
        """Return why a call belongs to none of the signatures; the arguments will be gone when somebody asks."""
        if not self._specs:
            return ()
        from jitfuse.compile.mismatch import mismatches

        return mismatches(self._specs, args, kwargs)

    def _trace(
        self, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any], splitter: Splitter | None = None
    ) -> Trace | TraceEnd:
        """Run the function once; looks at data raise TracedValueError, or are answered by the splitter."""
        if self._options.device != "gpu":
            compiler.start_compiler(use_cache=self._options.cache)
        made = trace_call(
            self._fn, args, kwargs, splitter, training=training, declares_training=self._declares_training,
            static_argnames=self._options.static, schedule_method=self._options.schedule,
            on_host=self._options.device != "gpu" and not any(
                isinstance(value, DeviceArray) for value in (*args, *kwargs.values())
            ),
            foreign=tensor_ids(self._tensor_places, args, kwargs) if self._tensor_places else frozenset(),
            drawing=self._lent(args, kwargs),
        )
        self._counts["traces"] += 1
        self._keeps = self._keeps or bool(made.result.effects)
        return made

    def _whole_trace(self, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Trace:
        """Trace the function where there is no data to look at."""
        made = self._trace(training, args, kwargs)
        assert isinstance(made, Trace)
        return made

    def _warn_of_many_values(self, trace: Any) -> None:
        """Say once that a number is looked at by Python and keeps changing: every value is traced anew."""
        for feed, value in trace.guarded_values.items():
            place = str(trace.feeds[feed].source)
            values = self._looked_at.setdefault(place, set())
            if len(values) > MANY_VALUES or repr(value) in values:
                continue
            values.add(repr(value))
            if len(values) > MANY_VALUES:
                warnings.warn(
                    f"{self.name}: Python looks at the value of {place} (range, reshape, if, int(), ...), so each "
                    f"new value is traced anew; more than {MANY_VALUES} came so far. Where it need not be looked at, "
                    "use it as a number only; a 0-d array stays run-time data.",
                    FallbackWarning, stacklevel=7,
                )

    def _forget_signatures(self) -> None:
        """Start over with no signatures: their number is bounded, their kernels stay cached."""
        # another thread may be running the old entries and their kernels: they die with the next round
        self._retired, self._specs = (self._retired_state(), self._specs), []
        home = self._native_home()
        if home is not self:
            with home._lock:
                home._retired = home._retired_state() or home._retired

    def _retired_state(self) -> Any:
        """Take the native state out of use and return it: it has the entries of twins too."""
        state, self._state = self._state, None
        if state is not None:
            self._launches += state.launches
            self.detach()
        return state

    def _native_home(self) -> Signatures:
        """Return the function whose native state has the entries that take tensors: the one that is called."""
        home = self._home() if self._home is not None else self
        assert home is not None, "a twin is called by the function that it belongs to"
        return home

    def _compile(self, spec: Any, training: bool) -> None:
        """Have native code for one mode of a signature; raises CompileError where there cannot be any."""
        if training in spec.plans:
            return
        with self._counting():
            made = compiler.compile_mode(
                spec, training, self._origin(), use_cache=self._options.cache,
                keep_plan=len(self._specs) <= MAX_KEPT_PLANS, schedule=self._options.schedule,
            )
        if made.kernels is not None and made.kernels.compiled is not None:
            self._missed = (made.kernels.compiled,)

    @contextlib.contextmanager
    def _counting(self) -> Iterator[None]:
        """Add what this thread compiles and loads meanwhile to this function's counts."""
        totals = compiler.thread_totals()
        before = dict(vars(totals))
        try:
            yield
        finally:
            for key, value in vars(totals).items():
                self._counts[key] += value - before[key]

    def _start_native(self, spec: Any, training: bool) -> bool:
        """Have native code try a signature in calls; return False while the runtime is not there.

        False also where native code tries a signature with tensors already: these are others than it can read; and
        where tensors come with generators, whose states have to be brought and given back.
        """
        if spec.tensors and self._drawing != Drawing():
            return False
        if not self.native or not compiler.runtime_is_ready(spec.plans[training].call):
            return False
        compiler.native_runtime().accept_error_state()
        home = self._native_home() if spec.tensors else self
        with home._lock:
            return home._prepend(spec.bound.entry) or not spec.tensors

    def _prepend(self, entry: Any) -> bool:
        """Have native code try an entry; return whether it did not before."""
        if self._state is None:
            self._state = StateBlock(_on_miss, training=self._training)
            self.attach(compiler.native_runtime().address("jf_fastcall"), self._state.address, keep=self._state)
        known = entry in self._state.entries
        if not known:
            self._state.prepend(entry)
        return not known

    @contextlib.contextmanager
    def _going_native(self, spec: Any) -> Iterator[None]:
        """Raise CompileError where native code has just refused the call that its tables were made for."""
        # another thread may start the signatures over in between: that is worth a few more tries
        outer = getattr(self._busy, "tries", (None, 0))
        tries = outer[1] + 1 if outer[0] == spec.trace.program else 1
        if tries > MAX_TRIES:
            raise CompileError("its guards do not hold from one moment to the next")
        self._busy.tries = (spec.trace.program, tries)
        try:
            yield
        finally:
            self._busy.tries = outer

    def _runs_on_gpu(self, spec: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether a call runs on the GPU: asked for, or because a tensor lives there."""
        if self._options.device == "gpu":
            return True
        if "jitfuse.gpu" not in sys.modules:
            return False
        from jitfuse.gpu.call import touches_gpu

        return touches_gpu(spec, args, kwargs)

    def _gpu_call(self, spec: Any, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from jitfuse.gpu.call import GpuCall

        return GpuCall(spec, training, args, kwargs, random_state(), self._origin(), use_cache=self._options.cache)

    def _split_mode(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[bool, tuple[Any, ...], dict[str, Any]]:
        """Return (mode, positional and keyword arguments without the flag)."""
        args, kwargs = self._with_mode_by_name(args, dict(kwargs))
        mode = kwargs.pop("training", self._training)
        if not isinstance(mode, bool | np.bool_):
            raise ArgumentError(f"{self.name}: training= is True or False, not {mode!r}")
        return bool(mode), args, kwargs

    def _with_mode_by_name(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return a call's arguments with ``training``, and what follows it, by their names."""
        at = self._training_position
        if at is None or len(args) <= at:
            return args, kwargs
        names = ("training", *self._after_training)
        if len(args) - at > len(names) or not kwargs.keys().isdisjoint(names[: len(args) - at]):
            raise ArgumentError(f"{self.name}: pass training= by keyword; it is the mode of the call, not an array")
        return args[:at], {**kwargs, **dict(zip(names, args[at:]))}

    def _note_fallback(self, where: str, error: Exception) -> None:
        """Count a call that runs elsewhere and warn once of each reason; raise it where `strict`."""
        if self._options.strict:
            raise error
        self._counts["fallbacks"] += 1
        reason = str(error).partition("\n")[0]
        if not isinstance(error, JitfuseError):
            reason = f"{type(error).__name__}: {reason}" if reason else type(error).__name__
        if reason not in self._warned:
            self._warned.add(reason)
            warnings.warn(f"{self.name} runs in {where}: {reason}", FallbackWarning, stacklevel=4)

    def _origin(self) -> Any:
        code = getattr(inspect.unwrap(self._fn), "__code__", None)
        where = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""
        return compiler.Origin(self.name, where)


def random_state() -> dict[str, np.ndarray[Any, Any]]:
    """Return the state arrays that calls read and move on."""
    return {RANDOM_STATE: jf_random.state()}


def raise_status(name: str, checks: Any, status: int) -> NoReturn:
    """Raise for a status that a kernel returned: the handler where Python launches, and of segments."""
    raise compiler.kernel_error(name, checks, status)


def leave_or_raise(name: str, checks: Any, status: int) -> None:
    """Raise for a status, or leave the call to the miss handler where plain Python has an answer: of native entries."""
    error = compiler.kernel_error(name, checks, status)
    if not isinstance(error, VolatileError):
        raise error
    _left.error = error


def take_left() -> VolatileError | None:
    """Return why native code has left this thread's call to the miss handler, once; None where it has not."""
    error: VolatileError | None = getattr(_left, "error", None)
    if error is not None:
        _left.error = None
    return error


_left = threading.local()


def _on_miss(owner: Any, *args: Any, **kwargs: Any) -> Any:
    return owner.__call__(*args, **kwargs)


def _training_parameter(fn: Callable[..., Any]) -> tuple[int | None, tuple[str, ...], bool] | None:
    """Return of a function's parameter ``training`` its position, the names of those after it, and its default.

    The position is None where it can only be given by its name. None for a function without such a parameter.
    """
    if type(fn) is types.FunctionType and not fn.__dict__ and "training" not in fn.__code__.co_varnames:
        return None  # nothing about it says otherwise, as a decorator may; asking `inspect` takes longer
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return None
    for k, parameter in enumerate(parameters):
        if parameter.name == "training":
            default = parameter.default if isinstance(parameter.default, bool) else False
            after = tuple(p.name for p in parameters[k + 1 :] if p.kind is p.POSITIONAL_OR_KEYWORD)
            return None if parameter.kind is parameter.KEYWORD_ONLY else k, after, default
    return None
