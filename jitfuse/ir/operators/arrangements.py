"""Rearrangements: operators that move, repeat or drop elements, decomposed into views, joins and masks."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitfuse.errors import ArgumentError, ShapeError
from jitfuse.ir.decompositions import arrangements, padding
from jitfuse.ir.operators.op import REQUIRED, VARIADIC, VIEW, Op, add
from jitfuse.ir.rules import meta_rules, shape_rules
from jitfuse.ir.schema import Meta


def _infer_roll(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    (m,) = metas
    if len(attrs["shifts"]) != len(attrs["axes"]):
        raise ShapeError(f"roll: {len(attrs['shifts'])} shifts for {len(attrs['axes'])} axes")
    for axis in attrs["axes"]:
        shape_rules.normalize_axis("roll", axis, m.ndim)
    return Meta(m.shape, m.dtype, m.device)


def _infer_stack(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    if not metas:
        raise ArgumentError("stack needs at least one operand")
    first = metas[0].shape
    if any(m.shape != first for m in metas):
        raise ShapeError(f"all input arrays of stack must have the same shape, not "
                         f"{', '.join(str(m.shape) for m in metas)}")
    axis = shape_rules.normalize_axis("stack", attrs["axis"], len(first) + 1)
    parts = [Meta((*m.shape[:axis], 1, *m.shape[axis:]), m.dtype, m.device, m.weak) for m in metas]
    return meta_rules.concat_meta("stack", parts, axis)


def _infer_tile(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    (m,), reps = metas, attrs["reps"]
    rank = max(m.ndim, len(reps))
    shape, reps = (1,) * (rank - m.ndim) + m.shape, (1,) * (rank - len(reps)) + reps
    return Meta(tuple(n * r for n, r in zip(shape, reps, strict=True)), m.dtype, m.device)


def _infer_repeat(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    (m,) = metas
    axis = shape_rules.normalize_axis("repeat", attrs["axis"], m.ndim)
    return Meta(tuple(n * attrs["times"] if k == axis else n for k, n in enumerate(m.shape)), m.dtype, m.device)


def _infer_pad(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    (m,), before, after = metas, attrs["before"], attrs["after"]
    padding.check(m, before, after, attrs["mode"], attrs["values"], attrs["lengths"])
    return Meta(tuple(b + n + a for b, n, a in zip(before, m.shape, after, strict=True)), m.dtype, m.device)


def _infer_triangle(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    (m,) = metas
    if m.ndim < 2:
        raise ShapeError(f"tril and triu take matrices, not an array of shape {m.shape}")
    return Meta(m.shape, m.dtype, m.device)


def _infer_diagonal(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    (m,), offset = metas, attrs["offset"]
    if m.ndim < 2:
        raise ShapeError(f"diagonal takes an array of at least two axes, not of shape {m.shape}")
    rows, columns = m.shape[-2:]
    count = min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns)
    return Meta((*m.shape[:-2], max(count, 0)), m.dtype, m.device)


def _infer_diag(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    (m,) = metas
    if m.ndim != 1:
        raise ShapeError(f"diag makes a matrix of an array of one axis, not of shape {m.shape}")
    n = m.shape[0] + abs(attrs["k"])
    return Meta((n, n), m.dtype, m.device)


def _pad(x: Any, *, before: Any, after: Any, mode: Any, values: Any, lengths: Any, odd: bool) -> Any:
    widths = list(zip(before, after, strict=True))
    if not widths:
        return np.array(x)
    options: dict[str, Any] = {}
    if mode in ("constant", "linear_ramp") and values:
        options["constant_values" if mode == "constant" else "end_values"] = np.reshape(values, (-1, 2))
    elif mode in ("maximum", "minimum", "mean", "median") and lengths:
        extents = np.repeat(np.shape(x), 2)
        options["stat_length"] = np.where(np.less(lengths, 0), extents, lengths).reshape(-1, 2)
    elif mode in ("reflect", "symmetric"):
        options["reflect_type"] = "odd" if odd else "even"
    if mode == "empty":
        mode = "constant"
    return np.pad(x, widths, mode=mode, **options)


add(Op("roll", 1, VIEW, {"shifts": REQUIRED, "axes": REQUIRED}, _infer_roll,
       lambda x, *, shifts, axes: np.roll(x, shifts, axes), decompose=arrangements.roll,
       doc="Elements moved along axes; those that leave come in again at the other end."))
add(Op("stack", VARIADIC, VIEW, {"axis": 0}, _infer_stack, lambda *xs, axis: np.stack(xs, axis),
       decompose=arrangements.stack, doc="The operands joined along a new axis."))
add(Op("tile", 1, VIEW, {"reps": REQUIRED}, _infer_tile, lambda x, *, reps: np.tile(x, reps),
       decompose=arrangements.tile, doc="The whole repeated along each axis."))
add(Op("repeat", 1, VIEW, {"times": REQUIRED, "axis": REQUIRED}, _infer_repeat,
       lambda x, *, times, axis: np.repeat(x, times, axis), decompose=arrangements.repeat,
       doc="Each element repeated along an axis."))
add(Op("pad", 1, VIEW, {"before": REQUIRED, "after": REQUIRED, "mode": "constant", "values": (), "lengths": (),
                        "odd": False}, _infer_pad, _pad, decompose=padding.pad,
       doc="Elements added before and after each axis in one of NumPy's modes; empty ones are zero."))
add(Op("tril", 1, VIEW, {"k": 0}, _infer_triangle, lambda x, *, k: np.tril(x, k), decompose=arrangements.tril,
       doc="What lies on or below the k-th diagonal, zeros elsewhere."))
add(Op("triu", 1, VIEW, {"k": 0}, _infer_triangle, lambda x, *, k: np.triu(x, k), decompose=arrangements.triu,
       doc="What lies on or above the k-th diagonal, zeros elsewhere."))
add(Op("diag", 1, VIEW, {"k": 0}, _infer_diag, lambda x, *, k: np.diag(x, k), decompose=arrangements.diag,
       doc="A matrix with these elements on its k-th diagonal, zeros elsewhere."))
add(Op("diagonal", 1, VIEW, {"offset": 0}, _infer_diagonal,
       lambda x, *, offset: np.diagonal(x, offset, -2, -1), doc="The diagonal of the last two axes, as the last axis."))
