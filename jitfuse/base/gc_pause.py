"""Delays Python's cyclic garbage collection while many long-lived objects are made. Owns nothing else.

Tracing and planning make hundreds of thousands of objects, and nearly all live to the end. Searching them repeatedly
took a fifth of a long first call, and found nothing. The traced function runs meanwhile, so the collector is not turned
off: its threshold is raised, and settings that the function makes still hold.
"""
from __future__ import annotations

import contextlib
import gc
import threading
from types import TracebackType
from typing import Final

from jitfuse.base import forks

PUT_OFF: Final = 2_000_000
"""Objects, net of those dropped, after which the youngest generation is collected all the same."""
MANY: Final = 20_000
"""Objects made within a pause that are collected when it ends, in 2 ms; more of them wait for a full collection."""


class _GcPause(contextlib.ContextDecorator):
    """A context with hardly any garbage collection, entered by any number of threads at once."""

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
        """Undo the pause's changes; what the traced function has set stays."""
        first, *others = gc.get_threshold()
        if first == PUT_OFF:
            if gc.isenabled() and gc.get_count()[0] > MANY:
                _count_as_old()
            gc.set_threshold(self._before[0], *others)

    def after_fork(self) -> None:
        """End the pause in a forked child: other threads inside it do not exist there."""
        if self._inside:
            self._restore()
        self._reset()


def _count_as_old() -> None:
    """Move all objects to the oldest generation; objects that other code has frozen stay so."""
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()  # into the oldest generation


def search_young() -> None:
    """Collect the young generations now and restart their counts: else 1 ms of it may fall into the first call."""
    if gc.isenabled() and gc.get_threshold()[0]:
        gc.collect(1)


PAUSED = _GcPause()
forks.renew(PAUSED.after_fork)
