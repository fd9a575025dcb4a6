"""Runs a function in a thread of its own, while the calling thread does something else."""
from __future__ import annotations

import _thread
import atexit
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from jitfuse.base import forks

_T = TypeVar("_T")

_HEAD_START: Final = 5e-5
"""Seconds that the new thread gets the interpreter to itself: else it may wait 5 ms for it before it begins."""

_running: set[_thread.LockType] = set()
"""Locks, each held until its function has returned."""


class Future(Generic[_T]):
    """The result of a function that starts now, in a thread of its own if one can be started.

    Worthwhile beside code that releases the interpreter's lock, such as LLVM's code generator. The process does not end
    before the function has, except by `os._exit`. Starting a `threading.Thread` would take 0.1 to 0.3 ms more.
    """

    def __init__(self, function: Callable[[], _T]) -> None:
        self._function = function
        self._done = _thread.allocate_lock()
        self._done.acquire()
        _running.add(self._done)
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:  # no more threads, or the interpreter is ending
            self._run()
        else:
            time.sleep(_HEAD_START)

    def _run(self) -> None:
        try:
            self._made = self._function()
            self._error: BaseException | None = None
        except BaseException as error:
            self._error = error
        finally:
            _running.discard(self._done)
            self._done.release()

    def result(self) -> _T:
        """Wait for the function and return what it returned, or raise what it raised."""
        with self._done:
            pass
        if self._error is not None:
            raise self._error
        return self._made


def _wait() -> None:
    """Wait for all functions: LLVM's global state is destroyed when the process ends."""
    for done in tuple(_running):
        with done:
            pass


atexit.register(_wait)
forks.renew(_running.clear)  # the threads do not exist in the child
