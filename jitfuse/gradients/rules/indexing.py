"""Gathers and scatters: the transpose of reading at indices adds there, that of writing reads."""
from __future__ import annotations

import math

from jitfuse.gradients.rule import (
    RULES,
    Call,
    Parts,
    Rule,
    Tensor,
    cast,
    choose,
    composite,
    linear,
    positions,
    zeros_like,
)


@linear("gather")
def _(call: Call, ct: Tensor) -> Tensor:
    return zeros_like(call.x).call("scatter", cast(ct, str(call.x.dtype)), *call.xs[1:], **call.attrs, combine="add")


@linear("take_along_axis")
def _(call: Call, ct: Tensor) -> Tensor:
    x, index = call.xs
    axis = call.attrs["axis"] % x.ndim
    at = [index if a == axis else positions(_broadcast_source(x, index, a), a) for a in range(x.ndim)]
    values = cast(ct, str(x.dtype))
    return zeros_like(x).call("scatter", values, *at, axes=tuple(range(x.ndim)), place=0, combine="add")


def _broadcast_source(x: Tensor, index: Tensor, axis: int) -> Tensor:
    """Return the operand whose positions an axis has: an operand of extent 1 is read at 0 for all of the other's."""
    return x if x.shape[axis] == 1 or index.shape[axis] in (1, x.shape[axis]) else index


composite("take")

_SIGNS = {"add": 1, "subtract": -1}


def _scatter_forward(call: Call, tangents: Parts) -> Parts:
    x, value, *indices = call.xs
    tx = zeros_like(x) if tangents[0] is None else tangents[0]
    if call.attrs["combine"] in _SIGNS:
        return [tx if tangents[1] is None else tx.call("scatter", tangents[1], *indices, **call.attrs)]
    _require_set(call)
    return [tx.call("scatter", zeros_like(value) if tangents[1] is None else tangents[1], *indices, **call.attrs)]


def _scatter_reverse(call: Call, cotangents: Parts) -> Parts:
    (ct,), (_, _, *indices) = cotangents, call.xs
    at = {"axes": call.attrs["axes"], "place": call.attrs["place"]}
    others = [None] * len(indices)
    if call.attrs["combine"] in _SIGNS:
        found = ct.call("gather", *indices, **at)
        return [ct, found if call.attrs["combine"] == "add" else found.negative(), *others]
    _require_set(call)
    kept = ct.call("scatter", ct.create("zeros", shape=(), dtype=str(ct.dtype)), *indices, **call.attrs)
    found = ct.call("gather", *indices, **at) if call.wanted[1] else None
    return [kept, None if found is None else choose(_last_at_each(call, found), found, 0), *others]


def _last_at_each(call: Call, found: Tensor) -> Tensor:
    """Return which values have stayed: of equal indices the last one's."""
    x, _, *indices = call.xs
    at = {"axes": call.attrs["axes"], "place": call.attrs["place"]}
    order = found.create("arange", start=0, step=1, count=math.prod(found.shape), dtype="int64").reshape(found.shape)
    empty = x.create("zeros", shape=x.shape, dtype="int64")
    return empty.call("scatter", order, *indices, **at, combine="set").call("gather", *indices, **at).equal(order)


def _require_set(call: Call) -> None:
    from jitfuse.errors import DerivativeError

    if call.attrs["combine"] != "set":
        raise DerivativeError(f"scatter by {call.attrs['combine']} has no derivative here; add and set have")


RULES["scatter"] = Rule(_scatter_forward, _scatter_reverse, masks=True)
