"""What answers a call that could not be traced, compiled or run: plain Python, the interpreter, or an error.

Owns which of them, and what is warned of. Does not own how the function is run (`jitfuse.function.definition`).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from jitfuse.compile.interface import Specialisation
from jitfuse.compile.run.delivery import Delivery
from jitfuse.errors import JitfuseError, OverlapError, VolatileError
from jitfuse.function.call import Call
from jitfuse.random import state_feeds
from jitfuse.tracing.interruption import comes_from_outside
from jitfuse.tracing.record import output
from jitfuse.tracing.record.source import raised_by_user

T = TypeVar("T")


class Failed:
    """A stage that raised, with the texts that the function had printed until there.

    As a value, so that nothing is being handled when plain Python answers: what the function raises then has the
    context that its user sees there.
    """

    def __init__(self, error: Exception) -> None:
        self._error: Exception | None = error
        self.printed: list[output.PrintedText] = []

    def take(self) -> Exception:
        """Return the error, once: no frame that it passes when it is raised again holds it, which would be a cycle."""
        error, self._error = self._error, None
        assert error is not None
        return error

    def is_a(self, kind: type[Exception]) -> bool:
        """Return whether the error is of a kind."""
        return isinstance(self._error, kind)


def attempt(stage: Callable[..., T], *args: Any) -> T | Failed:
    """Run a stage."""
    try:
        return stage(*args)
    except Exception as error:
        return Failed(error)


def attempt_trace(stage: Callable[..., T], *args: Any) -> T | Failed:
    """Run a stage in which the function may run, and show what it prints when that has succeeded."""
    with output.held() as printed:
        done = attempt(stage, *args)
        if isinstance(done, Failed):
            done.printed = printed
        else:
            output.show(printed)
    return done


def fall_back(call: Call, failed: Failed) -> Any:
    """Answer a call that could not be traced by running the function, whose errors and writes are then its own.

    So does what the function itself raises: until there it has written into its arguments. Where it raises an
    error that ours is an example of, ours says more and is raised; else ours is a note of it. Where `strict`, on a
    GPU, and where a signal handler has raised, what has been raised passes at once.
    """
    error, table = failed.take(), call.table
    try:
        if isinstance(error, OverlapError | VolatileError):
            table.counters.note_fallback("plain Python", error)
            table.breaks.limits.note_refusal(error)
            return call.run_fallback()
        definition = table.definition
        if definition.options.strict or definition.runs_on_gpu or comes_from_outside(error):
            output.show(failed.printed)
            raise error
        try:
            result = call.run_fallback()
        except Exception as own:
            if not isinstance(error, JitfuseError) or raised_by_user(error):
                raise
            if not isinstance(error, type(own)):
                own.add_note(str(error))
                raise
        else:
            table.counters.note_fallback("plain Python", error)
            table.breaks.limits.note_refusal(error)
            return result
        raise error
    finally:
        del error  # a frame of its own traceback, which would keep the call alive


def interpret(call: Call, spec: Specialisation, failed: Failed) -> Delivery:
    """Run a signature whose kernels cannot be built in the interpreter."""
    from jitfuse.function.interpreting import interpret as run

    call.table.counters.note_fallback("the interpreter", failed.take())
    call.hold_generators()
    return run(spec.trace, call.training, call.args, call.kwargs, state_feeds())
