"""Slices of a fixed length between bounds that are run-time numbers: `x[t - 5 : t]`.

Such a slice is a view at consecutive indices, as `x[i]` is one at a single index. Owns which slices these are. Does not
own views (`TracedTensor.picked`).
"""
from __future__ import annotations

from typing import Any

from jitfuse.tracing.numbers import arithmetic
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.tensor.traced import TracedTensor, fresh

_MAX_TERMS = 32
_Linear = tuple[dict[int, int], int]
"""Tensors with their factors, and a constant."""


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
    first, last = _linear(run, start), _linear(run, item.stop)
    if axis >= x.ndim or type(item.start) is not TracedTensor or first is None or last is None or first[0] != last[0]:
        return None
    count = last[1] - first[1]
    if count <= 0 or not (start >= 0 and start + count <= x.shape[axis]):
        return None
    places = run.emit("arange", (), {"start": 0, "step": 1, "count": count, "dtype": "int64"})
    begin = run.emit("astype", (start._id(),), {"dtype": "int64"})
    indices = fresh(run, run.emit("add", (places, begin)), scalar=False)
    run.session.window_starts[indices._id()] = begin
    return indices


def _linear(run: Recorder, end: Any) -> _Linear | None:
    """Return an end of a slice as a sum of multiples of arguments and other numbers of the caller; None if it is not.
    """
    if type(end) is int:
        return {}, end
    if type(end) is not TracedTensor:
        return None
    left = _MAX_TERMS

    def of(tensor: int) -> _Linear | None:
        nonlocal left
        left -= 1
        node = run.graph.node(tensor)
        if node is None:
            return ({tensor: 1}, 0) if tensor in run.session.feeds else None
        if node.op_name == "full":
            value = dict(node.attrs)["value"]
            return ({}, value) if type(value) is int else None
        if node.op_name not in ("add", "subtract", "multiply", "negative") or left < 0:
            return None
        parts = [part for part in map(of, node.input_ids) if part is not None]
        if len(parts) != len(node.input_ids):
            return None
        if node.op_name == "negative":
            return _times(-1, parts[0])
        one, other = parts
        if node.op_name != "multiply":
            return _plus(one, _times(-1 if node.op_name == "subtract" else 1, other))
        if one[0] and other[0]:
            return None
        return _times(one[1], other) if not one[0] else _times(other[1], one)

    return of(end._id())


def _times(factor: int, linear: _Linear) -> _Linear:
    return {t: n * factor for t, n in linear[0].items() if n * factor}, linear[1] * factor


def _plus(a: _Linear, b: _Linear) -> _Linear:
    sums = {t: a[0].get(t, 0) + b[0].get(t, 0) for t in (*a[0], *b[0])}
    return {t: n for t, n in sums.items() if n}, a[1] + b[1]
