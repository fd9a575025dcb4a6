"""Softmax and normalisations, by the formulas that reuse their results."""
from __future__ import annotations

from jitfuse.gradients.rule import RULES, Call, Parts, Rule, Tensor


def _summed(x: Tensor, call: Call) -> Tensor:
    return x.call("sum", axis=call.attrs["axis"], keepdims=True)


def _mean(x: Tensor, call: Call) -> Tensor:
    return x.call("mean", axis=call.attrs["axis"], keepdims=True)


def _softmax(call: Call, changes: Parts) -> Parts:
    (t,) = changes
    return [call.y.multiply(t.subtract(_summed(t.multiply(call.y), call)))]  # its matrix is symmetric


RULES["softmax"] = Rule(_softmax, _softmax)
RULES["log_softmax"] = Rule(
    lambda call, ts: [ts[0].subtract(_summed(ts[0].multiply(call.y.exp()), call))],
    lambda call, cts: [cts[0].subtract(_summed(cts[0], call).multiply(call.y.exp()))])


def _layer_norm(call: Call, changes: Parts) -> Parts:
    (t,) = changes
    spread = call.x.call("var", axis=call.attrs["axis"], keepdims=True, correction=0.0).add(call.attrs["eps"])
    inner = t.subtract(_mean(t, call)).subtract(call.y.multiply(_mean(t.multiply(call.y), call)))
    return [inner.multiply(spread.call("sqrt").call("reciprocal"))]


def _rms_norm(call: Call, changes: Parts) -> Parts:
    (t,) = changes
    spread = _mean(call.x.multiply(call.x), call).add(call.attrs["eps"])
    inner = t.subtract(call.y.multiply(_mean(t.multiply(call.y), call)))
    return [inner.multiply(spread.call("sqrt").call("reciprocal"))]


RULES["layer_norm"] = Rule(_layer_norm, _layer_norm)
RULES["rms_norm"] = Rule(_rms_norm, _rms_norm)
