"""Background jobs after a first call: what the next process is to find, and what later calls run on.

Owns the thread that does such jobs one after the other. Does not own the jobs.
"""
from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from jitfuse.base import forks

_HEAD_START: Final = 0.002
"""Seconds that the call which starts the thread keeps the interpreter to itself, to return its answer."""

_lock = threading.RLock()  # a signal handler may call a function that adds a job
_jobs: deque[Callable[[], None]] = deque()
_thread: threading.Thread | None = None


def do(job: Callable[[], None]) -> None:
    """Queue a job; jobs run in order, and the process does not end before they are done. Errors are the job's own."""
    global _thread
    with _lock:
        _jobs.append(job)
        if _thread is not None:
            return
        thread = threading.Thread(target=_work, name="jitfuse-behind")
        with contextlib.suppress(RuntimeError):  # no more threads, or the interpreter is ending
            thread.start()
            _thread = thread
            return
    _run()


def wait() -> None:
    """Wait until all jobs queued so far are done."""
    thread = _thread
    if thread is not None and thread is not threading.current_thread():
        thread.join()


def _work() -> None:
    time.sleep(_HEAD_START)
    _run()


def _run() -> None:
    global _thread
    while True:
        with _lock:
            if not _jobs:
                _thread = None
                return
            job = _jobs.popleft()
        try:
            job()
        except Exception:  # shown as that of any thread; the other jobs still run
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


@forks.renew
def _forget() -> None:
    """Drop the queue in a forked child: the parent runs its own jobs."""
    global _lock, _thread
    _lock, _thread = threading.RLock(), None
    _jobs.clear()
