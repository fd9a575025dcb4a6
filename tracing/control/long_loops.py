"""Loops of Python with many iterations, made loops of the program: a trace of some iterations stands for all.

Each operator that is recorded takes microseconds, and so does each that is copied. Where a run has recorded many, it
ends, and the function is traced again from its source with the outermost loop that is going on as one of the program
(`jitfuse.tracing.control.loop_capture`), if its body may be one's. Only loops that compute with few elements at a time
are: rows are stored better by iterations that know where. Owns which loop that is. Does not own how many operators are
many.
"""
from __future__ import annotations

import sys
import types
from typing import Final

from jitfuse.tracing.control.loop_ranges import site_of_long
from jitfuse.tracing.observe.loop_counters import is_of_traced_function
from jitfuse.tracing.record.graph import OpNode
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.record.source import is_user_code
from jitfuse.tracing.rewrite import branches

_SMALL: Final = 64
"""Elements that operators of such loops make at most."""


def become_loops(run: Recorder, code: types.CodeType, line: int, first: int) -> None:
    """End the run to have a loop of a frame's code, and those in it, be loops of the program.

    Returns where they cannot be, or had better not. `first` is the first op of the loop.
    """
    assert run.breaker is not None
    if run.breaker.decides(site_of_long(code.co_filename, line)):
        return
    if all(_is_small(run, op) for op in run.graph.ops[first:]) and branches.want_long(code, line):
        run.breaker.decide(())


def find_long_loops(run: Recorder) -> None:
    """End the run to have the outermost loop that is going on be one of the program; return where there is none."""
    if run.breaker is None or run.replays or run.loops or run.session.torch:
        return
    first = len(run.graph.ops) // 2  # the loops are judged by the last half: where they began, nobody knows
    for frame in _frames():
        for line in branches.loops_around(frame.f_code, frame.f_lineno):
            become_loops(run, frame.f_code, line, first)


def _frames() -> list[types.FrameType]:
    """Return the frames of user code from that of the traced function on."""
    found: list[types.FrameType] = []
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_user_code(frame.f_code.co_filename):
            found.append(frame)
            if is_of_traced_function(frame):
                return found[::-1]
        frame = frame.f_back
    return []


def _is_small(run: Recorder, op: OpNode) -> bool:
    """Return whether an op makes few elements, or writes a single one."""
    metas = run.graph.metas
    if op.op_name == "update_slice":
        return metas[op.input_ids[1]].size == 1
    return all(metas[t].size <= _SMALL for t in op.result_ids)
