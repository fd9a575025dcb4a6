"""Reductions over axes."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitfuse.errors import ArgumentError, DTypeError
from jitfuse.ir.decompositions import composites, reductions
from jitfuse.ir.operators.op import REDUCTION, Op, add
from jitfuse.ir.rules import meta_rules, shape_rules
from jitfuse.ir.schema import Meta
from jitfuse.ir.semantics import reduction_reference, reference


def _reduction(
    name: str, dtype_rule: Callable[[str, Meta], str], *, attrs: dict[str, Any] | None = None,
    identity: bool = True, decompose: Any = None, numpy: Any = None, doc: str = "",
) -> None:
    def infer(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        axes = shape_rules.normalize_axes(name, attrs["axis"], metas[0].ndim)
        if not identity:
            shape_rules.require_nonempty(name, metas[0], axes)
        dtype = dtype_rule(name, metas[0])
        return meta_rules.reduction_meta(name, metas[0], dtype, axes, attrs["keepdims"])

    full = {"axis": None, "keepdims": False, **(attrs or {})}
    function = reference.rounded_once(numpy or getattr(reference, name))
    if decompose is not None:
        decompose = composites.rounded_once(decompose)
    add(Op(name, 1, REDUCTION, full, infer, function, decompose=decompose, doc=doc))


def _composite(name: str, dtype_rule: Callable[[str, Meta], str], doc: str, **options: Any) -> None:
    numpy, decompose = getattr(reduction_reference, name), getattr(reductions, name)
    _reduction(name, dtype_rule, decompose=decompose, numpy=numpy, doc=doc, **options)


def _difference(name: str, m: Meta) -> str:
    if m.dtype == "bool":
        raise DTypeError(f"{name} subtracts, which NumPy does not do for bool; cast first with astype(int)")
    return m.dtype


def _count(name: str, m: Meta) -> str:
    return "int64"


_reduction("sum", meta_rules.sum_dtype)
_reduction("prod", meta_rules.sum_dtype, numpy=reduction_reference.prod)
_reduction("min", meta_rules.same_dtype, identity=False)
_reduction("max", meta_rules.same_dtype, identity=False)
_reduction("any", meta_rules.bool_dtype)
_reduction("all", meta_rules.bool_dtype)
_reduction("mean", meta_rules.float_dtype, decompose=composites.mean)
_reduction("var", meta_rules.spread_dtype, attrs={"correction": 0.0}, decompose=composites.var)



def _position(name: str, doc: str, decompose: Any = None) -> None:
    def infer(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        (m,) = metas
        axis = attrs["axis"]
        if isinstance(axis, tuple):
            raise ArgumentError(f"{name} takes one axis, or None for all elements, not {axis}")
        axes = tuple(range(m.ndim)) if axis is None else (shape_rules.normalize_axis(name, axis, m.ndim),)
        shape_rules.require_nonempty(name, m, axes)
        return meta_rules.reduction_meta(name, m, "int64", axes, attrs["keepdims"])

    numpy = reference.rounded_once(getattr(reduction_reference, name))
    add(Op(name, 1, REDUCTION, {"axis": None, "keepdims": False}, infer, numpy, decompose=decompose, doc=doc))


_position("argmin", "The position of the first of the smallest elements, or of the first NaN.")
_position("argmax", "The position of the first of the largest elements, or of the first NaN.")
for _name in ("nanargmin", "nanargmax"):
    _position(_name, "The position, leaving out NaN; raises where there is nothing else.",
              getattr(reductions, _name))

_CORRECTION = {"correction": 0.0}
_composite("std", meta_rules.spread_dtype, "The square root of the variance.", attrs=_CORRECTION)
_composite("count_nonzero", _count, "How many elements are not zero.")
_composite("ptp", _difference, "The largest less the smallest.", identity=False)
_composite("logsumexp", meta_rules.real_dtype, "log(sum(exp(x))) without overflow; -inf of nothing.")
_composite("nansum", meta_rules.sum_dtype, "The sum, NaN as 0.")
_composite("nanprod", meta_rules.sum_dtype, "The product, NaN as 1.")
_composite("nanmin", meta_rules.same_dtype, "The smallest number, or NaN where there is none.", identity=False)
_composite("nanmax", meta_rules.same_dtype, "The largest number, or NaN where there is none.", identity=False)
_composite("nanmean", meta_rules.float_dtype, "The mean, leaving out NaN.")
_composite("nanvar", meta_rules.spread_dtype, "The variance, leaving out NaN.", attrs=_CORRECTION)
_composite("nanstd", meta_rules.spread_dtype, "The standard deviation, leaving out NaN.", attrs=_CORRECTION)
