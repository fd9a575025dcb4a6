"""Views, joins and region updates: operators that move elements and compute nothing."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitfuse.dtypes import is_integer
from jitfuse.errors import ArgumentError, BoundsError, ShapeError
from jitfuse.ir.operators.op import REQUIRED, UPDATE, VARIADIC, VIEW, Op, add
from jitfuse.ir.rules import meta_rules, shape_rules
from jitfuse.ir.schema import Meta
from jitfuse.ir.semantics import reference


def _infer_reshape(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    m = metas[0]
    return Meta(shape_rules.reshape_shape("reshape", m.shape, attrs["shape"]), m.dtype, m.device)


def _infer_transpose(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    m = metas[0]
    axes = tuple(shape_rules.normalize_axis("transpose", a, m.ndim) for a in attrs["axes"])
    if sorted(axes) != list(range(m.ndim)):
        raise ShapeError(f"transpose: axes {attrs['axes']} is no permutation of {m.ndim} axes")
    return Meta(tuple(m.shape[a] for a in axes), m.dtype, m.device)


def _infer_broadcast_to(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    m, shape = metas[0], tuple(attrs["shape"])
    if any(n < 0 for n in shape):
        raise ShapeError(f"broadcast_to: {shape} has a negative extent")
    if shape_rules.broadcast("broadcast_to", [m.shape, shape]) != shape:
        raise ShapeError(f"broadcast_to: {m.shape} cannot be broadcast to {shape}")
    return Meta(shape, m.dtype, m.device)


def _infer_slice(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    m = metas[0]
    _check_region("slice", m.shape, attrs)
    return Meta(tuple(attrs["counts"]), m.dtype, m.device)


def _check_region(name: str, shape: tuple[int, ...], attrs: dict[str, Any]) -> None:
    starts, steps, counts = attrs["starts"], attrs["steps"], attrs["counts"]
    if not len(starts) == len(steps) == len(counts) == len(shape):
        raise ShapeError(f"{name}: starts, steps and counts need one entry for each of {len(shape)} axes")
    for n, start, step, count in zip(shape, starts, steps, counts, strict=True):
        last = start + (count - 1) * step
        if count < 0 or step == 0 or (count and not (0 <= start < n and 0 <= last < n)):
            raise ShapeError(
                f"{name}: start {start}, step {step}, count {count} leaves an axis of extent {n}"
            )


def _infer_windows(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    m, sizes = metas[0], tuple(attrs["sizes"])
    steps, dilations = tuple(attrs["steps"]), tuple(attrs["dilations"])
    if not len(sizes) == len(steps) == len(dilations) <= m.ndim:
        raise ShapeError(f"windows: sizes, steps and dilations {sizes}, {steps}, {dilations} need one entry for each "
                         f"of the last axes of {m.shape}")
    if any(n < 1 for n in (*sizes, *steps, *dilations)):
        raise ShapeError(f"windows: sizes {sizes}, steps {steps} and dilations {dilations} are positive")
    lead = m.ndim - len(sizes)
    counts = tuple(max((n - d * (k - 1) - 1) // s + 1, 0)
                   for n, k, s, d in zip(m.shape[lead:], sizes, steps, dilations, strict=True))
    return Meta((*m.shape[:lead], *sizes, *counts), m.dtype, m.device)


def _infer_concat(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    if not metas:
        raise ArgumentError("concat needs at least one operand")
    axis = shape_rules.normalize_axis("concat", attrs["axis"], metas[0].ndim)
    return meta_rules.concat_meta("concat", metas, axis)


def _infer_update(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    target, value = metas
    _check_region("update_slice", target.shape, attrs)
    region = tuple(attrs["counts"])
    if shape_rules.broadcast("update_slice", [value.shape, region]) != region:
        raise ShapeError(f"could not broadcast an array of shape {value.shape} into a region of {region}")
    return Meta(target.shape, target.dtype, target.device)


def _infer_update_at(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    target, value, number = metas
    lead = target.ndim - value.ndim
    if lead < 0 or value.shape != target.shape[lead:] or number.shape or not is_integer(number.dtype):
        raise ShapeError(f"update_at replaces a block of the last axes of {target} at an integer index, "
                         f"not by {value} at {number}")
    if 0 in target.shape[:lead]:
        raise BoundsError("update_at: every index is out of bounds for an array without blocks")
    return Meta(target.shape, target.dtype, target.device)


_REGION = {"starts": REQUIRED, "steps": REQUIRED, "counts": REQUIRED}
add(Op("reshape", 1, VIEW, {"shape": REQUIRED}, _infer_reshape, reference.reshape))
add(Op("transpose", 1, VIEW, {"axes": REQUIRED}, _infer_transpose, reference.transpose))
add(Op("broadcast_to", 1, VIEW, {"shape": REQUIRED}, _infer_broadcast_to, reference.broadcast_to))
add(Op("slice", 1, VIEW, _REGION, _infer_slice, reference.slice_,
        doc="Elements start, start + step, ... (count of them) of each axis; steps may be negative."))
add(Op("windows", 1, VIEW, {"sizes": REQUIRED, "steps": REQUIRED, "dilations": REQUIRED}, _infer_windows,
       reference.windows, doc="Windows over the last axes, a step apart, their elements a dilation apart: axes of the "
       "positions in a window come before those of the windows."))
add(Op("concat", VARIADIC, VIEW, {"axis": 0}, _infer_concat, reference.concat))
add(Op("update_slice", 2, UPDATE, _REGION, _infer_update, reference.update_slice,
        doc="The first operand with a region replaced by the second, broadcast and cast."))
add(Op("update_at", 3, UPDATE, {}, _infer_update_at, reference.update_at,
        doc="(x, block, index): x with one block of its last axes replaced, for a number one element; the index counts "
        "blocks in C order, and is within x."))
