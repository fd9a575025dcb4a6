"""Turn a group into launches: open its stages, reduce, store, finish.

Also the launches that write results into arguments and state at the very end. Owns the order of stages.
"""
from __future__ import annotations

import math
from typing import Any

from jitfuse.dtypes import itemsize
from jitfuse.ir.kernel import sum_lanes
from jitfuse.ir.program import FusedProgram
from jitfuse.plans.body import BodyBuilder, Place
from jitfuse.plans.form import finish
from jitfuse.plans.frame import Frame, contiguous_layout
from jitfuse.plans.groups import Group, Grouping
from jitfuse.plans.launch import Launch
from jitfuse.plans.layout import Layout
from jitfuse.plans.split import finish_split
from jitfuse.plans.values import Commit


def build_group(program: FusedProgram, grouping: Grouping, group: Group, *, keep: bool) -> tuple[list[Launch], bool]:
    """Return the launches of a group in order, and whether inner values were kept in scratch rows."""
    place = grouping.place_of(group.fused | set(group.roots))
    unrolled = grouping.values.unrolled
    body = BodyBuilder(
        program, group.frame, place, group.fused, unrolled, keep=keep and not group.split,
        contraction=group.contraction,
    )
    if group.contraction is not None:
        body.open_stage()
        body.contract()
    reduced = {r.result_id for r in group.reductions}
    store_at = {
        v: group.depths[v] + (1 if v in reduced else 0) if v in group.depths else 0 for v in group.roots
    }
    last = max([*store_at.values(), *(group.depths[v] for v in reduced)], default=0)
    for depth in range(last + 1):
        body.open_stage()
        for step in group.reductions:
            if group.depths[step.result_id] == depth:
                body.reduce(step)
        for value in group.roots:
            if store_at[value] == depth:
                index = group.frame.map_of(group.placings[value])
                body.store(value, index, ("value", value), contiguous_layout(program.meta[value]))
    if group.split:
        partials = [("partial", r.result_id) for r in group.reductions]
        return finish_split(body, partials), False
    return [finish(body)], len(body.keeps) > (group.contraction is not None)


def build_commit(program: FusedProgram, grouping: Grouping, commit: Commit) -> Launch:
    """Return the launch that writes one value into (a region of) an argument's or a state's memory."""
    place = grouping.place_of()
    return _write(program, grouping, place, commit.value, ("feed", commit.feed), commit.layout, commit.offset)


def build_reservations(program: FusedProgram, grouping: Grouping) -> list[Launch]:
    """Return the launches that copy each random state and move the state itself on, at the start of a call."""
    launches = []
    place = grouping.place_of()
    for feed in grouping.values.reserved:
        layout = contiguous_layout(program.meta[feed])

        def original(value: int, feed: int = feed, layout: Layout = layout) -> tuple[Any, Layout] | None:
            return (("feed", feed), layout) if value == feed else None

        launches.append(_write(program, grouping, original, feed, ("reserved", feed), layout, 0))
        launches.append(_write(program, grouping, place, program.state_out[feed], ("feed", feed), layout, 0))
    return launches


def _write(
    program: FusedProgram, grouping: Grouping, place: Place, value: int, buffer: Any, layout: Layout, offset: int
) -> Launch:
    shape = layout.shape
    body = BodyBuilder(program, Frame(shape, ()), place, frozenset(), grouping.values.unrolled, keep=False)
    body.open_stage()
    index = body.operand_map(body.frame.full_map(), shape, program.meta[value].shape)
    body.write(value, index, buffer, layout, offset)
    return finish(body)


def partial_bytes(launch: Launch) -> dict[Any, int]:
    """Return the size in bytes of the partial rows that a split launch writes."""
    sizes: dict[Any, int] = {}
    for operand, (buffer, _) in zip(launch.form.operands, launch.buffers, strict=True):
        if operand.out and buffer[0] == "partial":
            row = sum_lanes(itemsize(operand.dtype)) * itemsize(operand.dtype)
            sizes[buffer] = math.prod(launch.sizes[:-1]) * row
    return sizes
