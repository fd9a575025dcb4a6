"""Rewrite chains of updates for storing in place: store nothing twice, and read from where it was stored.

Item assignment in Python loops makes long chains of `update_slice` steps. The next update often overwrites what one
writes (`a[i] += x; a[i] /= y`). A written value is often used again (`a[i] = a[i - 1] + x`), where the trace refers to
the value itself. Owns these rewritings. Does not own which updates are stored in place (`jitfuse.plans.windows`).
"""
from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, OpStep
from jitfuse.passes.array.mode import prune
from jitfuse.plans.inlining import UPDATES, is_arithmetic
from jitfuse.tracing.program_builder import ProgramBuilder, rewrite

LEAD: Final = {"fori_loop": 2, "while_loop": 0, "rolled_loop": 0}
"""Loops that may write into their initial values, and how many operands come before those."""
SHORTEST: Final = 4
"""Shorter chains of updates stay masks in the kernels that need the array."""
Region = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Starts, steps and counts along the axes."""


def updated_in_place(program: FusedProgram, donated: Mapping[int, int]) -> FusedProgram:
    """Return an equal program whose long chains of updates can be stored in place; the program itself if it has none.

    `donated` maps feeds to the number of the output that may take their memory.
    """
    if max(chain_lengths(program, donated).values(), default=0) < SHORTEST:
        return program
    return _read_back(_without_overwritten(program), donated)


def chain_lengths(program: FusedProgram, donated: Mapping[int, int]) -> dict[int, int]:
    """Return the length of the longest chain of each update; at least `SHORTEST` in a donated feed."""
    length: dict[int, int] = {}
    updates = [(s, result, base) for s in program.steps if s.op_name in UPDATES or s.op_name in LEAD
               for result in s.result_ids if (base := updated_by(s, result)) is not None]
    for step, result, base in updates:
        is_element = step.op_name == "update_at" and not program.meta[step.input_ids[1]].shape
        length[result] = length.get(base, 0) + (not is_element)
    for _, result, base in reversed(updates):
        if base in length:
            length[base] = max(length[base], length[result])
    for feed, last in donated_updates(program, donated).items():
        for update in updates_between(program, feed, last):
            length[update] = max(length.get(update, 0), SHORTEST)
    return length


def donated_updates(program: FusedProgram, donated: Mapping[int, int]) -> dict[int, int]:
    """Return the donated feeds whose output is an update of them, with that output's value."""
    outputs = list(program.outputs.values())
    return {feed: outputs[k] for feed, k in donated.items() if updates_between(program, feed, outputs[k])}


def updates_between(program: FusedProgram, feed: int, last: int) -> list[int]:
    """Return the updates that make a value from a feed, the last one first; none if other steps are involved."""
    found = []
    while last != feed:
        step = program.producers.get(last)
        before = None if step is None else updated_by(step, last)
        if before is None:
            return []
        found.append(last)
        last = before
    return found


def updated_by(step: OpStep, result: int) -> int | None:
    """Return the operand of which a step's result is an updated version, by an update or carried through a loop."""
    if step.op_name in UPDATES:
        return step.input_ids[0]
    lead = LEAD.get(step.op_name)
    k = step.result_ids.index(result)
    return None if lead is None or k >= step.attr("carries") + step.attr("arrays", 0) else step.input_ids[lead + k]


def _without_overwritten(program: FusedProgram) -> FusedProgram:
    """Drop updates that a later update overwrites, if nothing else reads the written region in between.

    A slice of exactly that region becomes the written value; a slice disjoint from it reads the array before the
    update.
    """
    delivered = {*program.outputs.values(), *program.writes.values(), *program.state_out.values()}
    gone: dict[int, OpStep] = {}
    for step in program.steps:
        maker = program.producers.get(step.input_ids[0]) if step.op_name == "update_slice" else None
        if maker is not None and maker.op_name == "update_slice" and maker.attrs == step.attrs:
            base = maker.result_id
            rest = [r for r in program.consumers[base] if r is not step]
            if base not in delivered and all(_is_written(program, r, maker) or _is_disjoint(r, maker) for r in rest):
                gone[base] = maker
    if not gone:
        return program
    new: dict[int, int] = {feed: feed for feed in program.feeds}

    def visit(builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
        new.update(zip(step.input_ids, inputs, strict=True))
        update = gone.get(step.input_ids[0]) if step.input_ids else None
        if update is None:
            return None
        if step.op_name == "slice" and step.attrs == update.attrs:
            value, shape = new[update.input_ids[1]], program.meta[step.result_id].shape
            return builder.reshaped(value, shape)
        while update is not None:
            base = update.input_ids[0]
            update = gone.get(base)
        return builder.step(step.op_name, (new[base], *inputs[1:]), step.attrs, meta=program.meta[step.result_id])

    return prune(rewrite(program, visit))


def _is_written(program: FusedProgram, reader: OpStep, update: OpStep) -> bool:
    """Return whether a step reads exactly what an update has written."""
    written, result = program.meta[update.input_ids[1]], program.meta[reader.result_id]
    return (
        reader.op_name == "slice" and reader.attrs == update.attrs
        and (written.size, written.dtype, written.weak) == (result.size, result.dtype, False)
    )


def _is_disjoint(reader: OpStep, update: OpStep) -> bool:
    """Return whether a step reads only elements of an updated array that the update has not written."""
    return reader.op_name == "slice" and are_disjoint(region_of(reader), region_of(update))


def _read_back(program: FusedProgram, donated: Mapping[int, int]) -> FusedProgram:
    """Make steps after an update read its value from the stored array, rather than compute or store it twice."""
    lengths, order = chain_lengths(program, donated), {s.step_id: k for k, s in enumerate(program.steps)}
    stored: dict[int, list[int]] = {}
    for number, step in enumerate(program.steps):
        if step.op_name == "update_slice" and lengths.get(step.result_id, 0) >= SHORTEST:
            used = [value for value in _computed(program, step)
                    if any(order[c.step_id] > number for c in program.consumers.get(value, ()))]
            if used:
                stored[step.result_id] = used
    if not stored:
        return program
    back: dict[int, int] = {}

    def visit(builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
        if step.op_name in ops.HOLD_PROGRAMS or len(step.result_ids) > 1:
            return None
        read = tuple(back.get(i, n) for i, n in zip(step.input_ids, inputs, strict=True))
        if read == inputs and step.result_id not in stored:
            return None
        made = builder.step(step.op_name, read, step.attrs, meta=program.meta[step.result_id])
        for value in stored.get(step.result_id, ()):
            back[value] = builder.reshaped(builder.step("slice", (made,), step.attrs), program.meta[value].shape)
        return made

    return prune(rewrite(program, visit))


def _computed(program: FusedProgram, step: OpStep) -> list[int]:
    """Return what an update stores, before and after reshapes, if it has the region's size and is elementwise."""
    operand = value = step.input_ids[1]
    same = [value]
    while value in program.producers and program.producers[value].op_name == "reshape":
        value = program.producers[value].input_ids[0]
        same.append(value)
    maker = program.producers.get(value)
    meta, base = program.meta[value], program.meta[step.input_ids[0]]
    fits = maker is not None and is_arithmetic(maker) and maker.op_name not in UPDATES
    whole = program.meta[operand].shape == step.attr("counts")
    return same if fits and whole and meta.dtype == base.dtype and not meta.weak else []


# ---------------------------------------------------------------- regions
def region_of(step: OpStep) -> Region:
    """Return the region that a slice reads or an update writes."""
    (_, counts), (_, starts), (_, steps) = step.attrs  # in alphabetical order
    return starts, steps, counts  # type: ignore[return-value]


def whole(shape: tuple[int, ...]) -> Region:
    """Return the region that is all of an array."""
    return (0,) * len(shape), (1,) * len(shape), shape


def within(outer: Region, inner: Region) -> Region:
    """Return a region of a region."""
    starts = tuple(a + b * s for a, b, s in zip(outer[0], inner[0], outer[1], strict=True))
    return starts, tuple(s * t for s, t in zip(outer[1], inner[1], strict=True)), inner[2]


def are_disjoint(a: Region, b: Region) -> bool:
    """Return whether two regions of one array are known to have no element in common."""
    return any(_are_disjoint(x, y) for x, y in zip(zip(*a, strict=True), zip(*b, strict=True), strict=True))


def _are_disjoint(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Return whether two (start, step, count) along one axis are known to have no position in common."""
    if not a[2] or not b[2]:
        return True
    ends = [sorted((start, start + step * (count - 1))) for start, step, count in (a, b)]
    if ends[0][1] < ends[1][0] or ends[1][1] < ends[0][0]:
        return True
    common = math.gcd(a[1], b[1])
    return common > 1 and (a[0] - b[0]) % common != 0
