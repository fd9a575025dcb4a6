"""Random numbers, and the choice between training and evaluation."""
from __future__ import annotations

from typing import Any

from jitfuse.gradients.rule import Call, constant, linear
from jitfuse.gradients.values import Tensor, zeros_like

constant("random_uniform", "random_advance")


@linear("dropout")
def _(call: Call, ct: Tensor) -> Tensor:
    return ct.call("dropout", *call.xs[1:], **call.attrs)  # the same state and index: the same elements


@linear("mode_select", of=(0, 1), masks=True)
def _(call: Call, ct: Tensor) -> Any:
    zero = zeros_like(ct)
    return ct.call("mode_select", zero), zero.call("mode_select", ct)
