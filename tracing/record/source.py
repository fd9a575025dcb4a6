"""The user's line that is running: that of the innermost frame outside libraries.

Owns the search for it. Does not own its use: op nodes carry it, errors show it.
"""
from __future__ import annotations

import os
import sys
import types
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import numpy as np

from jitfuse.tracing.interception.assembler import number
from jitfuse.tracing.interception.folders import PACKAGES, STANDARD
from jitfuse.tracing.interception.tracebacks import hide_frames

_HERE: Final = os.path.dirname(os.path.abspath(sys.modules["jitfuse"].__file__ or "")) + os.sep
_OWN: Final = tuple(
    {_HERE} | {os.path.realpath(_HERE + part) + os.sep for part in ("tracing", "backends", "cache")}
)
_LIBRARIES: Final = tuple(
    {os.path.dirname(np.__file__) + os.sep}
    | {p + os.sep for p in (STANDARD[0], *PACKAGES)}
)
_APPLICATIONS: Final = tuple(os.path.join(_HERE, "cli", name) for name in ("demo.py", "doctor.py"))
"""Code of ours that uses jitfuse as users do."""
_RAISE: Final = number("RAISE_VARARGS")
_FILES: Final = 4096
_SEARCHES: Final = 16
"""Searches for lines that take as long as reading a function's whole line table."""
_is_library: dict[str, bool] = {}
"""Whether files are library files; cleared at `_FILES`, because notebooks and generated code have endless names."""


def _classify(filename: str) -> bool:
    found = filename.startswith((*_OWN, *_LIBRARIES, "<frozen")) and filename not in _APPLICATIONS
    if len(_is_library) >= _FILES:
        _is_library.clear()
    _is_library[filename] = found
    return found


def is_user_code(filename: str) -> bool:
    """Tell whether a file is neither jitfuse's, NumPy's nor installed."""
    known = _is_library.get(filename)
    return not (_classify(filename) if known is None else known)


def is_own_code(filename: str) -> bool:
    """Tell whether a file is jitfuse's."""
    return filename.startswith(_OWN)


def hide_own_frames(error: BaseException) -> None:
    """Remove jitfuse's frames, and those of libraries beside them, from the tracebacks of an error."""
    hide_frames(error, lambda name: False if is_user_code(name) else is_own_code(name) or None)


def line_of(error: BaseException) -> str | None:
    """Return ``file:line`` of the innermost user frame that an error passed, or None."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        if is_user_code(trace.tb_frame.f_code.co_filename):
            found = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def was_caught(errors: Iterable[BaseException]) -> BaseException | None:
    """Return the first of these errors that has passed a frame of user code, or None."""
    return next((error for error in errors if line_of(error) is not None), None)


def raised_by_user(error: BaseException) -> bool:
    """Tell whether a `raise` or `assert` of user code has raised an error, not a library or Python itself."""
    trace = error.__traceback__
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return is_user_code(code.co_filename) and code.co_code[trace.tb_lasti] == _RAISE


@lru_cache(maxsize=1024)
def _line(name: str, number: int) -> str:
    return f"{name}:{number}"


class UserLines:
    """The user's lines of one run, by code and instruction.

    For each line, Python searches the function's line table from its beginning. After `_SEARCHES` lines, the table is
    read once.
    """

    __slots__ = ("_met",)

    def __init__(self) -> None:
        self._met: dict[int, _KnownLines] = {}
        """By the id of the code, which `_KnownLines` keeps alive."""

    def at_work(self, depth: int) -> str:
        """Return `user_line`; the search begins `depth` frames above this one."""
        frame: types.FrameType | None = sys._getframe(depth)
        known = self._met.get
        while frame is not None:
            code = frame.f_code
            met = known(id(code))
            if met is None:
                met = self._met[id(code)] = _KnownLines(code)
            if met.is_users:
                found = met.lines.get(frame.f_lasti)
                return met.line(frame) if found is None else found
            frame = frame.f_back
        return "<unknown>:0"

    def clear(self) -> None:
        """Forget everything."""
        self._met.clear()


class _KnownLines:
    """The lines of one code object: those found, by instruction, and the first instruction of each line."""

    __slots__ = ("_numbers", "_starts", "code", "is_users", "lines")

    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        self.is_users = is_user_code(code.co_filename)
        self.lines: dict[int, str] = {}
        self._starts: list[int] = []
        self._numbers: list[int | None] = []

    def line(self, frame: types.FrameType) -> str:
        """Find the line of a frame of the code."""
        at = frame.f_lasti
        if len(self.lines) < _SEARCHES:
            number: int | None = frame.f_lineno
        else:
            if not self._starts:
                lines = list(self.code.co_lines())
                self._starts = [start for start, _, _ in lines]
                self._numbers = [number for _, _, number in lines]
            number = self._numbers[bisect_right(self._starts, at) - 1]
        found = self.lines[at] = f"{self.code.co_filename}:{number}"
        return found


def user_line() -> str:
    """Return ``file:line`` of the innermost frame outside jitfuse, NumPy and installed libraries."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        known = _is_library.get(name)
        if not (_classify(name) if known is None else known):
            return _line(name, frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return "<unknown>:0"
