"""The decorator: `jf.fuse`, and the function that it returns.

Native code answers the calls that match a known signature, without Python. The others come to
`FusedFunction.__call__`, which runs the pipeline in `jitfuse.function.pipeline`; read that from `_answer`. Owns the
public API.
"""
from __future__ import annotations

import functools
import sys
import types
import weakref
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, ParamSpec, Protocol, Self, TypeVar, overload

from jitfuse.backends.llvm.runtime.callable import NativeCallable
from jitfuse.base import forks
from jitfuse.base.later import Later
from jitfuse.budget import DEFAULT, Budget
from jitfuse.errors import NeedsGradientsError
from jitfuse.function import pipeline
from jitfuse.function.options import Options, reject_unfit, reject_unknown
from jitfuse.function.parts import Parts
from jitfuse.function.rng_state import renew_locks
from jitfuse.ir.program import FusedProgram
from jitfuse.tracing.record.dispatch_wrappers import unwrapped_function

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from typing import Concatenate

    import numpy as np

    from jitfuse.backends.interpreter.runner import RunResult
    from jitfuse.tracing.tracer import Transform

public_methods = Later("jitfuse.reports.public_methods")
replay = Later("jitfuse.function.replay")


P = ParamSpec("P")
Rest = ParamSpec("Rest")
R = TypeVar("R", covariant=True)
T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])
First = TypeVar("First", contravariant=True)
Device = Literal["cpu", "gpu"]
Schedule = Literal["slack", "asap", "alap", "ilp"]


@overload
def fuse(
    fn: FusedProgram, *, training: bool | None = None, device: Device | None = None, strict: bool = False,
    schedule: Schedule = "slack", cache: bool = True, name: str | None = None, budget: Budget | None = None,
) -> FusedFunction[[Mapping[int, Any]], RunResult]: ...
@overload
def fuse(
    fn: FusedFunction[P, R] | Callable[P, R], *, training: bool | None = None, device: Device | None = None,
    strict: bool = False, schedule: Schedule = "slack", static_argnames: Collection[str] = (), cache: bool = True,
    name: str | None = None, budget: Budget | None = None,
) -> FusedFunction[P, R]: ...
@overload
def fuse(
    fn: None = None, *, training: bool | None = None, device: Device | None = None, strict: bool = False,
    schedule: Schedule = "slack", static_argnames: Collection[str] = (), cache: bool = True, name: str | None = None,
    budget: Budget | None = None,
) -> _Decorator: ...
def fuse(
    fn: Callable[..., Any] | FusedProgram | None = None, *, training: bool | None = None,
    device: Device | None = None, strict: bool = False, schedule: Schedule = "slack",
    static_argnames: Collection[str] = (), donate: Collection[str] = (), fastmath: bool = False, cache: bool = True,
    name: str | None = None, budget: Budget | None = None,
) -> Any:
    """Compile an array function: ``@jf.fuse`` or ``@jf.fuse(training=True, ...)``.

    Args:
        fn: a function of NumPy arrays, torch tensors, eager arrays and Python numbers, in any nesting. Or a
            `FusedProgram`, such as one read from a file: it becomes a function of its feeds, {feed: array or number},
            that returns what `jf.ProgramRunner` does, and changes written arrays and state in place.
        training: default mode of calls; ``f(..., training=True)`` overrides it for one call. None: the default of the
            function's own parameter ``training`` if it has one, else False.
        device: None: run where the inputs live; "gpu": take host arrays there, and leave results there.
        strict: raise instead of falling back to plain Python or the interpreter.
        schedule: "slack", "asap" or "alap": how steps and kernels are ordered; "ilp" takes the order of least memory
            that an integer program finds (needs highspy, takes seconds: for `warm`).
        static_argnames: the name or names of arguments that are compared by equality and never traced. Those that can
            be changed, such as lists, are compared with a copy.
        donate, fastmath: options of later versions.
        cache: keep compiled kernels on disk.
        name: the function's name in reports; its own name by default.
        budget: a `jf.Budget`: how much is traced and compiled before calls run as plain Python.

    Returns:
        A `FusedFunction`, or a decorator if `fn` is left out. Its results have the shapes and dtypes that NumPy gives.

    Raises:
        ArgumentError: `fn` is no function, or an option is none of this version.
        JitfuseError, in calls: code that cannot be traced where `strict` is set; NumericError for integers to negative
            powers; BoundsError for indices that leave their axis; and whatever the function itself raises.

    Example:
        >>> @jf.fuse
        ... def f(x, b):
        ...     return np.maximum(x, 0) * 2 + b
        >>> f(np.array([-1.0, 2.0]), 1.0)
        array([1., 5.])
    """
    static = frozenset([static_argnames] if isinstance(static_argnames, str) else static_argnames)
    reject_unknown(device, schedule, donate, fastmath, budget)
    options = Options(training, device, strict, schedule, static, cache, name, budget or DEFAULT)
    if fn is None:
        return functools.partial(_make, options)
    return _make(options, fn)


def _make(options: Options, fn: Callable[..., Any] | FusedProgram) -> FusedFunction[..., Any]:
    if isinstance(fn, FusedFunction):
        return fn
    if isinstance(fn, FusedProgram):
        return FusedFunction(*replay.replayed(fn, options))
    reject_unfit(fn, options.static)
    return FusedFunction(unwrapped_function(fn), options)


def transform(
    fn: Callable[..., Any], by: Transform, name: str, *, own_arguments: bool = True
) -> FusedFunction[..., Any]:
    """Return a fused function of what a transform makes of a function, with the options that it has.

    `own_arguments`: it takes the function's arguments.
    """
    definition = fuse(fn).parts.definition
    return FusedFunction(definition.fn, definition.options.transformed(by, name, own_arguments=own_arguments))


def hides_frames(method: Method) -> Method:
    """Let a method raise errors without jitfuse's frames."""
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except Exception as error:
            pipeline.hide_frames(error)
            raise

    return call  # type: ignore[return-value]


class _Decorator(Protocol):
    """What `fuse` returns without a function."""

    def __call__(self, fn: FusedFunction[P, R] | Callable[P, R], /) -> FusedFunction[P, R]: ...


class _Wraps(Protocol[First, Rest, R]):
    """A fused function with a first parameter, for type checkers: which of the descriptor's overloads holds."""

    @property
    def __wrapped__(self) -> Callable[Concatenate[First, Rest], R]: ...


class _Untyped:
    """Only a parameter without a type takes it, which cannot tell a method from a static one."""


class FusedFunction(NativeCallable, Generic[P, R]):
    """A compiled array function; see `fuse`. Calls that match a known signature never enter Python.

    It has the signature of the function, and takes the keyword ``training`` besides. Type checkers check all arguments
    of calls without ``training``; types cannot say "these parameters and one more keyword".
    """

    __wrapped__: Callable[P, R]

    def __init__(self, fn: Callable[..., Any], options: Options) -> None:
        functools.update_wrapper(self, fn)
        self.parts = Parts(self, fn, options)
        """Its parts, for the rest of jitfuse; not public."""
        _functions.add(self)

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __call__(self, *args: Any, training: bool | np.bool_, **kwargs: Any) -> R: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; a new signature is traced and compiled first."""
        try:
            return pipeline.answer(self.parts, args, kwargs)
        except Exception as error:
            pipeline.hide_frames(error)
            raise

    @overload
    def __get__(
        self: _Wraps[_Untyped, Rest, R], instance: object, owner: type | None = None
    ) -> FusedFunction[..., R]: ...
    @overload
    def __get__(self: _Wraps[type[T], Rest, R], instance: None, owner: type[T]) -> FusedFunction[Rest, R]: ...
    @overload
    def __get__(self: _Wraps[type[T], Rest, R], instance: T, owner: type[T]) -> FusedFunction[Rest, R]: ...
    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self: _Wraps[T, Rest, R], instance: T, owner: type | None = None) -> FusedFunction[Rest, R]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Self: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<jf.fuse {self.name}>"

    def __dir__(self) -> list[str]:
        shown = {name for name in object.__dir__(self) if not name.startswith("_")} - vars(NativeCallable).keys()
        return sorted({*shown - {"parts"}, *_PYTHONS})

    def __reduce__(self) -> Any:
        from jitfuse.function.pickling import importable_name

        definition = self.parts.definition
        return importable_name(self, sys._getframe(1)) or (_make, (definition.options, definition.fn))

    @property
    def name(self) -> str:
        """The function's name in reports.

        Example:
            >>> jf.fuse(lambda x: x, name="same").name
            'same'
        """
        return self.parts.definition.name

    # ------------------------------------------------------------------ reports and exports
    @hides_frames
    def program(self, *args: Any, **kwargs: Any) -> FusedProgram:
        """Return the program of a call with these arguments, traced now if it is new; nothing is compiled.

        Args:
            args, kwargs: arguments of a call, with ``training`` for the mode.

        Returns:
            A `FusedProgram`; printed, it shows a line for each step.

        Raises:
            JitfuseError: the call cannot be traced; and whatever the function raises.

        Example:
            >>> jf.fuse(lambda x: x + 1).program(np.ones(3)).steps[-1].op_name
            'add'
        """
        return public_methods.report(public_methods.program, self.parts, args, kwargs)

    @hides_frames
    def feeds(self, *args: Any, **kwargs: Any) -> dict[int, Any]:
        """Return what a call with these arguments gives to its program, so that the program can be run elsewhere.

        Args:
            args, kwargs: arguments of a call, with ``training`` for the mode.

        Returns:
            {feed: array or number} for all feeds of `program`: arguments, what the function reads besides, and the
            state of the random numbers. `feed_names` of the program says what is what. Arrays are copies.

        Raises:
            JitfuseError: the call cannot be traced; and whatever the function raises.

        Example:
            >>> f = jf.fuse(lambda x, a: a * x)
            >>> feeds = f.feeds(np.ones(2), 3.0)
            >>> jf.fuse(f.program(np.ones(2), 3.0))(feeds).outputs["result"]
            array([3., 3.])
        """
        return public_methods.report(public_methods.feeds, self.parts, args, kwargs)

    @hides_frames
    def explain(self, *args: Any, html: str | os.PathLike[str] | None = None, **kwargs: Any) -> str:
        """Return a readable report of how a call with these arguments runs; compiles it if it is new.

        For a function with graph breaks it shows the subgraphs made so far, and the values that Python has read. Where
        tensors require gradients it shows the forward and the backward pass, and what is kept between them.

        Args:
            args, kwargs: arguments of a call, with ``training`` for the mode.
            html: a file for the report as one self-contained page, with pictures of the program and of the arena and
                the source of every kernel.

        Returns:
            The report: program, feeds, guards, plan, refused merges, memory, kernels.

        Raises:
            JitfuseError: the call cannot be traced or compiled; OSError: the file cannot be written.

        Example:
            >>> print(jf.fuse(lambda x: x * x, name="f").explain(np.ones(3)))  # doctest: +ELLIPSIS
            f, evaluation, traced in ... ms
            <BLANKLINE>
            program (as written)
              0  %1: float64[3] = multiply(%0, %0)  # ...
        """
        parts = self.parts
        try:
            return public_methods.report(lambda call: public_methods.explain(call, self, html), parts, args, kwargs)
        except NeedsGradientsError:
            from jitfuse.reports.passes import explain_passes

            return explain_passes(parts, args, kwargs, html)

    @hides_frames
    def export(self, *args: Any, path: str | os.PathLike[str] | None = None, **kwargs: Any) -> str:
        """Return a call with these arguments as Python source that runs on NumPy alone; see `jitfuse.export`.

        Args:
            args, kwargs: arguments of a call; ``training`` is the default mode of the function that is written.
            path: a file to write.

        Returns:
            The source of a function of one argument for each array and number that the call reads.

        Raises:
            UnsupportedError: the result holds objects that cannot be written as source.

        Example:
            >>> "def double" in jf.fuse(lambda x: x * 2, name="double").export(np.ones(3))
            True
        """
        return public_methods.report(lambda call: public_methods.export(call, self, path), self.parts, args, kwargs)

    @hides_frames
    def warm(self, *args: Any, **kwargs: Any) -> None:
        """Trace, compile and store for these arguments, without running anything.

        Args:
            args, kwargs: arguments of a call, with `jf.spec(shape, dtype)` in place of arrays that do not exist yet.

        Raises:
            JitfuseError: the call cannot be traced or compiled; and whatever the function raises.

        Example:
            >>> f = jf.fuse(lambda x: x + 1)
            >>> f.warm(jf.spec(1000, "float32"))
        """
        public_methods.warm(self.parts, args, kwargs)

    def stats(self) -> dict[str, int]:
        """Return counts: traces, compiles, cache_hits, cache_misses, launches, fallbacks, splits.

        Example:
            >>> f = jf.fuse(lambda x: x + 1)
            >>> f(np.ones(2)), f.stats()["launches"]
            (array([2., 2.]), 1)
        """
        return public_methods.stats(self.parts)

    @property
    def kernels(self) -> tuple[Any, ...]:
        """Every kernel that this function has compiled or loaded, with `source`, `asm`, `key` and `from_cache`.

        Example:
            >>> f = jf.fuse(lambda x: x + 1)
            >>> f(np.ones(2)), len(f.kernels)
            (array([2., 2.]), 1)
        """
        return public_methods.kernels(self.parts)

    def why(self) -> str:
        """Return what keeps the calls so far from being one fused program, with the user's lines.

        Lists the reasons for plain Python; functions of libraries that Python calls in each call, with their mean time;
        values that Python reads; and steps that are not fused.

        Example:
            >>> f = jf.fuse(lambda x: x * 2 if x[0] > 0 else -x, name="signed")
            >>> f(np.ones(2))
            array([2., 2.])
            >>> print(f.why())  # doctest: +ELLIPSIS
            signed
            <BLANKLINE>
            read by Python, which takes a path for each answer [JF402]
              bool() at ...: 1 answer
        """
        return public_methods.why(self.parts)

    def explain_miss(self) -> str:
        """Return why the last new call was new.

        Names the guards and arguments that differ from the nearest signature and, for kernels missing from the cache,
        the parts of the key that differ from the nearest entry.

        Example:
            >>> f = jf.fuse(lambda x: x + 1)
            >>> f(np.ones(2)), f(np.ones(2, "float32"))
            (array([2., 2.]), array([2., 2.], dtype=float32))
            >>> "float32" in f.explain_miss()
            True
        """
        return public_methods.explain_miss(self.parts)


_PYTHONS: Final = frozenset({
    *dir(object), "__call__", "__get__", "__module__", "__name__", "__qualname__", "__wrapped__",
})
_functions: weakref.WeakSet[FusedFunction[..., Any]] = weakref.WeakSet()


@forks.renew
def _renew_locks() -> None:
    """Replace the locks in a forked child: threads that do not exist there may have held the old ones."""
    renew_locks()
    for function in list(_functions):
        function.parts.renew_locks()
