"""Reductions. Of equal largest elements each takes the same share, as in JAX and in torch's `amax`."""
from __future__ import annotations

import math
from typing import Any

from jitfuse.gradients.rule import RULES, Call, Parts, Rule, composite, constant, linear, product
from jitfuse.gradients.values import Tensor, cast, choose, conjugate, expanded, part


def _extents(call: Call) -> int:
    return int(call.x.size // call.y.size) if call.y.size else 1


@linear("sum")
def _(call: Call, ct: Tensor) -> Tensor:
    return expanded(ct, call.attrs["axis"], call.x)


@linear("mean")
def _(call: Call, ct: Tensor) -> Tensor:
    return expanded(ct.multiply(_over(call, 1, _extents(call))), call.attrs["axis"], call.x)


def _over(call: Call, factor: float, count: float) -> Tensor:
    """Return a factor over a number of elements, which by itself may be too large for float16."""
    return call.x.extent(value=factor / count if count else math.inf, dtype="float64")


def _var_forward(call: Call, tangents: Parts) -> Parts:
    d = conjugate(_var_slope(call))  # the product's real part is that of the inner product
    return [d.multiply(tangents[0]).call("sum", **_axis(call))]


def _var_reverse(call: Call, cotangents: Parts) -> Parts:
    return [product(expanded(cotangents[0], call.attrs["axis"], call.x), _var_slope(call), call.masked)]


def _var_slope(call: Call) -> Tensor:
    """Return 2 * (x - mean) / divisor, which is also the derivative where the mean moves: the distances sum to 0."""
    mean = call.x.call("mean", axis=call.attrs["axis"], keepdims=True)
    return call.x.subtract(mean).multiply(_over(call, 2, max(_extents(call) - call.attrs["correction"], 0.0)))


def _axis(call: Call) -> dict[str, Any]:
    return {"axis": call.attrs["axis"], "keepdims": call.attrs["keepdims"]}


RULES["var"] = Rule(_var_forward, _var_reverse)


def _is_extreme(call: Call) -> Tensor:
    """Return where elements are the largest; NaN is, where there is one."""
    return call.x.equal(expanded(call.y, call.attrs["axis"], call.x)).call("logical_or", call.x.call("isnan"))


def _shared(call: Call, change: Tensor) -> Tensor:
    """Return a change over the number of equal largest elements: an integer, because float16 ends at 65,504."""
    return cast(change.divide(_is_extreme(call).call("sum", **_axis(call))), str(call.y.dtype))


def _extreme_forward(call: Call, tangents: Parts) -> Parts:
    return [_shared(call, choose(_is_extreme(call), tangents[0], 0).call("sum", **_axis(call)))]


def _extreme_reverse(call: Call, cotangents: Parts) -> Parts:
    share = expanded(_shared(call, cotangents[0]), call.attrs["axis"], call.x)
    return [choose(_is_extreme(call), share, 0)]


for _name in ("min", "max"):
    RULES[_name] = Rule(_extreme_forward, _extreme_reverse, masks=True)


def _power_shares(call: Call) -> Tensor:
    """Return the derivative of logsumexp: what each element contributes; 0 where all are -inf."""
    y = choose(call.y.call("isneginf"), 0, call.y)
    return call.x.subtract(expanded(y, call.attrs["axis"], call.x)).exp()


RULES["logsumexp"] = Rule(
    lambda call, ts: [_power_shares(call).multiply(ts[0]).call("sum", **_axis(call))],
    lambda call, cts: [product(expanded(cts[0], call.attrs["axis"], call.x), _power_shares(call), call.masked)])


def product_of(x: Tensor, *, axis: Any, keepdims: bool) -> Tensor:
    """Return the product as that of halves, whose derivatives hold where elements are 0 too."""
    axes = range(x.ndim) if axis is None else [a % x.ndim for a in (axis if isinstance(axis, tuple) else (axis,))]
    shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    for a in axes:
        while x.shape[a] > 1:
            half, odd = divmod(x.shape[a], 2)
            made = part(x, a, 0, half).multiply(part(x, a, half, half))
            x = made if not odd else made.call("concat", part(x, a, 2 * half, 1), axis=a)
    if 0 in x.shape:
        return x.call("sum", axis=axis, keepdims=keepdims).exp()
    return x.reshape(shape if keepdims else tuple(n for a, n in enumerate(x.shape) if a not in axes))


composite("prod", through=product_of)
constant("any", "all", "argmin", "argmax", "nanargmin", "nanargmax", "count_nonzero")
composite("std", "ptp", "nansum", "nanprod", "nanmin", "nanmax", "nanmean", "nanvar", "nanstd")
