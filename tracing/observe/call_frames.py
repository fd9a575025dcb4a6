"""Which frames Python code has called itself, without C in between: what C holds meanwhile is nowhere to be seen.

Frames do not show it, but the interpreter notes it in each of them. Known of CPython 3.11 alone, where calls of Python
functions by Python code enter no new interpreter loop; elsewhere no call is taken for one without C in between.
"""
from __future__ import annotations

import ctypes
import sys
import types
from functools import cache
from typing import Final

_FRAME: Final = 24
"""Where an object of class frame leads to the interpreter's own frame, in bytes."""
_IS_ENTRY: Final = 68
"""Where that says whether C has entered the interpreter with it."""


def called_directly(frame: types.FrameType) -> bool:
    """Return whether the code of the frame behind a running one has called it itself, as far as that is known."""
    return _is_known() and not _entered(frame)


def _entered(frame: types.FrameType) -> bool:
    inner = ctypes.c_void_p.from_address(id(frame) + _FRAME).value
    assert inner is not None
    return ctypes.c_bool.from_address(inner + _IS_ENTRY).value


@cache
def _is_known() -> bool:
    """Return whether frames are as expected, of which three are looked at."""
    expected = sys.implementation.name == "cpython" and sys.version_info[:2] == (3, 11)
    if not expected or hasattr(sys, "gettotalrefcount") or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    return not _own() and list(map(_of_c, [0])) == [True] and [_own() for _ in range(1)] == [False]


def _own() -> bool:
    return _entered(sys._getframe())


def _of_c(_: int) -> bool:
    return _entered(sys._getframe())
