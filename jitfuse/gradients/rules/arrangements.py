"""Rearrangements: differentiated as the views, joins and masks that they are made of, but for the diagonal."""
from __future__ import annotations

from jitfuse.gradients.rule import RULES, Call, Parts, Rule, composite
from jitfuse.gradients.values import cast, zeros_like

composite("roll", "stack", "tile", "repeat", "pad", "tril", "triu", "diag")


def _diagonal_reverse(call: Call, cotangents: Parts) -> Parts:
    """Write the cotangent into every (columns + 1)-th element of a matrix of zeros."""
    (ct,), x, offset = cotangents, call.x, call.attrs["offset"]
    rows, columns = x.shape[-2:]
    flat = zeros_like(x).reshape((*x.shape[:-2], rows * columns))
    start = offset if offset >= 0 else -offset * columns
    count = ct.shape[-1]
    lead = x.ndim - 2
    made = flat.call("update_slice", cast(ct, str(x.dtype)), starts=(*(0,) * lead, start if count else 0),
                     steps=(*(1,) * lead, columns + 1), counts=(*x.shape[:-2], count))
    return [made.reshape(x.shape)]


def _diagonal_forward(call: Call, tangents: Parts) -> Parts:
    return [tangents[0].call("diagonal", **call.attrs)]


RULES["diagonal"] = Rule(_diagonal_forward, _diagonal_reverse)
