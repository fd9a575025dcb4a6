"""The choice of linker and loader: this project's on Linux on x86-64, LLVM's elsewhere.

This project's loader loads cached images without LLVM, so a process that finds everything in its cache never starts it.
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
    """Return object code in the form that `load` loads fastest: its image where the system supports it, else unchanged.

    Raises the errors of `load` for an object that becomes an image.
    """
    if not OWN_LOADER:
        return object_code
    from jitfuse.backends.llvm.load import linker  # a warm start does not need it

    return linker.link(object_code, allowed=allowed)


def load(code: bytes, *, allowed: Container[str] = ()) -> Library:
    """Load object code, or the result of `link`; its memory is freed when the returned library is dropped.

    Undefined symbols are taken from CPython and the C library, and must be in `allowed`; for an image, `link` has
    checked that. Raises CompileError naming the others and those that the process lacks, and for code that is damaged
    or made for another machine.
    """
    if OWN_LOADER:
        return image.load(code if image.is_image(code) else link(code, allowed=allowed))
    from jitfuse.backends.llvm import jit

    return jit.load(code, allowed=allowed)
