"""Slices of a fixed length between bounds that are run-time numbers: `x[t - 5 : t]`.

Such a slice is a view at consecutive indices, as `x[i]` is one at a single index. Owns which slices these are. Does not
own views (`TracedTensor.picked`).
"""
from __future__ import annotations

from typing import Any, Final

from jitfuse.tracing.numbers import arithmetic
from jitfuse.tracing.numbers.linear import Linear
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.tensor.traced import TracedTensor, fresh

_MAX_OPERANDS: Final = 32
"""Operands of a bound of a slice; longer computations count as not linear."""


def taken(x: Any, index: Any) -> tuple[TracedTensor, tuple[Any, ...]] | None:
    """Return the view of such slices of an index, and the index of that view that is left; None if there are none.

    That the slices are within the array is decided in each call: elsewhere Python cuts them off, or counts from the
    end.
    """
    items = index if type(index) is tuple else (index,)
    if not any(_has_data(item) for item in items) or any(item is Ellipsis for item in items):
        return None
    view, rest, axis, found = x, list(items), 0, False
    for k, item in enumerate(items):
        if item is None:
            continue
        window = _window(x, axis, item) if _has_data(item) else None
        if window is not None:
            view, rest[k], found = view.picked((window,), {"axes": (axis,), "place": axis}), slice(None), True
        axis += 1
    return (view, tuple(rest)) if found else None


def _has_data(item: Any) -> bool:
    return type(item) is slice and item.step in (None, 1) and any(_is_data(end) for end in (item.start, item.stop))


def _is_data(end: Any) -> bool:
    return type(end) is TracedTensor and end.weak and end.dtype == "int64" and (
        arithmetic.is_of_data(end._run.session, end._id()))


def _window(x: TracedTensor, axis: int, item: slice) -> TracedTensor | None:
    """Return the indices of a slice of an axis, if its length is fixed and it is within the axis."""
    start: Any = item.start
    run = x._run
    first, last = _linear(run, item.start), _linear(run, item.stop)
    distance = None if first is None or last is None else last.plus(first, -1)
    if axis >= x.ndim or type(item.start) is not TracedTensor or distance is None:
        return None
    if distance.steps or distance.constant <= 0:
        return None
    count = distance.constant
    if not (start >= 0 and start + count <= x.shape[axis]):
        return None
    places = run.emit("arange", (), {"start": 0, "step": 1, "count": count, "dtype": "int64"})
    begin = run.emit("astype", (start._id(),), {"dtype": "int64"})
    indices = fresh(run, run.emit("add", (places, begin)), scalar=False)
    run.session.window_starts[indices._id()] = begin
    return indices


def _linear(run: Recorder, end: Any) -> Linear | None:
    """Return an end of a slice as a sum of multiples of arguments and other numbers of the caller; None if it is not.
    """
    if type(end) is int:
        return Linear(end)
    left = _MAX_OPERANDS

    def of(tensor: int) -> Linear | None:
        nonlocal left
        left -= 1
        node = run.graph.node(tensor)
        if node is None:
            return Linear(0, ((tensor, 1),)) if tensor in run.session.feeds else None
        if node.op_name == "full":
            value = dict(node.attrs)["value"]
            return Linear(value) if type(value) is int else None
        if node.op_name not in ("add", "subtract", "multiply", "negative") or left < 0:
            return None
        operands = [known for known in map(of, node.input_ids) if known is not None]
        if len(operands) != len(node.input_ids):
            return None
        if node.op_name == "negative":
            return Linear(0).plus(operands[0], -1)
        one, other = operands
        return one.times(other) if node.op_name == "multiply" else one.plus(other, 1 if node.op_name == "add" else -1)

    return of(end._id()) if type(end) is TracedTensor else None
