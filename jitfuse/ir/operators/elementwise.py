"""Elementwise operators: one row for each function of single elements."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitfuse.ir import decompositions, reference, rules
from jitfuse.ir.op import ELEMENTWISE, REQUIRED, Op, add
from jitfuse.ir.program import Meta


def _elementwise(name: str, arity: int, loop: rules.LoopRule, *, decompose: Any = None, doc: str = "") -> None:
    def infer(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        return rules.elementwise_meta(name, loop, metas)

    add(Op(name, arity, ELEMENTWISE, {}, infer, reference.ufunc(name), loop, decompose, doc=doc))


for _name, _loop in {
    "negative": rules.loop_numeric, "positive": rules.loop_numeric, "abs": rules.loop_same,
    "square": rules.strong(rules.loop_numeric), "sign": rules.strong(rules.loop_numeric),
    "sqrt": rules.loop_float, "exp": rules.loop_float, "log": rules.loop_float, "sin": rules.loop_float,
    "cos": rules.loop_float, "tanh": rules.loop_float, "erf": rules.loop_float,
    "expm1": rules.loop_float, "log1p": rules.loop_float,
    "floor": rules.loop_rounding, "ceil": rules.loop_rounding, "trunc": rules.loop_rounding,
    "copy": rules.loop_rounding,
    "isnan": rules.loop_predicate, "isinf": rules.loop_predicate, "isfinite": rules.loop_predicate,
    "logical_not": rules.loop_logical, "bitwise_invert": rules.loop_bitwise,
}.items():
    _elementwise(_name, 1, _loop)

for _name, _loop in {
    "add": rules.loop_same, "subtract": rules.loop_numeric, "multiply": rules.loop_same,
    "divide": rules.loop_divide, "floor_divide": rules.loop_numeric, "remainder": rules.loop_numeric,
    "power": rules.loop_numeric,
    "minimum": rules.strong(rules.loop_same), "maximum": rules.strong(rules.loop_same),
    "equal": rules.loop_compare, "not_equal": rules.loop_compare, "less": rules.loop_compare,
    "less_equal": rules.loop_compare, "greater": rules.loop_compare, "greater_equal": rules.loop_compare,
    "logical_and": rules.loop_logical, "logical_or": rules.loop_logical, "logical_xor": rules.loop_logical,
    "bitwise_and": rules.loop_bitwise, "bitwise_or": rules.loop_bitwise, "bitwise_xor": rules.loop_bitwise,
    "bitwise_left_shift": rules.loop_shift, "bitwise_right_shift": rules.loop_shift,
}.items():
    _elementwise(_name, 2, _loop)

_elementwise("where", 3, rules.loop_where, doc="The second operand where the first is true, else the third.")
_elementwise("clip", 3, rules.strong(rules.loop_same), decompose=decompositions.clip,
             doc="minimum(maximum(x, low), high) in the common dtype of all three.")


def _infer_astype(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    dtype = rules.check_dtype("astype", attrs["dtype"])
    return Meta(metas[0].shape, dtype, metas[0].device)


add(Op("astype", 1, ELEMENTWISE, {"dtype": REQUIRED}, _infer_astype, reference.astype,
        doc="Cast; float to int truncates, out of range as on x86-64."))
