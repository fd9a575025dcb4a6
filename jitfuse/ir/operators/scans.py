"""Scans: sums, products and extremes of all elements up to each one, along an axis."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitfuse.ir.operators.op import REQUIRED, SCAN, Op, add
from jitfuse.ir.rules import meta_rules, shape_rules
from jitfuse.ir.schema import Meta
from jitfuse.ir.semantics import reduction_reference, reference


def _scan(name: str, dtype_rule: Callable[[str, Meta], str], doc: str) -> None:
    def infer(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        (m,) = metas
        shape_rules.normalize_axis(name, attrs["axis"], m.ndim)
        return Meta(m.shape, dtype_rule(name, m), m.device)

    numpy = reference.rounded_once(getattr(reduction_reference, name))
    add(Op(name, 1, SCAN, {"axis": REQUIRED}, infer, numpy, doc=doc))


_scan("cumsum", meta_rules.sum_dtype, "The sum of all elements up to each one, added from left to right.")
_scan("cumprod", meta_rules.sum_dtype, "The product of all elements up to each one, from left to right.")
_scan("cummax", meta_rules.same_dtype, "The largest of all elements up to each one; NaN from the first one on.")
_scan("cummin", meta_rules.same_dtype, "The smallest of all elements up to each one; NaN from the first one on.")
