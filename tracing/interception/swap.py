"""Exchanges the ``__code__`` of functions for rewritten code while a trace runs, and restores it.

The code is exchanged in place, so that every call of a function is intercepted (methods that C code or a library calls,
partials, ``map``), and a function stays the same object to user code. Meanwhile, other threads run the same function
with the same results, only slower. A function has a small stub as code until its first call, which rewrites it, so that
a class with many methods costs little.
"""
from __future__ import annotations

import functools
import threading
import types
import weakref
from typing import Any, Final

from jitfuse.base import forks
from jitfuse.tracing.interception import probes
from jitfuse.tracing.interception.assembler import InstructionGroup, assemble, encoded, number, parse
from jitfuse.tracing.interception.bytecode import is_rewritten, rewrite
from jitfuse.tracing.rewrite.branches import if_converted

_lock: Final = threading.RLock()


class _Swap:
    """One function whose code is exchanged: its own code, the new code, and the number of traces that use it."""

    __slots__ = ("count", "defaults", "fn", "installed", "original")

    def __init__(self, fn: types.FunctionType, defaults: frozenset[str]) -> None:
        self.fn = fn
        self.original = fn.__code__
        self.installed = fn.__code__
        self.defaults = defaults
        self.count = 0

    def install(self, code: types.CodeType) -> None:
        """Exchange the code, unless someone else has replaced it meanwhile."""
        if self.fn.__code__ is self.installed:
            self.fn.__code__ = code
            self.installed = code


_swaps: Final[dict[int, _Swap]] = {}
_rewritten: Final[dict[tuple[int, frozenset[str]], tuple[Any, types.CodeType]]] = {}


def _stub(*args: Any, **kwargs: Any) -> Any:
    first_call: Any = 0.5
    return first_call(*args, **kwargs)


_COPY_FREE_VARIABLES: Final = number("COPY_FREE_VARS")


@functools.cache
def _stub_code(free_variables: int) -> types.CodeType:
    """Return the stub's code with this many free variables: the closure must match."""
    code = _stub.__code__
    if not free_variables:
        return code
    groups = [InstructionGroup(offset, step.code) for offset, step in parse(code)]
    groups[0] = InstructionGroup(0, encoded(_COPY_FREE_VARIABLES, free_variables) + groups[0].code)
    return assemble(code, groups, code.co_consts, more_stack=0).replace(
        co_freevars=tuple(f"free{k}" for k in range(free_variables)))


def acquire(fn: types.FunctionType, defaults: frozenset[str] = frozenset(), lazily: bool = False) -> None:
    """Give the function rewritten code until the matching `release`; may be nested.

    lazily: with a stub at first. The stub hides the signature from `inspect`, so it is for class members.
    """
    with _lock:
        swap = _swaps.get(id(fn))
        if swap is None:
            swap = _Swap(fn, defaults)
            if not is_rewritten(swap.original):
                swap.install(_known(swap) or (_make_stub(swap) if lazily else _rewritten_code(swap)))
            _swaps[id(fn)] = swap  # not where it raises: the next call would find a swap that was never installed
        swap.count += 1


def release(fn: types.FunctionType) -> None:
    """Undo one `acquire`; the last one puts the function's own code back."""
    with _lock:
        swap = _swaps[id(fn)]
        swap.count -= 1
        if swap.count == 0:
            del _swaps[id(fn)]
            swap.install(swap.original)


def original_code(fn: types.FunctionType) -> types.CodeType:
    """Return the function's own code, also while it is exchanged."""
    with _lock:
        swap = _swaps.get(id(fn))
        return swap.original if swap is not None and fn.__code__ is swap.installed else fn.__code__


def _known(swap: _Swap) -> types.CodeType | None:
    found = _rewritten.get((id(_source(swap)), swap.defaults))
    return found[1] if found else None


def _source(swap: _Swap) -> types.CodeType:
    """Return the code to rewrite: the function's own, or that with if-converted branches."""
    return if_converted(swap.original) or swap.original


def _make_stub(swap: _Swap) -> types.CodeType:
    """Return code that fits any signature and rewrites the function when it is called."""
    original = swap.original
    stub = _stub_code(len(original.co_freevars))
    constants = [functools.partial(_first_call, swap) if value == 0.5 else value for value in stub.co_consts]
    return stub.replace(
        co_consts=tuple(constants), co_freevars=original.co_freevars, co_name=original.co_name,
        co_qualname=original.co_qualname)


def _first_call(swap: _Swap, /, *args: Any, **kwargs: Any) -> Any:
    code = _rewritten_code(swap)
    with _lock:
        if _swaps.get(id(swap.fn)) is swap:
            swap.install(code)
    return swap.fn(*args, **kwargs)


FIRST_CALL: Final = _first_call.__code__


def _rewritten_code(swap: _Swap) -> types.CodeType:
    """Rewrite, once per code object and process."""
    known = _known(swap)
    if known is not None:
        return known
    source = _source(swap)
    key = (id(source), swap.defaults)
    code = rewrite(source, swap.defaults, own=swap.original)
    _rewritten[key] = (weakref.ref(source, lambda _: _rewritten.pop(key, None)), code)
    return code


def _after_fork() -> None:
    """In a forked child, restore the codes that other threads had exchanged: those threads do not exist there."""
    if probes.current.get() is None:  # else the forking thread is in a trace, and will restore its own codes
        for swap in _swaps.values():
            swap.install(swap.original)
        _swaps.clear()
    _lock.release()


forks.hold(_lock.acquire, _lock.release, _after_fork)
