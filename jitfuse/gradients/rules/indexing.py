"""Gathers and scatters: the transpose of reading at indices adds there, that of writing reads."""
from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from jitfuse.errors import DerivativeError
from jitfuse.gradients.rule import RULES, Call, Parts, Rule, composite, linear, product
from jitfuse.gradients.values import Tensor, cast, choose, flipped, part, positions, zeros_like


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
    ones = x.create("full", shape=x.shape, value=1.0, dtype=str(x.dtype))
    there = x.call("gather", *indices, **at)
    others = _products_of_others(value.call("broadcast_to", shape=there.shape), x.shape, indices, **at)
    return ones.call("scatter", value, *indices, **call.attrs), there.multiply(others)


def _products_of_others(
    value: Tensor, shape: tuple[int, ...], indices: Sequence[Tensor], *, axes: tuple[int, ...], place: int
) -> Tensor:
    """Return for each value the product of the others with its index, of those before and behind it in their order.

    No value is divided by: so derivatives hold where some are 0.
    """
    cells = functools.reduce(lambda found, pair: found.multiply(shape[pair[0]]).add(pair[1]), (
        (a, i.call("remainder", shape[a])) for a, i in zip(axes, indices, strict=True)), indices[0].multiply(0))
    turn = (*range(place, place + cells.ndim), *range(place), *range(place + cells.ndim, value.ndim))
    turned = value.call("transpose", axes=turn)
    flat = turned.reshape((math.prod(cells.shape), *turned.shape[cells.ndim:]))
    cells = cells.reshape((math.prod(cells.shape),))
    order = cells.call("argsort", axis=-1)
    flat, cells = (t.call("gather", order, axes=(0,), place=0) for t in (flat, cells))
    behind = flipped(_products_before(flipped(flat, 0), flipped(cells, 0)), 0)
    others = _products_before(flat, cells).multiply(behind)
    others = others.call("gather", order.call("argsort", axis=-1), axes=(0,), place=0)
    return others.reshape(turned.shape).call("transpose", axes=tuple(sorted(range(len(turn)), key=turn.__getitem__)))


def _products_before(x: Tensor, cells: Tensor) -> Tensor:
    """Return for each row the product of those before it with the same cell, which lie together, by doubling."""
    n, reach = x.shape[0], 1
    one = x.create("full", shape=x.shape, value=1.0, dtype=str(x.dtype))

    def of_same(rows: Tensor, back: int) -> Tensor:
        """Return the rows that lie so far before each, 1 where they are of another cell."""
        same = part(cells, 0, back, n - back).equal(part(cells, 0, 0, n - back))
        return choose(same.reshape((n - back, *(1,) * (x.ndim - 1))), part(rows, 0, 0, n - back), 1)

    made = part(one, 0, 0, min(n, 1)).call("concat", of_same(x, 1), axis=0) if n > 1 else one
    while reach < n:
        longer = part(made, 0, reach, n - reach).multiply(of_same(made, reach))
        made = part(made, 0, 0, reach).call("concat", longer, axis=0)
        reach *= 2
    return made


RULES["scatter"] = Rule(_scatter_forward, _scatter_reverse, masks=True)
