"""Complex numbers: parts, conjugates and joins are linear over the real numbers."""
from __future__ import annotations

from typing import Any

from jitfuse.dtypes import kind
from jitfuse.gradients.rule import Call, composite, constant, linear, without
from jitfuse.gradients.rules.reductions import product_of
from jitfuse.gradients.rules.scans import products_to_each
from jitfuse.gradients.values import Tensor, conjugate, zeros_like


@linear("real")
def _(call: Call, ct: Tensor) -> Tensor:
    return ct.call("make_complex", zeros_like(ct)) if kind(str(call.x.dtype)) == "complex" else ct


@linear("imag")
def _(call: Call, ct: Tensor) -> Tensor:
    return zeros_like(ct).call("make_complex", ct) if kind(str(call.x.dtype)) == "complex" else zeros_like(ct)


@linear("conj")
def _(call: Call, ct: Tensor) -> Tensor:
    return conjugate(ct)


@linear("make_complex", of=(0, 1))
def _(call: Call, ct: Tensor) -> Any:
    return ct.call("real"), ct.call("imag")


composite("angle")
composite("complex_prod", through=product_of)
composite("complex_cumprod", through=products_to_each)
constant("complex_argmin", "complex_argmax")
without("the order of complex numbers has no derivative", "complex_cummin", "complex_cummax")
