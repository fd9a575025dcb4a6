"""Answers calls that could not be traced, compiled or run: by plain Python, the interpreter, or an error.

Owns the choice between them, and its warnings. Does not own how the function is run (`jitfuse.function.definition`).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from jitfuse.compile.interface import Specialisation
from jitfuse.compile.run.delivery import Delivery
from jitfuse.errors import JitfuseError, NeedsTraceError, OverlapError, VolatileError
from jitfuse.function.call import Call
from jitfuse.random_state import state_feeds
from jitfuse.tracing.interruption import comes_from_outside
from jitfuse.tracing.record import output
from jitfuse.tracing.record.source import raised_by_user

if TYPE_CHECKING:
    from jitfuse.graph_breaks.limits import Limits

T = TypeVar("T")


class Failed:
    """A stage that raised, with the output that the function had printed until then.

    A value and no exception being handled, so that an error of the fallback has the context that its user expects.
    """

    def __init__(self, error: Exception) -> None:
        self._error: Exception | None = error
        self.printed: list[output.PrintedText] = []

    def take(self) -> Exception:
        """Return the error, once: no frame that it passes when raised again may hold it, which would be a cycle."""
        error, self._error = self._error, None
        assert error is not None
        return error

    def is_a(self, kind: type[Exception]) -> bool:
        """Return whether the error is of a kind."""
        return isinstance(self._error, kind)


def attempt(stage: Callable[..., T], *args: Any) -> T | Failed:
    """Run a stage; return a `Failed` if it raises."""
    try:
        return stage(*args)
    except Exception as error:
        return Failed(error)


def attempt_trace(stage: Callable[..., T], *args: Any) -> T | Failed:
    """Run a stage that may run the function, and show what it prints once that has succeeded."""
    with output.held() as printed:
        done = attempt(stage, *args)
        if isinstance(done, Failed):
            done.printed = printed
        else:
            output.show(printed)
    return done


def fall_back(call: Call, failed: Failed, limits: Limits | None) -> Any:
    """Run the function as plain Python, because a call could not be traced; its errors and writes are then its own.

    If the function raises too and our error is an instance of that type, ours says more and is raised; else ours
    becomes a note. Our error is raised at once if the function is `strict`, on a GPU, or if a signal handler raised it.
    `limits` count the failure, which may settle the function; None where the fault is in this call's arguments.
    """
    error, table = failed.take(), call.table
    try:
        if isinstance(error, OverlapError | VolatileError):
            table.counters.note_fallback("plain Python", error)
            (limits or table.breaks.limits).note_refusal(error)
            return call.run_fallback()
        definition = table.definition
        if definition.options.strict or definition.runs_on_gpu or comes_from_outside(error):
            output.hand_on(failed.printed)
            raise error
        try:
            result = call.run_fallback()
        except Exception as own:
            if isinstance(own, NeedsTraceError):  # plain Python cannot tell more than the trace has
                raise error from None
            if not isinstance(error, JitfuseError) or raised_by_user(error):
                (limits or table.breaks.limits).note_raised()
                raise
            if not isinstance(error, type(own)):
                own.add_note(str(error))
                raise
        else:
            table.counters.note_fallback("plain Python", error)
            if limits is not None:
                limits.note_refusal(error)
            return result
        raise error
    finally:
        del error  # its traceback holds this frame, which would keep the call alive


def interpret(call: Call, spec: Specialisation, failed: Failed | None) -> Delivery:
    """Run a signature in the interpreter; `failed` says why its kernels cannot be built."""
    from jitfuse.compile.run.interpreting import interpret as run

    if failed is not None:
        call.table.counters.note_fallback("the interpreter", failed.take())
    call.hold_generators()
    return run(spec.trace, call.training, call.args, call.kwargs, state_feeds())
