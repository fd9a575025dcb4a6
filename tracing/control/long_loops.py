"""Long Python loops that are captured after all: one traced iteration then serves for all.

Recording an operator takes microseconds, and so does replicating one. Once a run has recorded many, it ends. The
function is traced again from its source, and the outermost running loop is captured
(`jitfuse.tracing.control.loop_capture`) if its body allows that. Only loops whose operators make few elements are
captured: an unrolled iteration stores rows better, because it knows their index. Owns which loop that is. Does not own
how many operators are many.
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
"""Most elements that an operator of such a loop makes."""


def become_loops(run: Recorder, code: types.CodeType, line: int, first: int) -> None:
    """End the run so that a loop of a frame's code is captured, with the loops in it.

    Returns where they cannot or should not be captured. `first` is the loop's first op.
    """
    assert run.breaker is not None
    if run.breaker.decides(site_of_long(code.co_filename, line)):
        return
    if all(_is_small(run, op) for op in run.graph.ops[first:]) and branches.want_long(code, line):
        run.breaker.decide(())


def find_long_loops(run: Recorder) -> None:
    """End the run so that the outermost running loop is captured; return where there is no such loop."""
    if run.breaker is None or run.replays or run.loops or run.session.torch:
        return
    first = len(run.graph.ops) // 2  # judge the loops by the last half, as their first ops are unknown
    for frame in _frames():
        for line in branches.loops_around(frame.f_code, frame.f_lineno):
            become_loops(run, frame.f_code, line, first)


def _frames() -> list[types.FrameType]:
    """Return the frames of user code, from the traced function inwards."""
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
