"""The native runtime's object: from the cache, or compiled in a thread during the first calls.

Owns when it is built and what happens if it cannot be. Does not own its code (`jitfuse.backends.llvm.runtime.native`).
"""
from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

from jitfuse import reasons
from jitfuse.backends.llvm.loader import Library
from jitfuse.backends.llvm.loader import link as link_object
from jitfuse.backends.llvm.runtime import native
from jitfuse.backends.llvm.runtime.threads import asked_threads
from jitfuse.base import background, forks
from jitfuse.cache import Entry, default_store, find_entry, nothing_stored, publish
from jitfuse.compile.call_plans.call_plan import CallPlan, LibraryCall
from jitfuse.compile.objects.keys import runtime_key, runtime_parts
from jitfuse.compile.objects.origin import Origin, entry_metadata
from jitfuse.compile.objects.totals import count
from jitfuse.errors import CompileError, FallbackWarning
from jitfuse.reasons import Why

_MOST_DIRECT: Final = 0.03
"""Seconds of launches from Python, about what compiling the runtime takes, after which a call waits for it."""
_LONGEST_WAIT: Final = 1.0
"""Most seconds of such a wait."""
_LAUNCH: Final = 5e-6
"""Seconds per launch from Python."""
_ITERATIONS: Final = 10_000
"""Assumed iterations of a loop with a data-dependent length."""

_lock = threading.RLock()
_asked = _building = False
"""Whether a background build was requested, and whether it is still to be done."""
_built = threading.Event()
"""Set when the background build has succeeded or failed."""
_direct = 0.0
"""Seconds of launches from Python since a call last waited for the runtime."""
_failure: CompileError | None = None
_seen: Entry | None = None
"""The runtime's entry as `runtime_is_ready` has just found it, so that the loader need not read it again."""


def native_runtime() -> Any:
    """Return the process's native runtime, loaded from the cache or compiled if necessary."""
    native.set_loader(load_runtime_object)
    return native.runtime()


def runtime_is_ready(call: CallPlan | None = None) -> bool:
    """Return whether `native_runtime` would compile nothing: it is loaded, or its object is stored.

    Compiles it at once for a plan whose loops would take longer if Python launched their kernels. Waits for its
    compilation once launches from Python have taken about as long: loops take a hundred times as long that way, and
    hold up the compiling thread.
    """
    global _direct
    if native.loaded():
        return True
    if _building and _direct >= _MOST_DIRECT:
        _direct = 0.0
        _built.wait(_LONGEST_WAIT)
    if _failure is None and not _building and (_asked or _is_stored()):
        return True
    if call is None or _failure is not None or _launches(call) * _LAUNCH < _MOST_DIRECT:
        return False
    if _ask():
        _build_quietly()
    _built.wait(_LONGEST_WAIT)
    return native.loaded()


def _is_stored() -> bool:
    """Return whether the cache has the runtime's object."""
    global _seen
    if nothing_stored(default_store()):  # the key reads the processor's features: 1 % of a cold first call
        return False
    _seen = _stored("runtime", native.key_parts())
    return _seen is not None


def _launches(call: CallPlan) -> int:
    """Return about how many kernels and library functions a run of a plan takes."""
    count = 0
    for step in call.steps:
        count += 1
        if type(step) is LibraryCall and step.bodies:
            iterations = 1 if step.name == "cond" else dict(step.attrs).get("length", _ITERATIONS)
            count += iterations * sum(_launches(body.plan) for _, body in step.bodies)
    return count


def note_direct(seconds: float) -> None:
    """Record how long kernels launched from Python have taken."""
    global _direct
    _direct += seconds


def build_runtime() -> None:
    """Compile the native runtime in the background; the process does not end before it is stored.

    Raises ArgumentError here if ``JITFUSE_NUM_THREADS`` is no number of threads: a background job could not report it.
    """
    if _ask():
        background.do(_build_quietly)


def _ask() -> bool:
    """Return whether the caller is the one that has to build the runtime."""
    global _asked, _building
    with _lock:
        if _asked or native.loaded():
            return False
        asked_threads()
        _asked = _building = True
        return True


def load_runtime_object(
    name: str, make_text: Callable[[], str], key_parts: Mapping[str, str | int], link: native.Link
) -> Library:
    """Return the loaded native runtime, from the cache or compiled: the runtime's loader."""
    global _seen
    seen, _seen = _seen, None
    canonical = _canonical(key_parts)
    entry = seen if seen is not None and seen.canonical == canonical else _stored(name, key_parts)
    if entry is not None:
        try:
            library = link(entry.code)
        except CompileError as error:
            default_store().reject(entry.key, str(error))
        else:
            count("cache_hits")
            return library
    entry = runtime_entry(name, make_text, key_parts)
    count("compiles")
    count("cache_misses")
    library = link(entry.code)
    publish(entry)
    return library


def runtime_entry(name: str, make_text: Callable[[], str], key_parts: Mapping[str, str | int]) -> Entry:
    """Compile a part of the runtime and return its entry."""
    from jitfuse.backends.llvm.jit import compile_text
    from jitfuse.cache.parts import describe

    begin = time.perf_counter()
    code = link_object(compile_text(make_text(), level=int(key_parts["level"])), allowed=native.IMPORTS)
    elapsed = (time.perf_counter() - begin) * 1e3
    # without its text, which is made anew on demand: every process reads and checks the whole entry
    metadata = entry_metadata(Origin(f"jitfuse {name}", ""))
    metadata |= {"compile_ms": round(elapsed, 3), "kernels": [], **describe(runtime_parts(name, key_parts), None)}
    return Entry(runtime_key(name, key_parts), metadata, _canonical(key_parts), code)


def _stored(name: str, key_parts: Mapping[str, str | int]) -> Entry | None:
    """Return the runtime's entry from the cache."""
    return find_entry(lambda: runtime_key(name, key_parts), _canonical(key_parts))


def _canonical(key_parts: Mapping[str, str | int]) -> bytes:
    return repr(sorted(key_parts.items())).encode()


def _build_quietly() -> None:
    global _failure, _building
    try:
        native_runtime()
    except CompileError as error:
        _failure = error
        message = f"kernels are launched from Python, some microseconds slower a call: {str(error).splitlines()[0]}"
        warnings.warn(str(Why(reasons.NO_RUNTIME, message)), FallbackWarning, stacklevel=1)
    finally:
        _building = False
        _built.set()


@forks.renew
def _renew_lock() -> None:
    """Reset lock and build state in a forked child, which lacks the parent's threads."""
    global _lock, _built, _asked, _building
    _lock, _built, _asked, _building = threading.RLock(), threading.Event(), False, False
