"""The decorator: `jf.fuse`, and the function that it returns.

A `FusedFunction` answers calls natively where one of its signatures fits (no Python runs); otherwise `__call__`
traces the function once, compiles it and calls again. Read `FusedFunction._miss`: it is the whole story. Owns calls
and fallbacks; signatures are `jitfuse.function_signatures`', the other public methods `jitfuse.function_faces`'.
"""
from __future__ import annotations

import functools
import os
import sys
import types
import weakref
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final

from jitfuse import compile as compiler
from jitfuse import forks
from jitfuse.drawing import Drawing, renew_locks
from jitfuse.errors import (
    ArgumentError,
    CompileError,
    EverybodysDrawError,
    JitfuseError,
    OverlapError,
    VolatileError,
)
from jitfuse.frameworks import (
    Adapted,
    are_adapted,
    callers_own,
    deliver,
    holds_eager,
    needs_adapting,
    reads_eager,
    reads_tensors,
    refuse_raising,
)
from jitfuse.function_draws import with_everybodys
from jitfuse.function_faces import Faces
from jitfuse.function_route import Returned
from jitfuse.function_signatures import raise_status, random_state, take_left
from jitfuse.options import Options, refuse_unknown
from jitfuse.tracing import output
from jitfuse.tracing.fronts import behind
from jitfuse.tracing.interruption import at_work, comes_from_outside, interrupts_trace, trace_suspended, working
from jitfuse.tracing.mode import eager_mode, is_training
from jitfuse.tracing.recorder import active
from jitfuse.tracing.source import hide_own_frames, raised_by_user

if TYPE_CHECKING:
    from jitfuse.compile.delivery import Delivery
    from jitfuse.splitting.tree import Call, Position, Tree

_NATIVE_NOW: Final = object()
"""What a twin returns where the function itself can answer the call natively from now on."""


def fuse(
    fn: Callable[..., Any] | None = None, *, training: bool | None = None, device: str | None = None,
    strict: bool = False, schedule: str = "slack", static_argnames: Collection[str] = (), donate: Collection[str] = (),
    fastmath: bool = False, cache: bool = True, name: str | None = None,
) -> Any:
    """Compile an array function: ``@jf.fuse`` or ``@jf.fuse(training=True, ...)``.

    training         default mode of calls; ``f(..., training=True)`` overrides it for one call. None: the default of
                     the function's own parameter ``training`` where it has one, else False
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
    options = Options(training, device, strict, schedule, frozenset(static_argnames), cache, name)
    refuse_unknown(device, donate, fastmath)
    if fn is None:
        return functools.partial(_make, options)
    return _make(options, fn)


def _make(options: Options, fn: Callable[..., Any]) -> FusedFunction:
    if isinstance(fn, FusedFunction):
        return fn
    if isinstance(fn, staticmethod | classmethod):
        raise ArgumentError(f"put @{type(fn).__name__} above @jf.fuse: it must be the outer decorator")
    if not callable(fn):
        raise ArgumentError(f"jf.fuse decorates functions; got a {type(fn).__name__}")
    return FusedFunction(behind(fn), options)


class FusedFunction(Faces):
    """A compiled array function; see `fuse`. Calls that fit a known signature never enter Python."""

    def __init__(self, fn: Callable[..., Any], options: Options) -> None:
        functools.update_wrapper(self, fn)
        super().__init__(fn, options)
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

    @with_everybodys
    def _miss(self, *args: Any, **kwargs: Any) -> Any:
        """Answer a call that no native signature fits: find or make its signature, then call natively."""
        if interrupts_trace():
            with trace_suspended():
                return self._run_plain(args, kwargs)
        if _in_trace() or at_work() or os.environ.get("JITFUSE_DISABLE"):
            return self._run_plain(args, kwargs)
        self._release_generators()
        left = take_left()
        if left is not None:
            return self._answer_plainly(left, *self._split_mode(args, kwargs), [])
        adapts = self._draws or needs_adapting(args, kwargs)
        said = self._limits.plain in self._warned
        if said and not (adapts or self._specs or self._limits.keeps_ways or self._options.strict):
            self._counts["fallbacks"] += 1
            return self._run_plain(args, kwargs)
        with working():
            return self._answer_new(args, kwargs, adapts)

    def _answer_new(self, args: tuple[Any, ...], kwargs: dict[str, Any], adapts: bool) -> Any:
        """Answer a call that this thread is at work for from now on."""
        try:
            refuse_raising(self.name)
        except ArgumentError as error:
            self._note_fallback("plain Python", error)
            with working(False):
                return self._run_plain(args, kwargs)
        if adapts:
            try:
                adapted = Adapted(args, kwargs, self._draws)
            except ArgumentError as error:
                return self._answer_plainly(error, *self._split_mode(args, kwargs), [])
            result = self._ask(self.twin(adapted.tensors, adapted.drawing), adapted)
            if result is _NATIVE_NOW:
                with working(False):
                    return self(*args, **kwargs)
            return adapted.delivered(result)
        training, args, kwargs = self._split_mode(args, kwargs)
        return self._answered(training, args, kwargs, lambda: self._answer(training, args, kwargs))

    def _ask(self, twin: FusedFunction, adapted: Adapted) -> Any:
        """Return what a twin returns for a call that it stands in for; native code would bind attributes and items to
        other arrays than the caller's kinds, and in containers that stand for the caller's.

        Where compiled draws, or what comes after them, raise, nothing has been written: plain Python raises the same,
        and moves the generators on as far as NumPy does.
        """
        refusal: list[Exception] = []
        answer = twin.__call__ if twin._keeps and not (adapted.tensors or adapted.lends_alone) else twin
        try:
            with adapted.standing_in(), working(False):
                return answer(*adapted.args, **adapted.kwargs)
        except EverybodysDrawError:
            raise
        except Exception as error:
            if adapted.ran_plainly or not adapted.loans:
                raise
            refusal.append(error)
        adapted.run_plainly()
        args, kwargs = adapted.callers
        return self._answer_plainly(refusal.pop(), *self._split_mode(args, kwargs), [])

    def _answered(
        self, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any], answer: Callable[[], Any]
    ) -> Any:
        """Return what a call returns; `answer` finds the signature that it belongs to, or has run its segments."""
        refusal: list[Exception] = []
        with output.held() as texts:
            try:
                spec = answer()
            except Exception as error:
                refusal.append(error)
            if refusal and isinstance(refusal[0], EverybodysDrawError) and self._options.device != "gpu":
                raise refusal.pop()
            if refusal:  # no longer being handled: what plain Python raises has the context that its user sees there
                return self._answer_plainly(refusal.pop(), training, args, kwargs, texts)
            output.show(texts)
        self._limits.refusals = 0
        if isinstance(spec, Returned):
            return spec.value
        if self._runs_on_gpu(spec, args, kwargs):
            return self._call_on_gpu(spec, training, args, kwargs)
        try:
            eager = reads_eager(spec.trace, args, kwargs)
            direct = eager or (not spec.tensors and reads_tensors(spec.trace, args, kwargs))
            if spec.trace.result.effects and not spec.tensors:
                direct = direct or are_adapted(args, kwargs)
            with self._lock:
                self._compile(spec, training)
                ready = not direct and self._start_native(spec, training)
            self._hold_generators()
            if not ready:
                made = self._call_directly(spec, training, args, kwargs)
                return deliver(made, args, kwargs, torch=spec.trace.torch, eager=eager)
            if spec.tensors and self._tensor_places:
                return _NATIVE_NOW
            with self._going_native(spec), working(False):
                return self(*args, training=training, **kwargs)
        except CompileError as error:
            from jitfuse.fallback import interpret

            self._note_fallback("the interpreter", error)
            self._hold_generators()
            made = interpret(spec.trace, training, args, kwargs, random_state())
            return deliver(made, args, kwargs, torch=spec.trace.torch, eager=reads_eager(spec.trace, args, kwargs))
        except VolatileError as error:  # of a value that only plain Python has, met by kernels that Python launches
            refusal.append(error)
        return self._answer_plainly(refusal.pop(), training, args, kwargs, [])

    def _go_on(self, tree: Tree, call: Call, arrive: Callable[[], Position], training: bool) -> Any:
        """Answer a call that native code has brought to the position in the tree that `arrive` returns."""
        self._release_generators()
        try:
            with working():
                return self._answered(
                    training, tuple(call.args), dict(call.kwargs),
                    lambda: self._along(self._route_at(tree, call, arrive(), training)),
                )
        except BaseException as error:
            if not compiler.debugging():
                hide_own_frames(error)
            raise

    def twin(self, places: tuple[int, ...], drawing: Drawing) -> FusedFunction:
        """Return the function that answers calls with torch tensors at places among the arguments' leaves, and draws.

        It sees NumPy views of tensors, and states of generators. It keeps signatures of its own: torch promotes and
        delivers in other ways, and what is written into a state has to be given back.
        """
        if (places, drawing) == (self._tensor_places, self._drawing):
            return self
        with self._lock:
            found = self._twins.get((places, drawing))
            if found is None:
                found = self._twins[places, drawing] = FusedFunction(self._fn, self._options)
                found._tensor_places, found._drawing, found._warned = places, drawing, self._warned
                found._home = weakref.ref(self)
        return found

    def _call_on_gpu(self, spec: Any, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call of a signature on the GPU; raises DeviceError where there is none."""
        from jitfuse.gpu.call import call_on_gpu

        before = self._counts["cache_misses"]
        with self._lock:
            with self._counting():
                call = self._gpu_call(spec, training, args, kwargs)
                self._hold_generators()
                result = call_on_gpu(call, self._note_fallback)
            self._launches += call.launches
            if self._counts["cache_misses"] > before:
                kernels = (k for plan in spec.gpu_plans.values() for k in plan.kernels)
                self._missed = tuple(k for k in kernels if not k.from_cache)
            return result

    def _call_directly(self, spec: Any, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Delivery:
        """Launch the kernels from Python, and have the runtime compiled meanwhile where it can be had at all."""
        from jitfuse.compile.direct import call_directly

        made = spec.plans[training]
        self._launches += made.call.launches
        try:
            return call_directly(
                spec.trace, made.call, made.kernels, made.constants, args, kwargs, random_state(),
                functools.partial(raise_status, self.name), self.name,
            )
        finally:
            if self.native:
                compiler.build_runtime()

    # ------------------------------------------------------------------ plain Python
    def _answer_plainly(
        self, error: Exception, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any], texts: list[output.Text]
    ) -> Any:
        """Answer a call that could not be traced by running the function, whose errors and writes are then its own.

        So does what the function itself raises: until there it has written into its arguments. Where it raises an
        error that ours is an example of, ours says more and is raised; else ours is a note of it. Where `strict`, on a
        GPU, and where a signal handler has raised, what has been raised passes at once.
        """
        plain = {**kwargs, "training": training}
        try:
            if isinstance(error, OverlapError | VolatileError):
                self._note_fallback("plain Python", error)
                self._limits.note_refusal(error)
                texts.clear()
                with working(False):
                    return self._run_plain(args, plain)
            if self._options.strict or self._options.device == "gpu" or comes_from_outside(error):
                output.show(texts)
                raise error
            texts.clear()
            try:
                with working(False):
                    result = self._run_plain(args, plain)
            except Exception as own:
                if not isinstance(error, JitfuseError) or raised_by_user(error):
                    raise
                if not isinstance(error, type(own)):
                    own.add_note(str(error))
                    raise
            else:
                self._note_fallback("plain Python", error)
                self._limits.note_refusal(error)
                return result
            raise error
        finally:
            del error  # a frame of its own traceback, which would keep the call alive

    def _run_plain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the Python function itself: inlined in another trace, disabled, or as the fallback."""
        inlined = _in_trace()
        args, kwargs = self._with_mode_by_name(args, kwargs)
        training = kwargs.get("training", is_training() if inlined else self._training)
        kwargs = {name: value for name, value in kwargs.items() if name != "training"}
        args, kwargs = callers_own(self._tensor_places, args, kwargs)
        if self._declares_training:
            kwargs["training"] = training
        if inlined:
            return self._fn(*args, **kwargs)
        with eager_mode(bool(training), not holds_eager(args, kwargs)):
            return self._fn(*args, **kwargs)

    def __reduce__(self) -> Any:
        from jitfuse.pickling import importable_name

        return importable_name(self, sys._getframe(1)) or (_make, (self._options, self._fn))


_functions: weakref.WeakSet[FusedFunction] = weakref.WeakSet()


@forks.renew
def _renew_locks() -> None:
    """In a forked child: fresh locks, for threads that are not there may have held the old ones."""
    renew_locks()
    for function in list(_functions):
        function._renew_locks()


def _in_trace() -> bool:
    return active() is not None
