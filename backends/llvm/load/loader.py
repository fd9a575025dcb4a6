"""Which linker and loader a system gets: this project's on Linux on x86-64, LLVM's elsewhere.

Ours takes no LLVM to load what is stored: a process that finds everything in its cache starts none.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Container
from typing import Final, Protocol

from jitfuse.backends.llvm.load import image

OWN_LOADER: Final = sys.platform == "linux" and sys.maxsize > 2**32 and os.uname().machine == "x86_64"
"""Whether this system has this project's loader."""


class Library(Protocol):
    """Loaded code: the addresses of its global symbols, valid as long as this object lives."""

    @property
    def names(self) -> frozenset[str]:
        """The global symbols of the code."""

    def address(self, name: str) -> int:
        """Return the address of a global symbol of the code; KeyError where it has none of that name."""


def link(object_code: bytes, *, allowed: Container[str] = ()) -> bytes:
    """Return object code as `load` takes it in the least time: its image where this system has one, else as it is.

    Raises what `load` raises for the object where it becomes an image.
    """
    if not OWN_LOADER:
        return object_code
    from jitfuse.backends.llvm.load import linker  # which a warm start has no need of

    return linker.link(object_code, allowed=allowed)


def load(code: bytes, *, allowed: Container[str] = ()) -> Library:
    """Load object code, or what `link` made of it; its memory is freed when the returned library is dropped.

    Undefined symbols must be in `allowed` (those of an image were when it was linked) and are taken from CPython and
    the C library. Raises CompileError naming the others, and those the process lacks, and for code that is damaged or
    made for another machine.
    """
    if OWN_LOADER:
        return image.load(code if image.is_image(code) else link(code, allowed=allowed))
    from jitfuse.backends.llvm import jit

    return jit.load(code, allowed=allowed)
