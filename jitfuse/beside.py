"""Work beside: in a thread of its own, while the thread that asks for it does something else."""
from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

_T = TypeVar("_T")

_HEAD_START: Final = 5e-5
"""Seconds that the thread has the interpreter to itself: else it may wait 5 ms for it before it has begun."""


class Beside(Generic[_T]):
    """The result of a function that starts now, in a thread of its own where there can be one.

    Worth it beside what holds no lock of the interpreter, as LLVM's code generator. The process does not end before
    the function has.
    """

    def __init__(self, function: Callable[[], _T]) -> None:
        self._function = function
        self._thread: threading.Thread | None = threading.Thread(target=self._run, name="jitfuse-beside")
        try:
            self._thread.start()
        except RuntimeError:  # no more threads, or the interpreter is ending
            self._thread = None
            self._run()
        else:
            time.sleep(_HEAD_START)

    def _run(self) -> None:
        try:
            self._made = self._function()
            self._error: BaseException | None = None
        except BaseException as error:
            self._error = error

    def result(self) -> _T:
        """Wait for the function and return what it returned, or raise what it raised."""
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error
        return self._made
