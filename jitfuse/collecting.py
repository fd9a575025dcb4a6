"""Python's search for cycles of garbage, put off while much is made that stays. Owns nothing else.

Planning makes objects by the hundred thousand, nearly all of which live on to the end of it: searching them again and
again took a fifth of a long first call, and found nothing.
"""
from __future__ import annotations

import gc
import os
import threading
from types import TracebackType


class _Pause:
    """A context in which no cycles are searched for, entered by any number of threads at once."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._was_on = False

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._was_on = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside = max(self._inside - 1, 0)
            if not self._inside and self._was_on:
                gc.enable()

    def after_fork(self) -> None:
        """In a forked child: the threads that were inside are not there any more, but for the one that forked."""
        if self._inside and self._was_on:
            gc.enable()
        self._reset()


PAUSED = _Pause()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PAUSED.after_fork)
