"""Softmax and normalisations, by the formulas that reuse their results."""
from __future__ import annotations

from jitfuse.gradients.rule import RULES, Call, Parts, Rule, product
from jitfuse.gradients.values import Tensor


def _summed(x: Tensor, call: Call) -> Tensor:
    return x.call("sum", axis=call.attrs["axis"], keepdims=True)


def _mean(x: Tensor, call: Call) -> Tensor:
    return x.call("mean", axis=call.attrs["axis"], keepdims=True)


def _softmax(call: Call, changes: Parts) -> Parts:
    """Multiply by a matrix that is symmetric: it serves both modes, as those of the normalisations do."""
    (t,) = changes
    return [product(t.subtract(_summed(product(t, call.y, call.masked), call)), call.y, call.masked)]


def _log_softmax_reverse(call: Call, cotangents: Parts) -> Parts:
    (ct,) = cotangents
    return [ct.subtract(product(_summed(ct, call), call.y.exp(), call.masked))]


RULES["softmax"] = Rule(_softmax, _softmax)
RULES["log_softmax"] = Rule(
    lambda call, ts: [ts[0].subtract(_summed(ts[0].multiply(call.y.exp()), call))], _log_softmax_reverse)


def _layer_norm(call: Call, changes: Parts) -> Parts:
    (t,) = changes
    spread = call.x.call("var", axis=call.attrs["axis"], keepdims=True, correction=0.0).add(call.attrs["eps"])
    return [_scaled(call, t.subtract(_mean(t, call)).subtract(_along(call, t)), spread)]


def _rms_norm(call: Call, changes: Parts) -> Parts:
    (t,) = changes
    spread = _mean(call.x.multiply(call.x), call).add(call.attrs["eps"])
    return [_scaled(call, t.subtract(_along(call, t)), spread)]


def _along(call: Call, t: Tensor) -> Tensor:
    """Return the part of a change along the result, which the scale takes back."""
    return product(_mean(product(t, call.y, call.masked), call), call.y, call.masked)


def _scaled(call: Call, inner: Tensor, spread: Tensor) -> Tensor:
    return product(inner, spread.call("sqrt").call("reciprocal"), call.masked)


RULES["layer_norm"] = Rule(_layer_norm, _layer_norm)
RULES["rms_norm"] = Rule(_rms_norm, _rms_norm)
