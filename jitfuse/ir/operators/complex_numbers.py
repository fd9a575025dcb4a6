"""Complex numbers: operators that split them into parts and make them from parts."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitfuse.ir.operators.op import ELEMENTWISE, LIBRARY, Op, add, get
from jitfuse.ir.rules import dtype_rules, meta_rules
from jitfuse.ir.schema import Meta
from jitfuse.ir.semantics import reference


def _angle(x: Any) -> Any:
    """Return the angle of the point (imaginary part, real part)."""
    (dtype,) = dtype_rules.loop_angle("angle", [Meta(x.shape, x.dtype, weak=x.weak)]).inputs
    x = x if x.dtype == dtype and not x.weak else x.astype(dtype=dtype)
    return x.call("imag").atan2(x.call("real"))


def _row(
    name: str, arity: int, loop: dtype_rules.LoopRule, numpy: Callable[..., Any], doc: str, decompose: Any = None,
    cost: int | None = None,
) -> None:
    def infer(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        return meta_rules.elementwise_meta(name, loop, metas)

    add(Op(name, arity, ELEMENTWISE, {}, infer, numpy, loop, decompose, doc=doc, cost=cost))


_row("real", 1, dtype_rules.loop_attribute, reference.real, "The real part; a real number itself.", cost=0)
_row("imag", 1, dtype_rules.loop_attribute, reference.imag, "The imaginary part; 0 for a real number.", cost=0)
_row("conj", 1, dtype_rules.strong(dtype_rules.loop_arithmetic), np.conjugate, "The complex conjugate.")
_row("angle", 1, dtype_rules.loop_angle, reference.angle, "The angle in radians, from -pi to pi.",
     decompose=_angle)
_row("make_complex", 2, dtype_rules.loop_join, reference.make_complex,
     "The complex number of a real and an imaginary part.",
     cost=0)


def _by_library(name: str) -> None:
    row = get(name)
    assert row is not None
    doc = f"{name} of complex numbers, which no kernel computes."
    add(Op(f"complex_{name}", 1, LIBRARY, row.attrs, row.infer, row.numpy, doc=doc))


for _name in ("prod", "cumprod", "cummin", "cummax", "argmin", "argmax"):
    _by_library(_name)
