"""Turn a group into launches: open its stages, reduce, store, finish.

Also the launches that write results into arguments and state at the very end. Owns the order of stages.
"""
from __future__ import annotations

import math
from typing import Any

from jitfuse.dtypes import itemsize
from jitfuse.ir.kernel import sum_lanes
from jitfuse.ir.program import FusedProgram
from jitfuse.plans.body import BodyBuilder
from jitfuse.plans.form import Launch, finish, finish_split
from jitfuse.plans.frame import Frame, contiguous_layout
from jitfuse.plans.groups import Group, Grouping
from jitfuse.plans.layout import Layout
from jitfuse.plans.values import Commit


def build_group(program: FusedProgram, grouping: Grouping, group: Group, *, keep: bool) -> tuple[list[Launch], bool]:
    """Return the launches of a group in order, and whether inner values were kept in scratch rows."""
    values = grouping.values
    own = group.fused | set(group.roots)

    def place(value: int) -> tuple[Any, Layout] | None:
        if value in own:
            return None
        if value in values.memory:
            return values.memory[value]
        if value in grouping.home:
            return ("value", value), contiguous_layout(program.meta[value])
        return None

    body = BodyBuilder(program, group.frame, place, group.fused, values.unrolled, keep=keep and not group.split)
    store_at = {
        v: group.depths[v] + (1 if v in group.fused else 0) if v in group.depths else 0 for v in group.roots
    }
    last = max([*store_at.values(), *(group.depths[v] for v in group.fused)], default=0)
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
    return finish(body), bool(body.keeps)


def build_commit(program: FusedProgram, grouping: Grouping, commit: Commit) -> Launch:
    """Return the launch that writes one value into (a region of) an argument's or a state's memory."""
    values = grouping.values

    def place(value: int) -> tuple[Any, Layout] | None:
        if value in values.memory:
            return values.memory[value]
        if value in grouping.home:
            return ("value", value), contiguous_layout(program.meta[value])
        return None

    shape = commit.layout.shape
    body = BodyBuilder(program, Frame(shape, ()), place, frozenset(), values.unrolled, keep=False)
    body.open_stage()
    source = program.meta[commit.value].shape
    index = body.operand_map(body.frame.full_map(), shape, source)
    body.write(commit.value, index, ("feed", commit.feed), commit.layout, commit.offset)
    return finish(body)[0]


def partial_bytes(launch: Launch) -> dict[Any, int]:
    """Return the size in bytes of the partial rows that a split launch writes."""
    sizes: dict[Any, int] = {}
    for operand, (buffer, _) in zip(launch.form.operands, launch.buffers, strict=True):
        if operand.out and buffer[0] == "partial":
            row = sum_lanes(itemsize(operand.dtype)) * itemsize(operand.dtype)
            sizes[buffer] = math.prod(launch.sizes[:-1]) * row
    return sizes
