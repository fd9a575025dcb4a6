"""Turn a group into launches: open its stages, reduce, store, finish.

Also builds the launches that write results into arguments and state at the end. Owns the order of stages.
"""
from __future__ import annotations

import math
from typing import Any

from jitfuse.dtypes import itemsize
from jitfuse.ir.program import FusedProgram, OpStep
from jitfuse.plans.body import BodyBuilder, Locate
from jitfuse.plans.cells import finish_map
from jitfuse.plans.equal_kernels import EqualKernels, described
from jitfuse.plans.form import finish
from jitfuse.plans.frame import Frame, contiguous_layout
from jitfuse.plans.group import Group, is_scan
from jitfuse.plans.groups import Grouping
from jitfuse.plans.launch import Launch
from jitfuse.plans.layout import Layout
from jitfuse.plans.split import finish_split
from jitfuse.plans.values import Commit


def build_group(
    program: FusedProgram, grouping: Grouping, group: Group, known: EqualKernels, *, keep: bool
) -> tuple[list[Launch], bool]:
    """Return the launches of a group in order, and whether inner values were kept in scratch rows."""
    if group.window is not None:
        return [_build_window(program, grouping, group.window, known)], False
    locate = grouping.locator(group.fused | set(group.roots))
    if group.contraction is not None or group.split:
        return _build(program, grouping, group, locate, keep)
    roots = tuple([(group.placings[value], group.depths.get(value)) for value in group.roots])
    steps = tuple([(step.op_name, group.depths[step.result_id]) for step in group.reductions])
    kernel = described(
        grouping, locate, group.fused, [*group.roots, *(step.result_id for step in group.reductions)],
        [((("value", value), 0), program.meta[value]) for value in group.roots],
        (group.frame, roots, steps, keep),
    )

    def build() -> tuple[Launch, bool]:
        (launch,), kept = _build(program, grouping, group, locate, keep)
        return launch, kept

    launch, kept = known.launch(kernel, build)
    return [launch], kept


def _build(
    program: FusedProgram, grouping: Grouping, group: Group, locate: Locate, keep: bool
) -> tuple[list[Launch], bool]:
    unrolled = grouping.values.inlining.unrolled
    body = BodyBuilder(
        program, group.frame, locate, group.fused, unrolled, keep=keep and not group.split,
        contraction=group.contraction,
    )
    if group.contraction is not None:
        body.open_stage()
        body.contract()
    reduced = {r.result_id for r in group.reductions if not is_scan(r)}
    store_at = {v: group.depths[v] + (v in reduced) if v in group.depths else 0 for v in group.roots}
    last = max([*store_at.values(), *(group.depths[r.result_id] for r in group.reductions)], default=0)
    for depth in range(last + 1):
        body.open_stage()
        for step in group.reductions:
            if group.depths[step.result_id] == depth and step.result_id in reduced:
                body.reduce(step)
        for value in group.roots:
            if store_at[value] == depth:
                index = group.frame.map_of(group.placings[value])
                body.store(value, index, ("value", value), contiguous_layout(program.meta[value]))
    if group.split:
        return finish_split(body), False
    if not group.fused:
        targets = [(v, ("value", v), contiguous_layout(program.meta[v]), 0) for v in group.roots]
        return [finish_map(body, targets)], False
    return [finish(body)], len(body.keeps) > (group.contraction is not None)


def _build_window(program: FusedProgram, grouping: Grouping, step: OpStep, known: EqualKernels) -> Launch:
    head, offset, layout = grouping.values.windows[step.result_id]
    buffer = grouping.values.buffer(head)
    value, locate = step.input_ids[1], grouping.locator()
    if step.op_name == "update_at":
        body = BodyBuilder(
            program, Frame(layout.shape, ()), locate, frozenset(), grouping.values.inlining.unrolled, keep=False)
        body.open_stage()
        body.write_at(value, step.input_ids[2], buffer, layout)
        return finish(body)
    kernel = described(
        grouping, locate, frozenset(), [value], [((buffer, offset), (layout, program.meta[value].dtype))], "window"
    )

    def build() -> tuple[Launch, bool]:
        return _write(program, grouping, locate, value, buffer, layout, offset), False

    return known.launch(kernel, build)[0]


def build_commit(program: FusedProgram, grouping: Grouping, commit: Commit) -> Launch:
    """Return the launch that writes one value into (a region of) an argument's or a state's memory."""
    locate = grouping.locator()
    return _write(program, grouping, locate, commit.value, ("feed", commit.feed), commit.layout, commit.offset)


def build_reservations(program: FusedProgram, grouping: Grouping) -> list[Launch]:
    """Return the launches that copy each random state and move the state itself on, at the start of a call."""
    launches = []
    locate = grouping.locator()
    for feed in grouping.values.reserved:
        layout = contiguous_layout(program.meta[feed])

        def original(value: int, feed: int = feed, layout: Layout = layout) -> tuple[Any, Layout] | None:
            return (("feed", feed), layout) if value == feed else None

        launches.append(_write(program, grouping, original, feed, ("reserved", feed), layout, 0))
        launches.append(_write(program, grouping, locate, program.state_out[feed], ("feed", feed), layout, 0))
    return launches


def _write(
    program: FusedProgram, grouping: Grouping, locate: Locate, value: int, buffer: Any, layout: Layout, offset: int
) -> Launch:
    shape = layout.shape
    body = BodyBuilder(program, Frame(shape, ()), locate, frozenset(), grouping.values.inlining.unrolled, keep=False)
    body.open_stage()
    index = body.operand_map(body.frame.full_map(), shape, program.meta[value].shape)
    body.write(value, index, buffer, layout, offset)
    return finish_map(body, [(value, buffer, layout, offset)])


def partial_bytes(launch: Launch) -> dict[Any, int]:
    """Return the size in bytes of the partial rows that a split launch writes."""
    points = math.prod(launch.sizes[: len(launch.form.grid)])
    return {
        launch.buffers[o][0]: points * count * itemsize(dtype)
        for stage in launch.form.stages for r in stage.reductions
        for o, (dtype, count) in zip(r.store_to, r.partial_rows, strict=bool(r.store_to))
    }
