"""Hash what programs that differ only in sizes have in common, so that one of them decides for all which plan wins.

The subgraphs of one function can be such programs: a loop over the rows of a triangle makes one per iteration. Owns the
comparison. Does not own its use (`jitfuse.plans.plan`).
"""
from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final

from jitfuse.ir.kernels.form import MAX_STATIC_EXTENT
from jitfuse.ir.program import FusedProgram, Meta, OpStep
from jitfuse.plans.contraction_cost import size_class
from jitfuse.plans.layout import Layout

_LITERALS: Final = (-1, 0, 1, 2)
"""The numbers that kernels specialise on; all others are parameters."""


def structure(program: FusedProgram, layouts: Mapping[int, Layout]) -> int | None:
    """Return a hash that is equal for programs whose steps are equal over sizes of equal classes.

    None if steps hold programs or arrays. It covers whether slices are whole, whether they begin at 0, and their steps,
    but of sizes only the class: regions that overlap in one program may be disjoint in another. So no result may depend
    on it.
    """
    number = {feed: k for k, feed in enumerate(program.ordered_feeds)}
    feeds = tuple((_meta(program.meta[f]), _layout(layouts.get(f))) for f in program.ordered_feeds)
    steps = []
    for step in program.steps:
        attrs = _attrs(program, step)
        if attrs is None:
            return None
        for result in step.result_ids:
            number[result] = len(number)
        operands = tuple([number[i] for i in step.input_ids])
        steps.append((step.op_name, operands, attrs, tuple([_meta(program.meta[r]) for r in step.result_ids])))
    ends = [tuple([number[v] for v in values.values()]) for values in (program.outputs, program.state_out)]
    written = tuple((number[feed], number[value]) for feed, value in program.writes.items())
    return hash((feeds, tuple(steps), *ends, written))


def _meta(meta: Meta) -> Hashable:
    return meta.dtype, tuple(map(_extent, meta.shape))


def _extent(n: int) -> int:
    return n if n <= MAX_STATIC_EXTENT else size_class(n)


def _layout(layout: Layout | None) -> Hashable:
    return layout and (layout.classes, layout.merges)


def _attrs(program: FusedProgram, step: OpStep) -> Hashable | None:
    if step.op_name == "slice":
        return _window(step, program.meta[step.input_ids[0]].shape)
    if step.op_name == "update_slice":
        return _window(step, program.meta[step.result_ids[0]].shape)
    if step.op_name == "full":
        value = step.attr("value")
        return value if value in _LITERALS else type(value).__name__
    found = tuple([(name, _classed(value)) for name, value in step.attrs])
    return None if any(value is None for _, value in found) else found


def _window(step: OpStep, shape: tuple[int, ...]) -> Hashable:
    """Return a window's start and steps, as far as kernels differ in them."""
    attrs = step.attr_dict
    return tuple([
        (start > 0, by, n == whole) for start, by, n, whole in
        zip(attrs["starts"], attrs["steps"], attrs["counts"], shape, strict=True)
    ])


def _classed(value: Any) -> Hashable | None:
    """Return what kernels know of an attribute's value; None for arrays and programs."""
    if isinstance(value, tuple):
        parts = tuple(map(_classed, value))
        return None if None in parts else parts
    if value is None or isinstance(value, str | bool):
        return repr(value)
    if isinstance(value, int):
        return value if value < 0 else _extent(value)
    return value if isinstance(value, float | complex) else None
