"""Effects that a trace cannot observe: clocks, random numbers, context variables, recorded warnings, threads.

A function that uses them falls back to plain Python. Owns which they are, and the messages. Does not own the table of
replacements (`jitfuse.tracing.numpy_like.substitutes`).
"""
from __future__ import annotations

import _thread
import contextvars
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

from jitfuse.errors import UntraceableError
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.array_class import class_proxy

RANDOM_WAY_OUT: Final = (
    "Its numbers would be the same in every call. Use jf.random.uniform(shape) and jf.nn.dropout, which draw anew, "
    "or draw outside and pass the numbers as an argument."
)
DRAWN_IDS: Final = frozenset({"uuid1", "uuid4", "uuid6", "uuid7", "getnode"})
"""Functions of `uuid` with another result each time."""
_CLOCK_WAY_OUT: Final = "The function runs once, when it is traced. Measure around the call of the fused function."
_CONTEXT_WAY_OUT: Final = "Its value is not seen. Pass it as an argument."
_WARNINGS_WAY_OUT: Final = "Kernels give no warnings. Check the results (np.isfinite)."
_THREADS_WAY_OUT: Final = (
    "jitfuse does not see what other threads read and draw. Compute there, call the fused function in each thread, or "
    "pass what they make as arguments; kernels have threads of their own."
)
_POOLS: Final = (
    ("concurrent.futures", "Executor"), ("multiprocessing.pool", "Pool"), ("multiprocessing.process", "BaseProcess"),
)
_POOL_METHODS: Final = ("submit", "map", "imap", "starmap", "apply", "start")
_CLOCKS: Final = (
    "time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time",
    "process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns",
)
_OF_NOW: Final = {"localtime": 0, "gmtime": 0, "ctime": 0, "asctime": 0, "strftime": 1}
"""Functions of `time` that default to the present time, with the number of arguments before the time."""


def raising(name: str, way_out: str) -> Callable[..., Any]:
    """Return a replacement that raises UntraceableError."""
    def raise_error(*args: Any, **kwargs: Any) -> Any:
        raise UntraceableError(f"{name} is called inside a fused function, at {user_line()}. {way_out}")

    return raise_error


def method(owner: Any, name: str, generators: tuple[type, ...]) -> Callable[..., Any] | None:
    """Return the replacement of an object's method, or None."""
    if issubclass(type(owner), generators):  # by type(): a proxy's __class__ is a generator's too
        return raising(f"{type(owner).__name__}.{name}", RANDOM_WAY_OUT)
    if isinstance(owner, contextvars.ContextVar) and not owner.name.startswith("numpy"):  # np.errstate, np.printoptions
        return raising(f"ContextVar.{name}", _CONTEXT_WAY_OUT)
    if _hands_on(owner, name):
        return raising(f"{type(owner).__name__}.{name}", _THREADS_WAY_OUT)
    if isinstance(owner, type) and name in ("now", "today", "utcnow") and "datetime" in sys.modules:
        dates = sys.modules["datetime"]
        return raising(f"{owner.__name__}.{name}", _CLOCK_WAY_OUT) if issubclass(owner, dates.date) else None
    return None


def _hands_on(owner: Any, name: str) -> bool:
    """Return whether a method runs a function in another thread or process, where no trace sees it."""
    if isinstance(owner, threading.Thread):
        return name == "start"
    if name.startswith(_POOL_METHODS):
        pools = [getattr(sys.modules.get(module), kind, None) for module, kind in _POOLS]
        return isinstance(owner, tuple(p for p in pools if p is not None))
    return False


def replacements() -> Iterator[tuple[Any, Callable[..., Any]]]:
    """Yield functions of Python's standard library and their replacements."""
    for name in _CLOCKS:
        if hasattr(time, name):
            yield getattr(time, name), raising(f"time.{name}", _CLOCK_WAY_OUT)
    for name, before in _OF_NOW.items():
        yield getattr(time, name), _of_now(name, before)
    for name in ("urandom", "getrandom"):
        if hasattr(os, name):
            yield getattr(os, name), raising(f"os.{name}", RANDOM_WAY_OUT)
    yield _thread.start_new_thread, raising("_thread.start_new_thread", _THREADS_WAY_OUT)
    yield os.times, raising("os.times", _CLOCK_WAY_OUT)
    yield warnings.catch_warnings, class_proxy(warnings.catch_warnings, _catch_warnings)
    for function in (warnings.simplefilter, warnings.filterwarnings):
        yield function, _filtering(function)


def _of_now(name: str, before: int) -> Callable[..., Any]:
    function, raise_error = getattr(time, name), raising(f"time.{name}", _CLOCK_WAY_OUT)

    def call(*args: Any) -> Any:
        return function(*args) if len(args) > before else raise_error()

    return call


def _catch_warnings(*args: Any, record: bool = False, **kwargs: Any) -> Any:
    if record or kwargs.get("action") == "error":
        raising("warnings.catch_warnings(record=True)" if record else "warnings.catch_warnings(action='error')",
               _WARNINGS_WAY_OUT)()
    return warnings.catch_warnings(*args, **kwargs)


def _filtering(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(action: Any, *args: Any, **kwargs: Any) -> Any:
        if action == "error":
            raising(f"warnings.{function.__name__}('error')", _WARNINGS_WAY_OUT)()
        return function(action, *args, **kwargs)

    return call
