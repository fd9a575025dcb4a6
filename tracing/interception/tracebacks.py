"""Tracebacks without frames that the user has not written."""
from __future__ import annotations

import types
from collections.abc import Callable


def hide_frames(error: BaseException, is_ours: Callable[[str], bool | None]) -> None:
    """Remove our frames, and those of libraries beside ours, from an error and from the errors in its chain.

    `is_ours` says it of a file; None: a library's. Errors that only such frames have seen leave the chain.
    """
    hidden = {id(error)}
    while True:
        _hide(error, is_ours)
        for name in ("__cause__", "__context__"):
            linked = getattr(error, name)
            while linked is not None and linked.__traceback__ is not None and not _shown(linked, is_ours):
                linked = linked.__cause__ or linked.__context__
            if linked is not getattr(error, name):
                suppressed = error.__suppress_context__
                setattr(error, name, linked)
                error.__suppress_context__ = suppressed and (name == "__context__" or linked is not None)
        following = error.__cause__ or error.__context__
        if following is None or id(following) in hidden:
            return
        error = following
        hidden.add(id(error))


def _shown(error: BaseException, is_ours: Callable[[str], bool | None]) -> list[types.TracebackType]:
    """Return the entries of a traceback that users see."""
    found: list[types.TracebackType] = []
    waiting: list[types.TracebackType] = []
    called_by_us, entry = False, error.__traceback__
    while entry is not None:
        ours = is_ours(entry.tb_frame.f_code.co_filename)
        if ours is None:
            waiting += [] if called_by_us else [entry]
        else:
            found += [] if ours else [*waiting, entry]
            waiting, called_by_us = [], ours
        entry = entry.tb_next
    return found + waiting


def _hide(error: BaseException, is_ours: Callable[[str], bool | None]) -> None:
    head: types.TracebackType | None = None
    for entry in reversed(_shown(error, is_ours)):
        line = entry.tb_lineno if entry.tb_lineno is not None else -1  # none where a signal came between lines
        head = types.TracebackType(head, entry.tb_frame, entry.tb_lasti, line)
    error.__traceback__ = head
