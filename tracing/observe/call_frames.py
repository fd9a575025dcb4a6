"""Which frames were called by Python code directly, without C in between: the state of C code is not visible.

Frame objects do not show it, but the interpreter's frames do. Supported for CPython 3.11 alone, where a call between
Python functions does not enter a new interpreter loop. Elsewhere all calls are assumed to go through C.
"""
from __future__ import annotations

import ctypes
import sys
import types
from functools import cache
from typing import Final

_FRAME: Final = 24
"""Offset in a frame object of the pointer to the interpreter's frame, in bytes."""
_IS_ENTRY: Final = 68
"""Offset in that of the flag that C code has entered the interpreter with it, in bytes."""


def called_directly(frame: types.FrameType) -> bool:
    """Return whether the previous frame's code has called a running frame directly; False if that is unknown."""
    return _is_known() and not _entered(frame)


def _entered(frame: types.FrameType) -> bool:
    inner = ctypes.c_void_p.from_address(id(frame) + _FRAME).value
    assert inner is not None
    return ctypes.c_bool.from_address(inner + _IS_ENTRY).value


@cache
def _is_known() -> bool:
    """Return whether frames have the expected layout; checks three of them."""
    expected = sys.implementation.name == "cpython" and sys.version_info[:2] == (3, 11)
    if not expected or hasattr(sys, "gettotalrefcount") or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    return not _own() and list(map(_of_c, [0])) == [True] and [_own() for _ in range(1)] == [False]


def _own() -> bool:
    return _entered(sys._getframe())


def _of_c(_: int) -> bool:
    return _entered(sys._getframe())
