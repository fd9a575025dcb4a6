"""Sums of products in a semiring: one library step that runs a table of records."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitfuse.errors import ArgumentError, DTypeError
from jitfuse.ir.operators.op import LIBRARY, REQUIRED, VARIADIC, Op, add
from jitfuse.ir.rules import meta_rules
from jitfuse.ir.schema import Meta
from jitfuse.ir.semirings import tables
from jitfuse.ir.semirings.reference import semiring_sums


def _infer(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    if not metas:
        raise ArgumentError("semiring_sums takes at least one operand")
    dtype = metas[0].dtype
    if dtype not in ("float64", "float32") or any(m.dtype != dtype for m in metas):
        given = ", ".join(m.dtype for m in metas)
        raise DTypeError(f"semiring_sums takes operands of float64 or of float32, not {given}")
    carrier, records = attrs["carrier"], attrs["records"]
    if carrier not in tables.CARRIERS:
        known = ", ".join(tables.CARRIERS)
        raise ArgumentError(f"semiring_sums: there is no semiring {carrier!r}: give one of {known}")
    if not isinstance(records, bytes) or not _is_count(attrs["workspace"]) or not _is_count(attrs["size"]):
        raise ArgumentError("semiring_sums: records are bytes, workspace and size numbers of elements")
    tables.sums(records, tuple([m.size for m in metas]), attrs["workspace"], attrs["size"])
    return Meta((attrs["size"],), dtype, meta_rules.common_device("semiring_sums", metas))


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


add(Op("semiring_sums", VARIADIC, LIBRARY, {
    "carrier": REQUIRED, "records": REQUIRED, "workspace": REQUIRED, "size": REQUIRED}, _infer, semiring_sums,
    doc="(stacks...): sums of products in a semiring, by a table of records; what stays, in one axis."))
