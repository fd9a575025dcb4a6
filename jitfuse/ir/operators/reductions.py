"""Reductions over axes, and the normalisations that are made of them."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitfuse.ir import decompositions, reference, rules
from jitfuse.ir.op import REDUCTION, Op, add
from jitfuse.ir.program import Meta


def _reduction(
    name: str, dtype_rule: Callable[[str, Meta], str], *, attrs: dict[str, Any] | None = None,
    identity: bool = True, decompose: Any = None,
) -> None:
    def infer(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        axes = rules.normalize_axes(name, attrs["axis"], metas[0].ndim)
        if not identity:
            rules.require_nonempty(name, metas[0], axes)
        dtype = dtype_rule(name, metas[0])
        return rules.reduction_meta(name, metas[0], dtype, axes, attrs["keepdims"])

    full = {"axis": None, "keepdims": False, **(attrs or {})}
    add(Op(name, 1, REDUCTION, full, infer, getattr(reference, name), decompose=decompose))


_reduction("sum", rules.sum_dtype)
_reduction("min", rules.same_dtype, identity=False)
_reduction("max", rules.same_dtype, identity=False)
_reduction("any", rules.bool_dtype)
_reduction("all", rules.bool_dtype)
_reduction("mean", rules.float_dtype, decompose=decompositions.mean)
_reduction("var", rules.float_dtype, attrs={"correction": 0.0}, decompose=decompositions.var)


def _infer_softmax(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    (m,) = metas
    axes = rules.normalize_axes("softmax", attrs["axis"], m.ndim)
    rules.require_nonempty("softmax", m, axes)
    return Meta(m.shape, rules.float_only("softmax", m), m.device)


add(Op("softmax", 1, REDUCTION, {"axis": -1}, _infer_softmax, reference.softmax,
        decompose=decompositions.softmax, doc="exp(x - max) / sum(exp(x - max)) over the axes."))
