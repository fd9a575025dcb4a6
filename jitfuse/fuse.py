"""The decorator: `jf.fuse`, and the function that it returns.

A `FusedFunction` answers calls natively where one of its signatures fits (no Python runs); otherwise `__call__`
traces the function once, compiles it and calls again. Read `FusedFunction._miss`: it is the whole story. Owns
signatures, faces (`program`, `explain`, `stats`, `kernels`, `warm`) and fallbacks; the stages are elsewhere.
"""
from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

import numpy as np

from jitfuse import compile as compiler
from jitfuse import random as jf_random
from jitfuse.backends.llvm.runtime.callable import NativeCallable
from jitfuse.backends.llvm.runtime.entries import StateBlock
from jitfuse.errors import (
    ArgumentError,
    CompileError,
    FallbackWarning,
    JitfuseError,
    OverlapError,
    VolatileError,
)
from jitfuse.frameworks import (
    as_eager,
    call_adapted,
    holds_eager,
    materialise_specs,
    needs_adapting,
    reads_eager,
    refuse_raising,
)
from jitfuse.ir.program import RANDOM_STATE, FusedProgram
from jitfuse.tracing.mode import eager_mode, is_training
from jitfuse.tracing.recorder import active
from jitfuse.tracing.source import hide_own_frames
from jitfuse.tracing.tracer import trace

MAX_SIGNATURES: Final = 512
"""Signatures that a function keeps ready; past that it starts over, with every kernel still cached."""
MAX_KEPT_PLANS: Final = 16
"""Signatures of a function whose plans a process puts on the disk: those that the next process starts with."""
MANY_VALUES: Final = 8
MAX_TRIES: Final = 3


def fuse(
    fn: Callable[..., Any] | None = None, *, training: bool = False, device: str | None = None, strict: bool = False,
    schedule: str = "slack", static_argnames: Collection[str] = (), donate: Collection[str] = (),
    fastmath: bool = False, cache: bool = True, name: str | None = None,
) -> Any:
    """Compile an array function: ``@jf.fuse`` or ``@jf.fuse(training=True, ...)``.

    training         default mode of calls; ``f(..., training=True)`` overrides it for one call
    device           None: run where the inputs live; "gpu": take host arrays there, and leave results there
    strict           raise instead of falling back to plain Python or the interpreter
    schedule         "slack", "asap" or "alap": how steps and kernels are ordered; "ilp" takes the order of least
                     memory that an integer program finds (needs highspy, takes seconds: for `warm`)
    static_argnames  arguments that are compared by equality and never traced
    cache            keep compiled kernels on disk
    name             how the function is called in reports; its own name by default

    Returns a `FusedFunction`, or a decorator where `fn` is left out. Raises ArgumentError for what is no function
    and for options of later versions (donate, fastmath). Calls raise JitfuseErrors for what cannot be
    traced, NumericError for integers to negative powers, BoundsError for indices that leave their axis, and whatever
    the function itself raises.
    """
    options = _Options(training, device, strict, schedule, frozenset(static_argnames), cache, name)
    _refuse_unknown(device, donate, fastmath)
    if fn is None:
        return functools.partial(_make, options)
    return _make(options, fn)


def _refuse_unknown(device: str | None, donate: Collection[str], fastmath: bool) -> None:
    if device not in (None, "cpu", "gpu"):
        raise ArgumentError(f"device={device!r}: pass 'cpu' or 'gpu', or leave it out to run where the inputs live")
    if donate:
        raise ArgumentError("donate= is not available in this version; write into an argument (x[...] = ...) instead")
    if fastmath:
        raise ArgumentError("fastmath=True is not available in this version; results are strict IEEE")


class _Options:
    __slots__ = ("cache", "device", "name", "schedule", "static", "strict", "training")

    def __init__(
        self, training: bool, device: str | None, strict: bool, schedule: str, static: frozenset[str], cache: bool,
        name: str | None,
    ) -> None:
        self.training = training
        self.device = device
        self.strict = strict
        self.schedule = schedule
        self.static = static
        self.cache = cache
        self.name = name


def _make(options: _Options, fn: Callable[..., Any]) -> FusedFunction:
    if isinstance(fn, FusedFunction):
        return fn
    if isinstance(fn, staticmethod | classmethod):
        raise ArgumentError(f"put @{type(fn).__name__} above @jf.fuse: it must be the outer decorator")
    if not callable(fn):
        raise ArgumentError(f"jf.fuse decorates functions; got a {type(fn).__name__}")
    return FusedFunction(fn, options)


class FusedFunction(NativeCallable):
    """A compiled array function; see `fuse`. Calls that fit a known signature never enter Python."""

    def __init__(self, fn: Callable[..., Any], options: _Options) -> None:
        functools.update_wrapper(self, fn)
        self._fn = fn
        self._options = options
        self._declares_training = "training" in _parameters(fn)
        self._training_position = _training_position(fn)
        self._lock = threading.RLock()
        self._specs: list[Any] = []
        self._state: Any = None
        self._counts = {"traces": 0, "compiles": 0, "cache_hits": 0, "cache_misses": 0, "fallbacks": 0, "splits": 0}
        self._warned: set[str] = set()
        self._looked_at: dict[str, set[str]] = {}
        self._retired: Any = None
        self._launches = 0
        self._busy = threading.local()
        self._why_new: tuple[str, ...] | None = None
        self._missed: tuple[str, ...] = ()
        _functions.add(self)

    # ------------------------------------------------------------------ calling
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; a new signature is traced and compiled first."""
        try:
            return self._miss(*args, **kwargs)
        except BaseException as error:
            if not compiler.debugging():
                hide_own_frames(error)
            raise

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<jf.fuse {self.name}>"

    @property
    def name(self) -> str:
        """The function's name in reports."""
        return self._options.name or str(getattr(self._fn, "__qualname__", type(self._fn).__name__))

    def _miss(self, *args: Any, **kwargs: Any) -> Any:
        """Answer a call that no native signature fits: find or make its signature, then call natively."""
        if os.environ.get("JITFUSE_DISABLE") or _in_trace():
            return self._run_plain(args, kwargs)
        refuse_raising(self.name)
        if needs_adapting(args, kwargs):
            return call_adapted(self, args, kwargs)
        training, args, kwargs = self._split_mode(args, kwargs)
        try:
            with self._lock:
                spec = self._signature(training, args, kwargs)
        except (OverlapError, VolatileError) as error:
            self._note_fallback("plain Python", error)
            return self._run_plain(args, {**kwargs, "training": training})
        if self._runs_on_gpu(spec, args, kwargs):
            return self._call_on_gpu(spec, training, args, kwargs)
        try:
            with self._lock:
                self._compile(spec, training)
                ready = self._start_native(spec)
            if reads_eager(spec.trace.feeds.values(), args, kwargs):
                return as_eager(self._call_directly(spec, training, args, kwargs))
            if not ready:
                return self._call_directly(spec, training, args, kwargs)
            with self._going_native(spec):
                return self(*args, training=training, **kwargs)
        except CompileError as error:
            from jitfuse.fallback import interpret

            self._note_fallback("the interpreter", error)
            return interpret(spec.trace, training, args, kwargs, _state())

    def _runs_on_gpu(self, spec: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether a call runs on the GPU: asked for, or because a tensor lives there."""
        if self._options.device == "gpu":
            return True
        if "jitfuse.gpu" not in sys.modules:
            return False
        from jitfuse.gpu.call import touches_gpu

        return touches_gpu(spec, args, kwargs)

    def _call_on_gpu(self, spec: Any, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call of a signature on the GPU; raises DeviceError where there is none."""
        from jitfuse.gpu.call import call_on_gpu

        before = self._counts["cache_misses"]
        with self._lock:
            with self._counting():
                call = self._gpu_call(spec, training, args, kwargs)
                result = call_on_gpu(call, self._note_fallback)
            self._launches += call.launches
            if self._counts["cache_misses"] > before:
                kernels = (k for plan in spec.gpu_plans.values() for k in plan.kernels)
                self._missed = tuple(k.key for k in kernels if not k.from_cache)
            return result

    def _gpu_call(self, spec: Any, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from jitfuse.gpu.call import GpuCall

        return GpuCall(spec, training, args, kwargs, _state(), self._origin(), use_cache=self._options.cache)

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

    def _signature(self, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the specialisation that a call belongs to; trace the function where there is none."""
        spec = next((s for s in self._specs if s.matches(args, kwargs)), None)
        if spec is None:
            why = self._why_not(args, kwargs)
            if len(self._specs) >= MAX_SIGNATURES:
                self._forget_signatures()
            trace = self._trace(training, args, kwargs)
            spec = compiler.specialise(trace, _state(), functools.partial(_raise_status, self.name))
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

    def _compile(self, spec: Any, training: bool) -> None:
        """Have native code for one mode of a signature; raises CompileError where there cannot be any."""
        if training in spec.plans:
            return
        before = self._counts["cache_misses"]
        with self._counting():
            made = compiler.compile_mode(
                spec, training, self._origin(), use_cache=self._options.cache,
                keep_plan=len(self._specs) <= MAX_KEPT_PLANS, schedule=self._options.schedule,
            )
        if self._counts["cache_misses"] > before and made.kernels is not None:
            self._missed = (made.kernels.key,)

    def _call_directly(self, spec: Any, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Launch the kernels from Python, and have the runtime compiled meanwhile where it can be had at all."""
        from jitfuse.compile.direct import call_directly

        made = spec.plans[training]
        self._launches += made.call.launches
        try:
            return call_directly(
                spec.trace, made.call, made.kernels, made.constants, args, kwargs, _state(),
                functools.partial(_raise_status, self.name), self.name,
            )
        finally:
            if self.native:
                compiler.build_runtime()

    def _trace(self, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made = trace(
            self._fn, args, kwargs, training=training, declares_training=self._declares_training,
            static_argnames=self._options.static, schedule_method=self._options.schedule,
        )
        self._counts["traces"] += 1
        return made

    def _forget_signatures(self) -> None:
        """Start over with no signatures: their number is bounded, their kernels stay cached."""
        if self._state is not None:
            self._launches += self._state.launches
            # another thread may be running the old entries and their kernels: they die with the next round
            self._retired, self._state = (self._state, self._specs), None
            self.detach()
        self._specs = []

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
                    FallbackWarning, stacklevel=5,
                )

    def _start_native(self, spec: Any) -> bool:
        """Have native code try a signature in calls; return False while the runtime is not there."""
        if not self.native or not compiler.runtime_is_ready():
            return False
        compiler.native_runtime().accept_error_state()
        if self._state is None:
            runtime = compiler.native_runtime()
            self._state = StateBlock(_on_miss, training=self._options.training)
            self.attach(runtime.address("jf_fastcall"), self._state.address, keep=self._state)
        if spec.bound.entry not in self._state.entries:
            self._state.prepend(spec.bound.entry)
        return True

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

    def _split_mode(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[bool, tuple[Any, ...], dict[str, Any]]:
        """Return (mode, positional and keyword arguments without the flag)."""
        kwargs = dict(kwargs)
        mode = kwargs.pop("training", self._options.training)
        at = self._training_position
        if at is not None and len(args) > at:
            raise ArgumentError(f"{self.name}: pass training= by keyword; it is the mode of the call, not an array")
        if not isinstance(mode, bool | np.bool_):
            raise ArgumentError(f"{self.name}: training= is True or False, not {mode!r}")
        return bool(mode), args, kwargs

    # ------------------------------------------------------------------ plain Python
    def _run_plain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the Python function itself: inlined in another trace, disabled, or as the fallback."""
        inlined = _in_trace()
        kwargs = dict(kwargs)
        training = kwargs.pop("training", is_training() if inlined else self._options.training)
        if self._declares_training:
            kwargs["training"] = training
        if inlined:
            return self._fn(*args, **kwargs)
        with eager_mode(bool(training), not holds_eager(args, kwargs)):
            return self._fn(*args, **kwargs)

    def _note_fallback(self, where: str, error: JitfuseError) -> None:
        """Count a call that runs elsewhere and warn once of each reason; raise it where `strict`."""
        if self._options.strict:
            raise error
        self._counts["fallbacks"] += 1
        reason = str(error).splitlines()[0]
        if reason not in self._warned:
            self._warned.add(reason)
            warnings.warn(f"{self.name} runs in {where}: {reason}", FallbackWarning, stacklevel=4)

    def _origin(self) -> Any:
        code = getattr(inspect.unwrap(self._fn), "__code__", None)
        where = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""
        return compiler.Origin(self.name, where)

    # ------------------------------------------------------------------ faces
    def program(self, *args: Any, **kwargs: Any) -> FusedProgram:
        """Return the program of a call with these arguments (traced where it is new); nothing is compiled."""
        training, args, kwargs = self._split_mode(args, kwargs)
        with self._lock:
            spec = next((s for s in self._specs if s.matches(args, kwargs)), None)
        result = spec.trace.program if spec is not None else self._trace(training, args, kwargs).program
        assert isinstance(result, FusedProgram)
        return result

    def explain(self, *args: Any, html: str | os.PathLike[str] | None = None, **kwargs: Any) -> str:
        """Return a readable report of how a call with these arguments runs; compiles it where it is new.

        `html` names a file that gets the report as one self-contained page, with pictures of the program and of the
        arena and the source of every kernel.
        """
        from jitfuse.explain import explain, kernels_of

        training, args, kwargs = self._split_mode(args, kwargs)
        with self._lock:
            spec = self._signature(training, args, kwargs)
            if self._runs_on_gpu(spec, args, kwargs):
                made = self._gpu_call(spec, training, args, kwargs).plan()
                plan, kernels = made.plan, made.kernels
            else:
                self._compile(spec, training)
                plan, kernels = spec.plans[training].runtime, kernels_of([spec])
            if html is not None:
                from jitfuse.explain_html import write_page

                write_page(html, self, spec, training, plan, kernels)
            return explain(self, spec, training, plan)

    def export(self, *args: Any, path: str | os.PathLike[str] | None = None, **kwargs: Any) -> str:
        """Return a call with these arguments as Python source that runs on NumPy alone; see `jitfuse.export`.

        The function in it takes what the call reads, one argument for each array and number, and returns what the
        call returns. `training` is what it takes unless its caller says otherwise; `path` names a file to write.
        Raises UnsupportedError where the result holds what cannot be written as source.
        """
        from jitfuse.function_export import export_call

        training, args, kwargs = self._split_mode(args, kwargs)
        with self._lock:
            spec = next((s for s in self._specs if s.matches(args, kwargs)), None)
            traced = spec.trace if spec is not None else self._trace(training, args, kwargs)
        text = export_call(self, traced, training)
        if path is not None:
            from jitfuse.files import write_whole

            write_whole(path, text)
        return text

    def warm(self, *args: Any, **kwargs: Any) -> None:
        """Trace and compile for these arguments, arrays or `jf.spec(shape, dtype)`, without running anything."""
        args, kwargs = materialise_specs(args, kwargs)
        training, args, kwargs = self._split_mode(args, kwargs)
        with self._lock:
            spec = self._signature(training, args, kwargs)
            if self._runs_on_gpu(spec, args, kwargs):
                with self._counting():
                    self._gpu_call(spec, training, args, kwargs).prepare()
                return
            self._compile(spec, training)
            if self.native:
                compiler.native_runtime()

    def stats(self) -> dict[str, int]:
        """Return counts: traces, compiles, cache_hits, cache_misses, launches, fallbacks, splits."""
        running = self._state.launches if self._state is not None else 0
        return {**self._counts, "launches": self._launches + running}

    @property
    def kernels(self) -> tuple[Any, ...]:
        """Return every kernel that this function has compiled or loaded."""
        from jitfuse.explain import kernels_of

        return kernels_of(self._specs)

    def explain_miss(self) -> str:
        """Return why the last call that was new was new.

        Names the guards and arguments that differ from the nearest signature and, for kernels that the cache did not
        have, the parts of the key that differ from the nearest entry.
        """
        from jitfuse.misses import explain_miss

        with self._lock:
            entries = {kernel.key: kernel.entry for kernel in self.kernels}
            missed = [(key, entries.get(key)) for key in self._missed]
            return explain_miss(self.name, len(self._specs), self._why_new, missed, self._options.cache)

    def __reduce__(self) -> Any:
        from jitfuse.pickling import importable_name

        return importable_name(self, sys._getframe(1)) or (_make, (self._options, self._fn))


_functions: weakref.WeakSet[FusedFunction] = weakref.WeakSet()


def _after_fork() -> None:
    """In a forked child: fresh locks, for threads that are not there may have held the old ones."""
    for function in list(_functions):
        function._lock = threading.RLock()
        function._busy = threading.local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _state() -> dict[str, np.ndarray[Any, Any]]:
    return {RANDOM_STATE: jf_random.state()}


def _raise_status(name: str, kind: int, checks: Any, status: Any) -> bool:
    """Raise for a status that a kernel returned: the handler of every entry."""
    raise compiler.kernel_error(name, checks, int(status))


def _on_miss(owner: FusedFunction, *args: Any, **kwargs: Any) -> Any:
    return FusedFunction.__call__(owner, *args, **kwargs)


def _parameters(fn: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        return {}


def _training_position(fn: Callable[..., Any]) -> int | None:
    for k, parameter in enumerate(_parameters(fn).values()):
        if parameter.name == "training" and parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            return k
    return None


def _in_trace() -> bool:
    return active() is not None
