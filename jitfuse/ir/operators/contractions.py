"""Contractions: sums of products over shared axes."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitfuse.errors import DTypeError
from jitfuse.ir import reference, rules
from jitfuse.ir.op import CONTRACTION, Op, add
from jitfuse.ir.program import Meta


def _infer_matmul(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    a, b = metas
    loop = rules.loop_same("matmul", metas)
    if loop.result == "bool":
        raise DTypeError("matmul does not take bool; cast first with astype(int)")
    return Meta(rules.matmul_shape(a.shape, b.shape), loop.result, rules.common_device("matmul", metas))


add(Op("matmul", 2, CONTRACTION, {}, _infer_matmul, reference.matmul, rules.loop_same))
