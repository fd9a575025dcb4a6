"""State in a trace: arrays that the program reads wherever they are, and writes in training alone.

A write is selected by the mode: evaluation keeps the array as it is, so that what computes the new values is pruned
there. Outside of a trace the array is written at once.
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from jitfuse.errors import ShapeError
from jitfuse.ir.formats.phases import UPDATE, in_phase
from jitfuse.tracing.control.combinators import strong
from jitfuse.tracing.interception.chain import Chain
from jitfuse.tracing.record.mode import ModeFlag, is_training, runs_plain
from jitfuse.tracing.record.recorder import Recorder, active
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor, fresh, tensor_id


def read(run: Recorder | None, owner: Any, label: str) -> Any:
    """Return what a trace sees of an array or another object that outlives the call; outside of a trace, itself."""
    return owner if run is None else run.environment.read(Chain.object(owner, label), owner)


def read_attribute(run: Recorder | None, owner: Any, name: str, label: str) -> Any:
    """Return what a trace sees of an attribute, a number as one that each call reads; outside, the value."""
    value = getattr(owner, name)
    if run is None:
        return value
    chain = Chain.object(owner, label).attr(name)
    if type(value) is tuple:
        return tuple(run.environment.read(chain.index(k), part) for k, part in enumerate(value))
    return run.environment.read(chain, value)


@contextlib.contextmanager
def updating(run: Recorder | None) -> Iterator[None]:
    """Mark what is recorded as an update of state, at the user's line that is running."""
    if run is None:
        yield
        return
    before, run.fixed_source = run.fixed_source, in_phase(user_line(), UPDATE)
    try:
        yield
    finally:
        run.fixed_source = before


def moves(array: Any, new: Any, condition: Any = None, mode: Any = None) -> None:
    """Give an array new elements, in training alone where a trace sees it, and where a condition holds.

    `mode`: that of a layer; None: that of the call. Raises ShapeError for another shape.
    """
    mode = is_training() if mode is None else mode
    run = active()
    if run is None or not isinstance(array, TracedTensor):
        if (condition is None or condition) and (mode or not runs_plain()):
            array[...] = new
        return
    if type(mode) is not ModeFlag and not mode:  # a call inside of another, with a mode of its own
        return
    value = strong(lift(run, new))
    if value.shape != array.shape:
        raise ShapeError(f"state of shape {array.shape} is given {value._meta}, at {user_line()}")
    if condition is not None:
        value = condition.call("where", value, array)
    fitted = run.fit(tensor_id(value), array.shape, str(array.dtype))
    constant = run.emit("stop_gradient", (fitted,))  # a loss that is computed later does not see how it was made
    by_call = type(mode) is ModeFlag
    array[...] = fresh(run, run.emit("mode_select", (constant, tensor_id(array))) if by_call else constant)
