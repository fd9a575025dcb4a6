"""Scans along an axis."""
from __future__ import annotations

from jitfuse.gradients.rule import Call, Parts, by_tangents, composite, linear
from jitfuse.gradients.values import Tensor, choose, flipped, part, positions


@linear("cumsum")
def _(call: Call, ct: Tensor) -> Tensor:
    axis = call.attrs["axis"]
    return flipped(flipped(ct, axis).call("cumsum", axis=axis), axis)


def products_to_each(x: Tensor, *, axis: int) -> Tensor:
    """Return the products by doubling (Hillis and Steele 1986), whose derivatives hold where elements are 0 too."""
    n, reach = x.shape[axis], 1
    while reach < n:
        longer = part(x, axis, reach, n - reach).multiply(part(x, axis, 0, n - reach))
        x = part(x, axis, 0, reach).call("concat", longer, axis=axis % x.ndim)
        reach *= 2
    return x


composite("cumprod", through=products_to_each)


@by_tangents("cummax", "cummin")
def _(call: Call, tangents: Parts) -> Parts:
    """Take the tangent at the last element that was the extreme so far, or NaN."""
    axis = call.attrs["axis"] % call.x.ndim
    extreme = call.x.equal(call.y).call("logical_or", call.x.call("isnan"))
    taken = choose(extreme, positions(call.x, axis), 0).call("cummax", axis=axis)
    return [tangents[0].call("take_along_axis", taken, axis=axis)]
