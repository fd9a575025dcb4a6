"""Normalisations: operators over whole rows that keep the shape, each fused into one kernel."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitfuse.ir.decompositions import composites, reductions
from jitfuse.ir.operators.op import REDUCTION, Op, add
from jitfuse.ir.rules import meta_rules, shape_rules
from jitfuse.ir.schema import Meta
from jitfuse.ir.semantics import reduction_reference, reference


def _normalisation(
    name: str, numpy: Callable[..., Any], decompose: Callable[..., Any], doc: str, *, of_nothing: bool = False,
    **attrs: Any,
) -> None:
    def infer(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        (m,) = metas
        axes = shape_rules.normalize_axes(name, attrs["axis"], m.ndim)
        if not of_nothing:
            shape_rules.require_nonempty(name, m, axes)
        return Meta(m.shape, meta_rules.real_dtype(name, m), m.device)

    numpy, decompose = reference.rounded_once(numpy), composites.rounded_once(decompose)
    add(Op(name, 1, REDUCTION, {"axis": -1, **attrs}, infer, numpy, decompose=decompose, doc=doc))


_normalisation("softmax", reference.softmax, composites.softmax,
               "exp(x - max) / sum(exp(x - max)) over the axes.")
_OPTIONS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("log_softmax", "x - max - log(sum(exp(x - max))) over the axes.", {}),
    ("layer_norm", "(x - mean) / sqrt(variance + eps) over the axes.", {"eps": 1e-5, "of_nothing": True}),
    ("rms_norm", "x / sqrt(mean(x * x) + eps) over the axes.", {"eps": 1e-6, "of_nothing": True}),
)
for _name, _doc, _options in _OPTIONS:
    _normalisation(
        _name, getattr(reduction_reference, _name), getattr(reductions, _name), _doc, **_options
    )
