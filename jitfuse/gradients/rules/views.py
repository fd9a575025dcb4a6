"""Views, joins and region updates: their transposes move cotangents back."""
from __future__ import annotations

import math
from typing import Any

from jitfuse.gradients.rule import Call, linear
from jitfuse.gradients.values import Tensor, choose, part, zeros_like


@linear("reshape")
def _(call: Call, ct: Tensor) -> Tensor:
    return ct.reshape(call.x.shape)


@linear("transpose")
def _(call: Call, ct: Tensor) -> Tensor:
    axes = call.attrs["axes"]
    return ct.call("transpose", axes=tuple(sorted(range(len(axes)), key=lambda k: axes[k] % len(axes))))


@linear("broadcast_to")
def _(call: Call, ct: Tensor) -> Tensor:
    return ct  # the sum over broadcast axes is taken where cotangents get their operand's shape


@linear("slice")
def _(call: Call, ct: Tensor) -> Tensor:
    return zeros_like(call.x).call("update_slice", ct, **call.attrs)


@linear("concat", of=())
def _(call: Call, ct: Tensor) -> list[Tensor]:
    axis, start, made = call.attrs["axis"], 0, []
    for x in call.xs:
        made.append(part(ct, axis, start, x.shape[axis]))
        start += x.shape[axis]
    return made


@linear("update_slice", of=(0, 1), masks=True)
def _(call: Call, ct: Tensor) -> Any:
    return ct.call("update_slice", ct.create("zeros", shape=(), dtype=str(ct.dtype)), **call.attrs), ct.call(
        "slice", **call.attrs)


@linear("update_at", of=(0, 1), masks=True)
def _(call: Call, ct: Tensor) -> Any:
    x, block, number = call.xs
    count = math.prod(x.shape[: x.ndim - block.ndim])
    blocks = ct.reshape((count, *block.shape))
    return ct.call("update_at", zeros_like(block), number), blocks.call("gather", number, axes=(0,), place=0)


@linear("windows")
def _(call: Call, ct: Tensor) -> Tensor:
    """Sum over the windows that hold an element, one axis after the other, each as a gather from the windows."""
    sizes, lead = call.attrs["sizes"], call.x.ndim - len(call.attrs["sizes"])
    for k in reversed(range(len(sizes))):
        ct = _unwound(ct, lead + k, ct.ndim - len(sizes) + k, call.x.shape[lead + k], call.attrs["steps"][k],
                      call.attrs["dilations"][k], lead + k)
        ct = ct.call("transpose", axes=_moved(ct.ndim, lead + k, ct.ndim - len(sizes) + k))
    return ct


def _unwound(ct: Tensor, inside: int, windows: int, extent: int, step: int, dilation: int, place: int) -> Tensor:
    """Return the sums for an axis: element n is in window w at place p where n = w * step + p * dilation."""
    size, count = ct.shape[inside], ct.shape[windows]
    p, n = (ct.create("arange", start=0, step=1, count=c, dtype="int64") for c in (size, extent))
    ahead = n.reshape((1, extent)).subtract(p.reshape((size, 1)).multiply(dilation))
    w = ahead.call("floor_divide", step)
    held = ahead.call("remainder", step).equal(0).call("logical_and", w.greater_equal(0)).call(
        "logical_and", w.less(count))
    w = choose(held, w, 0)
    order = (inside, windows, *(a for a in range(ct.ndim) if a not in (inside, windows)))
    found = ct.call("transpose", axes=order).call("gather", p.reshape((size, 1)), w, axes=(0, 1), place=0)
    mask = held.reshape((*held.shape, *(1,) * (found.ndim - 2)))
    summed = choose(mask, found, 0).call("sum", axis=(0,), keepdims=False)
    return summed.call("transpose", axes=_moved(summed.ndim, 0, place))


def _moved(rank: int, source: int, target: int) -> tuple[int, ...]:
    axes = [a for a in range(rank) if a != source]
    axes.insert(target, source)
    return tuple(axes)
