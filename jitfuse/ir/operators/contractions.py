"""Contractions: sums of products over shared axes. `matmul` is the primitive one."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitfuse.errors import ArgumentError
from jitfuse.ir.decompositions import einsum
from jitfuse.ir.operators.op import CONTRACTION, REQUIRED, VARIADIC, Op, add
from jitfuse.ir.rules import dtype_rules, meta_rules, shape_rules
from jitfuse.ir.schema import Meta
from jitfuse.ir.semantics import reference


def _infer_matmul(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    a, b = metas
    loop = dtype_rules.loop_matmul("matmul", metas)
    return Meta(shape_rules.matmul_shape(a.shape, b.shape), loop.result, meta_rules.common_device("matmul", metas))


add(Op("matmul", 2, CONTRACTION, {}, _infer_matmul, reference.matmul, dtype_rules.loop_matmul))


def _infer_einsum(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    if not metas:
        raise ArgumentError("einsum needs at least one operand")
    left, arrow, output = attrs["subscripts"].partition("->")
    subscripts = einsum.read(attrs["subscripts"], [m.ndim for m in metas])
    if not arrow or subscripts != einsum.Subscripts(tuple(left.split(",")), output):
        raise ArgumentError(f"einsum: the subscripts {attrs['subscripts']!r} are not written out")
    left_over = len(metas)
    for positions in attrs["path"]:
        if len(set(positions)) < len(positions) or any(not 0 <= k < left_over for k in positions):
            raise ArgumentError(f"einsum: the path {attrs['path']} does not fit {len(metas)} operands")
        left_over -= len(positions) - 1
    if left_over != 1:
        raise ArgumentError(f"einsum: the path {attrs['path']} leaves {left_over} operands")
    extents = einsum.extents("einsum", subscripts, [m.shape for m in metas])
    dtype = einsum.common_dtype(metas)
    return Meta(tuple(extents[c] for c in output), dtype, meta_rules.common_device("einsum", metas))


def _einsum(*xs: Any, subscripts: str, path: Any) -> Any:
    xs = tuple(np.asarray(x, "float32") if np.asarray(x).dtype.name == "bfloat16" else x for x in xs)
    return np.einsum(subscripts, *xs, optimize=False)


add(Op("einsum", VARIADIC, CONTRACTION, {"subscripts": REQUIRED, "path": ((0, 1),)}, _infer_einsum, _einsum,
       decompose=einsum.lower, doc="A sum of products over labelled axes, contracted along a path."))
