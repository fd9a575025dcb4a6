"""Which frames were called by Python code directly, without C in between: the state of C code is not visible.

Frame objects do not show it, but the interpreter's frames do, because a call between Python functions does not enter a
new interpreter loop. Owns their layout in CPython 3.11 to 3.13. Elsewhere all calls are assumed to go through C, so
that loops in helpers that read traced values are not closed.
"""
from __future__ import annotations

import ctypes
import sys
import types
from collections.abc import Iterator
from functools import cache
from typing import Final

_FRAME: Final = 24
"""Offset in a frame object of the pointer to the interpreter's frame, in bytes."""
_IS_ENTRY: Final = 68
"""Offset in that of 3.11's flag that C code has entered the interpreter with it."""
_PREVIOUS: Final = 8
"""Offset in that of the pointer to the frame below, from 3.12 on: a frame of C where C has entered the interpreter."""
_OBJECT_SIZE: Final = 16
"""Bytes of an object without contents, which has more in builds without the GIL or with lists of all objects."""


def called_directly(frame: types.FrameType) -> bool:
    """Return whether the previous frame's code has called a running frame directly; False if that is unknown."""
    return _is_known() and not _entered(frame)


def _entered(frame: types.FrameType) -> bool:
    """Return whether anything lies between a frame and the previous frame of Python code."""
    if sys.version_info < (3, 12):
        return ctypes.c_bool.from_address(_inner(frame) + _IS_ENTRY).value
    below = frame.f_back
    return below is None or ctypes.c_size_t.from_address(_inner(frame) + _PREVIOUS).value != _inner(below)


def _inner(frame: types.FrameType) -> int:
    return ctypes.c_size_t.from_address(id(frame) + _FRAME).value


@cache
def _is_known() -> bool:
    """Return whether frames have the expected layout; checks four of them."""
    expected = sys.implementation.name == "cpython" and (3, 11) <= sys.version_info[:2] <= (3, 13)
    if not expected or hasattr(sys, "gettotalrefcount") or object.__basicsize__ != _OBJECT_SIZE:
        return False
    called = [_own(), *map(_of_c, [0]), *[_own() for _ in range(1)], next(_of_generator())]
    return called == [False, True, False, True]


def _own() -> bool:
    return _entered(sys._getframe())


def _of_c(_: int) -> bool:
    return _entered(sys._getframe())


def _of_generator() -> Iterator[bool]:
    yield _entered(sys._getframe())
