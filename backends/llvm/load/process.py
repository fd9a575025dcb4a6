"""Resources of the whole process: its symbols, the lock across forks, memory for code.

Owns: looking up symbols of CPython and of the C library, and checking which of them code may use; the lock for
one-time initialisation; pages that are written first and executed later. Does not own the content of the pages.
"""
from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Container, Iterable, Sequence
from functools import cache
from itertools import repeat
from typing import Any, Final, cast

from jitfuse.base import forks
from jitfuse.base.records import NamedTuple
from jitfuse.errors import CompileError

PAGE: Final = 4096
READ: Final = 1
WRITE: Final = 2
EXECUTE: Final = 4
_MAPPED: Final = 0x2 | 0x20 | 0x8000  # private, anonymous, populated at once: single page faults take some µs each
_FAILED: Final = 2**64 - 1

process_lock = threading.RLock()
"""Held while a part of LLVM or the runtime starts, and across a fork. Reentrant: a collection inside a locked
section may run a finalizer that forks or compiles."""

forks.hold(process_lock.acquire, process_lock.release)


# ---------------------------------------------------------------------- C functions
_FUNCTION: Final[Any] = ctypes.pythonapi._FuncPtr


def c_function(address: int, result: Any, *arguments: Any) -> Any:
    """Return the C function at an address, given ctypes' types of its result and arguments.

    Calls hold the GIL, so the function must be short. This takes 1 µs; `ctypes.CFUNCTYPE` takes 30 to make a class
    for each new signature.
    """
    function = _FUNCTION(address)
    function.restype, function.argtypes = result, arguments
    return function


class _System(NamedTuple):
    """Functions of the C library."""

    dlsym: Any
    mmap: Any
    mprotect: Any
    munmap: Any


@cache
def _system() -> _System:
    word, number, address = ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p

    def named(name: str, result: Any, *arguments: Any) -> Any:
        function = ctypes.pythonapi[name]  # unlike an attribute, this object's own
        function.restype, function.argtypes = result, arguments
        return function

    return _System(
        named("dlsym", address, address, ctypes.c_char_p),
        named("mmap", word, address, word, number, number, number, ctypes.c_long),
        named("mprotect", number, word, word, number), named("munmap", number, word, word),
    )


# ---------------------------------------------------------------------- symbols
def process_address(name: str) -> int:
    """Return the address of a symbol of CPython or of the C library; CompileError where there is none."""
    return process_addresses((name,))[0]


def process_addresses(names: Sequence[str]) -> list[int]:
    """Return the addresses of symbols of CPython or of the C library.

    Raises CompileError naming those that the process lacks. The lookup of all the runtime's symbols runs no Python
    for each.
    """
    handle = ctypes.pythonapi._handle
    addresses: list[int | None] = list(map(_system().dlsym, repeat(handle), map(str.encode, names)))
    lacking = [name for name, address in zip(names, addresses) if address is None] if None in addresses else []
    if lacking:
        raise CompileError(f"this process has no symbol {', '.join(map(repr, lacking))}")
    return cast("list[int]", addresses)


def refuse_foreign(names: Iterable[str], allowed: Container[str]) -> None:
    """Raise CompileError naming the symbols that code needs and that are not `allowed`."""
    foreign = sorted(name for name in names if name not in allowed)
    if foreign:
        raise CompileError(
            f"compiled code needs symbols from outside: {', '.join(foreign)}; "
            "an operation was lowered to a library call"
        )


# ---------------------------------------------------------------------- memory
class Pages:
    """Private pages on Linux, writable until they are protected, given back when this object is dropped.

    Pages that are alive when the interpreter exits are not freed: other threads may still be running their code.
    """

    address = 0

    def __init__(self, size: int) -> None:
        self.size = -(-max(size, 1) // PAGE) * PAGE
        address: int = _system().mmap(None, self.size, READ | WRITE, _MAPPED, -1, 0)
        if address == _FAILED:
            raise CompileError(f"the system has no {self.size} bytes of memory for code")
        self.address = address

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.address and not finalizing():
            _system().munmap(self.address, self.size)

    def write(self, at: int, content: bytes) -> None:
        """Copy `content` to offset `at`."""
        if not 0 <= at <= self.size - len(content):
            raise ValueError(f"{len(content)} bytes at {at} do not fit in {self.size}")
        ctypes.memmove(self.address + at, content, len(content))

    def protect(self, end: int, access: int) -> None:
        """Restrict the pages up to offset `end` to `access`.

        Raises CompileError where the system does not allow memory to become executable.
        """
        if _system().mprotect(self.address, end, access):
            raise CompileError("the system does not allow memory that was written to become executable")
