"""Tracebacks without frames that the user has not written."""
from __future__ import annotations

import os
import types
from typing import Final

_FOLDER: Final = os.path.dirname(__file__) + os.sep


def hide_frames(error: BaseException, folders: tuple[str, ...] = (_FOLDER,)) -> None:
    """Remove the frames of files in some folders, by default this one, from a traceback; the others stay in order."""
    trace = error.__traceback__
    frames = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(folders):
            frames.append(trace)
        trace = trace.tb_next
    head: types.TracebackType | None = None
    for frame in reversed(frames):
        line = frame.tb_lineno if frame.tb_lineno is not None else -1  # none where a signal came between lines
        head = types.TracebackType(head, frame.tb_frame, frame.tb_lasti, line)
    error.__traceback__ = head
