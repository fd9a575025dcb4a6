"""Calls that interrupt: a signal handler or a finaliser that runs during a trace, or during jitfuse's own work.

Owns whether code of a signal handler runs inside this thread's trace, and whether this thread works for another call.
Neither can be entered twice: modules may be half imported, and a trace would record foreign steps. Does not own how
such calls run: as plain Python (`jitfuse.fuse`).
"""
from __future__ import annotations

import contextlib
import functools
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

from jitfuse.tracing.interception import probes
from jitfuse.tracing.record.recorder import activate, active
from jitfuse.tracing.record.source import is_user_code, raised_by_user


class _Work(threading.local):
    going_on: bool = False


WORK = _Work()
"""Whether this thread runs jitfuse's own code for a call, not user code that the call runs and that may make calls.

It is set in a `try` and put back in its `finally`, never by a context manager. Python runs signal handlers where a
function starts: one that raises where `__exit__` starts would leave it set, and the thread would trace nothing more.
"""


def interrupts_trace() -> bool:
    """Return whether this call comes from a signal handler that has interrupted this thread's trace."""
    if active() is None or threading.current_thread() is not threading.main_thread():
        return False  # Python runs handlers in the main thread only
    handlers = handler_codes()
    frame: types.FrameType | None = sys._getframe(1)
    while handlers and frame is not None and not is_trace(frame.f_code):
        if frame.f_code in handlers:
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def trace_suspended() -> Iterator[None]:
    """Hide the code in this context from this thread's trace."""
    recorder, token = activate(None), probes.current.set(None)
    try:
        yield
    finally:
        probes.current.reset(token)
        activate(recorder)


def handler_codes() -> set[types.CodeType]:
    """Return the code of all signal handlers that are written in Python."""
    # the C module of `signal`, which does not spend time on making enums
    import _signal  # type: ignore[import-not-found]

    made = set()
    for number in range(1, _signal.NSIG):
        handler: Any = _signal.getsignal(number)
        while isinstance(handler, functools.partial):
            handler = handler.func
        called = handler if hasattr(handler, "__code__") or not callable(handler) else type(handler).__call__
        code = getattr(called, "__code__", None)
        if isinstance(code, types.CodeType):
            made.add(code)
    return made


def is_trace(code: types.CodeType) -> bool:
    """Return whether code is that of `trace_call`, which runs the traced function."""
    return code.co_name == "trace_call" and not is_user_code(code.co_filename)


def comes_from_outside(error: BaseException) -> bool:
    """Return whether a signal handler raised an error, or user code that does not run in a trace."""
    handlers, in_trace, trace = handler_codes(), False, error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        in_trace |= is_trace(code)
        if code in handlers:
            return True
        trace = trace.tb_next
    return not in_trace and raised_by_user(error)
