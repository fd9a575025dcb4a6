"""Python's search for cycles of garbage, put off while much is made that stays. Owns nothing else.

Tracing and planning make objects by the hundred thousand, nearly all of which live on to the end of it: searching them
again and again took a fifth of a long first call, and found nothing. The traced function runs meanwhile, so the search
is not turned off: it begins after so many objects more, and what the function says of it holds.
"""
from __future__ import annotations

import contextlib
import gc
import threading
from types import TracebackType
from typing import Final

from jitfuse.base import forks

PUT_OFF: Final = 2_000_000
"""The objects, made and not dropped again, after which the youngest are searched all the same."""
MANY: Final = 20_000
"""The objects made within a pause that are searched when it ends, for 2 ms; more of them wait for a search of all."""


class _GcPause(contextlib.ContextDecorator):
    """A context in which hardly any cycles are searched for, entered by any number of threads at once."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = gc.get_threshold()
                if self._before[0]:  # 0: never
                    gc.set_threshold(PUT_OFF, *self._before[1:])
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside = max(self._inside - 1, 0)
            if not self._inside:
                self._restore()

    def threshold(self) -> tuple[int, ...]:
        """Return what `gc.get_threshold` would answer without the pause."""
        first, *others = gc.get_threshold()
        return (self._before[0] if self._inside and first == PUT_OFF else first, *others)

    def _restore(self) -> None:
        """Put back what the pause has changed; what the function that was traced has set stays."""
        first, *others = gc.get_threshold()
        if first == PUT_OFF:
            if gc.isenabled() and gc.get_count()[0] > MANY:
                _count_as_old()
            gc.set_threshold(self._before[0], *others)

    def after_fork(self) -> None:
        """In a forked child: the threads that were inside are not there any more, but for the one that forked."""
        if self._inside:
            self._restore()
        self._reset()


def _count_as_old() -> None:
    """Have all objects wait for the next search of everything; those that somebody has frozen stay so."""
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()  # into the oldest generation


def search_young() -> None:
    """Search what is young now, and count anew: else that may come due, 1 ms of it, within the first call."""
    if gc.isenabled() and gc.get_threshold()[0]:
        gc.collect(1)


PAUSED = _GcPause()
forks.renew(PAUSED.after_fork)
