"""Gathers and scatters: the transpose of reading at indices adds there, that of writing reads."""
from __future__ import annotations

import math

from jitfuse.errors import DerivativeError
from jitfuse.gradients.rule import RULES, Call, Parts, Rule, composite, linear, product
from jitfuse.gradients.values import Tensor, cast, choose, positions, zeros_like


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
    tv = zeros_like(value) if tangents[1] is None else tangents[1]
    if call.attrs["combine"] == "set":
        return [tx.call("scatter", tv, *indices, **call.attrs)]
    by_x, by_value = _shares(call)
    at = {"axes": call.attrs["axes"], "place": call.attrs["place"]}
    return [tx.multiply(by_x).call("scatter", by_value.multiply(tv), *indices, **at, combine="add")]


def _scatter_reverse(call: Call, cotangents: Parts) -> Parts:
    (ct,), (_, _, *indices) = cotangents, call.xs
    at = {"axes": call.attrs["axes"], "place": call.attrs["place"]}
    others = [None] * len(indices)
    if call.attrs["combine"] in _SIGNS:
        found = ct.call("gather", *indices, **at)
        return [ct, found if call.attrs["combine"] == "add" else found.negative(), *others]
    if call.attrs["combine"] != "set":
        by_x, by_value = _shares(call)
        found = ct.call("gather", *indices, **at)
        return [product(ct, by_x, call.masked), product(found, by_value, call.masked), *others]
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


def _shares(call: Call) -> tuple[Tensor, Tensor]:
    """Return the derivatives of a combined element by what was there, and by each value."""
    (x, value, *indices), at = call.xs, {"axes": call.attrs["axes"], "place": call.attrs["place"]}
    if call.attrs["combine"] in ("maximum", "minimum"):  # equal ones share, as in the reductions
        kept, taken = x.equal(call.y), value.equal(call.y.call("gather", *indices, **at))
        count = cast(kept, str(x.dtype)).call("scatter", cast(taken, str(x.dtype)), *indices, **at, combine="add")
        return cast(kept, str(x.dtype)).divide(count), cast(taken, str(x.dtype)).divide(
            count.call("gather", *indices, **at))
    if call.attrs["combine"] != "multiply":
        raise DerivativeError(f"scatter by {call.attrs['combine']} has no derivative")
    zero, gone = value.equal(0), x.equal(0)
    others = choose(gone, 1, x).call("scatter", value, *indices, **call.attrs)
    counts = x.create("zeros", shape=x.shape, dtype=str(x.dtype)).call(
        "scatter", cast(zero, str(x.dtype)), *indices, **at, combine="add").call("gather", *indices, **at)
    alone = zero.call("logical_and", counts.equal(1))
    rest = x.call("scatter", choose(alone, 1, value), *indices, **call.attrs).call("gather", *indices, **at)
    whole = call.y.call("gather", *indices, **at).divide(choose(zero, 1, value))
    return others.divide(choose(gone, 1, x)), choose(alone, rest, choose(zero, 0, whole))


RULES["scatter"] = Rule(_scatter_forward, _scatter_reverse, masks=True)
