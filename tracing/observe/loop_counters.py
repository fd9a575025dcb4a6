"""Counters of loops with graph breaks, as run-time values.

A counter (`jitfuse.tracing.interception.counters`) is an int until traced values are read between two of its steps, in
a loop whose state repeats but for its counters (`Recorder.repeats`). It then becomes a traced Python int that is live
across breaks, so that the loop comes back to the same Python state. A ``for`` over a range counts in the same way.
Bounds keep counters within 64 bits. Owns also whether user code is in a loop. Does not own the comparison of states
(`jitfuse.tracing.observe.python_state`).
"""
from __future__ import annotations

import contextlib
import dis
import sys
import types
import weakref
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from jitfuse.tracing.interception import reader
from jitfuse.tracing.record.known_values import UnknownValueError, known_value
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.record.source import is_user_code
from jitfuse.tracing.record.value_reads import may_break
from jitfuse.tracing.tensor.traced import TracedTensor, fresh

_LIMIT: Final = 1 << 40
"""Bound of ranges, and of ints that become run-time values."""
_RANGE: Final = -(1 << 53), 1 << 53
"""The range of a counter with steps of at most 2**16, after years of counting."""


def is_of_traced_function(frame: types.FrameType) -> bool:
    """Return whether a frame is the traced function's, not that of a helper."""
    return frame.f_back is not None and frame.f_back.f_code is reader.TracingEnvironment.run.__code__


def is_in_loop() -> bool:
    """Return whether running user code, of the traced function or its helpers, is inside a loop statement."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_user_code(frame.f_code.co_filename):
            if any(first <= frame.f_lasti <= last for first, last in _loops(frame.f_code)):
                return True
            if is_of_traced_function(frame):
                return False
        frame = frame.f_back
    return False


@lru_cache(maxsize=256)
def _loops(code: types.CodeType) -> tuple[tuple[int, int], ...]:
    """Return the first and the last instruction of each loop."""
    jumps = (i for i in dis.get_instructions(code) if i.opcode in dis.hasjrel or i.opcode in dis.hasjabs)
    return tuple((i.argval, i.offset) for i in jumps if i.argval < i.offset)


def counted(run: Recorder, value: Any, name: str, by: int, frame: types.FrameType) -> Any:
    """Record that a frame's counter was set (`by` 0) or incremented by `by`; return its value from now on."""
    key = frame.f_code, name
    before, run.counted[key] = run.counted.get(key, run.value_reads), run.value_reads
    return stepped(run, value, by, before != run.value_reads, not is_of_traced_function(frame)) if by else value


def counted_of(run: Recorder, owner: Any, value: Any, name: str, by: int) -> Any:
    """Record that an attribute of an object made in the trace was incremented by `by`; return its value from now on.

    Any code may use it, like a counter of a helper.
    """
    key = id(owner), name
    before, run.counted[key] = run.counted.get(key, run.value_reads), run.value_reads
    return stepped(run, value, by, before != run.value_reads, True)


def stepped(run: Recorder, value: Any, by: int, has_read: bool, in_helper: bool) -> Any:
    """Return a counter's value after a step; `has_read`: traced values were read before the step.

    Without a read, a known counter stays an int, so that its computation does not grow with each step. A helper's
    counter is a Python number computed from data, because it may be returned to code that does more than count.
    """
    if type(value) is TracedTensor:
        if not _is_counter(run, value._id()):
            return value  # an item of another iterable
        if not has_read:
            with contextlib.suppress(UnknownValueError):
                return known_value(run.session, value._id())
        run.session.counters.add(value._id())
        if in_helper:
            run.session.ranges[value._id()] = _RANGE
    elif has_read and run.repeats and type(value) is int and abs(value) < _LIMIT and may_break(run):
        tensor = run.emit("add", (run.literal(value - by), run.literal(by)))
        if in_helper:
            tensor = run.emit("python_number", (run.emit("astype", (tensor,), {"dtype": "int64"}),))
            run.session.ranges[tensor] = _RANGE
        run.session.counters.add(tensor)
        return fresh(run, tensor)
    return value


def _is_counter(run: Recorder, tensor: int) -> bool:
    """Return whether a tensor is a counter, or has just been counted from one."""
    node, counters = run.graph.node(tensor), run.session.counters
    return tensor in counters or (node is not None and not counters.isdisjoint(node.input_ids))


class CountedRange:
    """The iterator of a ``for`` over a range; its position becomes a run-time value like any counter."""

    __slots__ = ("__weakref__", "_in_helper", "_next", "_run", "_value_reads", "range")

    def __init__(self, run: Recorder, values: range, in_helper: bool) -> None:
        self._run, self.range, self._in_helper = run, values, in_helper
        self._next: Any = values.start
        self._value_reads = run.value_reads
        run.ranges.append(weakref.ref(self))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        run, step = self._run, self.range.step
        now = self._next = stepped(run, self._next, step, self._value_reads != run.value_reads, self._in_helper)
        self._value_reads = run.value_reads
        if not (now < self.range.stop if step > 0 else now > self.range.stop):
            raise StopIteration
        self._next = now + step
        if type(self._next) is TracedTensor:
            run.session.counters.add(self._next._id())
        return now

    @property
    def state(self) -> Any:
        """The value that determines the next iterations."""
        return self._next


def iterated(run: Recorder, value: Any, name: str, frame: types.FrameType) -> Any:
    """Return the iterable of a ``for`` whose variable is a counter: a `CountedRange` for a range of small bounds."""
    if type(value) is not range or run.breaker is None:
        return value
    run.counted[frame.f_code, name] = run.value_reads
    small = max(abs(value.start), abs(value.stop), abs(value.step)) < _LIMIT
    return CountedRange(run, value, not is_of_traced_function(frame)) if small else value


def running(run: Recorder) -> list[CountedRange]:
    """Return the ranges of running loops, the outermost first."""
    found = [r for ref in run.ranges if (r := ref()) is not None]
    run.ranges[:] = [ref for ref in run.ranges if ref() is not None]
    return found


NEXT: Final = CountedRange.__next__.__code__


