"""What concerns the process as a whole: its symbols, the lock across forks, memory for code.

Owns: looking up symbols of CPython and of the C library, and the rule which of them code may use; the lock for
what happens once in a process; pages that are written first and executed later. Does not own what lies in them.
"""
from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Container, Iterable
from functools import cache
from typing import Any, Final

from jitfuse.errors import CompileError

PAGE: Final = 4096
READ: Final = 1
WRITE: Final = 2
EXECUTE: Final = 4
_PRIVATE_ANONYMOUS: Final = 0x22
_FAILED: Final = 2**64 - 1

process_lock = threading.RLock()
"""Held while a part of LLVM or the runtime starts, and across a fork. Reentrant: a collection inside a locked
section may run a finalizer that forks or compiles."""

os.register_at_fork(
    before=process_lock.acquire, after_in_parent=process_lock.release, after_in_child=process_lock.release
)


# ---------------------------------------------------------------------- symbols
@cache
def _c_library() -> Any:
    """Return what the process can see, with the types of the functions that we call."""
    library = ctypes.CDLL(None, use_errno=True)
    word, address = ctypes.c_size_t, ctypes.c_void_p
    library.dlsym.argtypes, library.dlsym.restype = (address, ctypes.c_char_p), address
    library.mmap.argtypes = (address, word, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    library.mmap.restype = word
    library.mprotect.argtypes = (word, word, ctypes.c_int)
    library.munmap.argtypes = (word, word)
    return library


def process_address(name: str) -> int:
    """Return the address of a symbol of CPython or of the C library; CompileError where there is none."""
    library = _c_library()
    address: int | None = library.dlsym(library._handle, name.encode())
    if address is None:
        raise CompileError(f"this process has no symbol {name!r}")
    return address


def import_addresses(names: Iterable[str], allowed: Container[str]) -> dict[str, int]:
    """Return where the process has these symbols.

    Raises CompileError naming those that are not `allowed`, and one that the process lacks.
    """
    names = list(names)
    foreign = sorted(name for name in names if name not in allowed)
    if foreign:
        raise CompileError(
            f"compiled code needs symbols from outside: {', '.join(foreign)}; "
            "an operation was lowered to a library call"
        )
    return {name: process_address(name) for name in names}


# ---------------------------------------------------------------------- memory
class Pages:
    """Private pages on Linux, writable until `fill` protects them, given back when this object is dropped.

    What is alive when the interpreter exits stays: other threads may still be running it.
    """

    def __init__(self, size: int) -> None:
        self.size = -(-max(size, 1) // PAGE) * PAGE
        self.address: int = _c_library().mmap(None, self.size, READ | WRITE, _PRIVATE_ANONYMOUS, -1, 0)
        if self.address == _FAILED:
            raise CompileError(f"no {self.size} bytes of memory for code: {os.strerror(ctypes.get_errno())}")
        weakref.finalize(self, _c_library().munmap, self.address, self.size).atexit = False

    def fill(self, image: bytes, protections: Iterable[tuple[int, int, int]]) -> None:
        """Write `image` at the start, then protect ranges of pages: (begin, end, access), all in bytes.

        Raises CompileError where the system does not allow memory to become executable.
        """
        if len(image) > self.size:
            raise ValueError(f"{len(image)} bytes do not fit in {self.size}")
        ctypes.memmove(self.address, image, len(image))
        for begin, end, access in protections:
            if begin < end and _c_library().mprotect(self.address + begin, end - begin, access):
                raise CompileError(f"memory for code cannot be protected: {os.strerror(ctypes.get_errno())}")
