"""Chains of updates as they are best stored in place: nothing stored twice, and read from where it was stored.

Item assignment in Python loops makes long chains of `update_slice` steps. What one of them writes is often written
over by the next (`a[i] += x; a[i] /= y`), and what was written is used again (`a[i] = a[i - 1] + x`), which a trace
knows as the value itself. Owns these rewritings. Does not own what is stored in place (`jitfuse.plans.windows`).
"""
from __future__ import annotations

from typing import Final

from jitfuse.ir import ops
from jitfuse.ir.program import FusedProgram, OpStep, make_attrs
from jitfuse.passes.mode import prune
from jitfuse.passes.rewrite import ProgramBuilder, rewrite
from jitfuse.plans.inlining import is_arithmetic

SHORTEST: Final = 4
"""Chains of fewer updates stay masks in the kernels that need the array."""


def updated_in_place(program: FusedProgram) -> FusedProgram:
    """Return an equal program whose long chains of updates are ready to be stored in place; itself where none is."""
    if max(chain_lengths(program).values(), default=0) < SHORTEST:
        return program
    return _read_back(_without_overwritten(program))


def chain_lengths(program: FusedProgram) -> dict[int, int]:
    """Return for each update how many there are in the longest chain that it is part of."""
    length: dict[int, int] = {}
    updates = [s for s in program.steps if s.op_name == "update_slice"]
    for step in updates:
        length[step.result_id] = length.get(step.input_ids[0], 0) + 1
    for step in reversed(updates):
        base = step.input_ids[0]
        if base in length:
            length[base] = max(length[base], length[step.result_id])
    return length


def _without_overwritten(program: FusedProgram) -> FusedProgram:
    """Leave out updates that are read by nothing but one that writes the same region again."""
    delivered = {*program.outputs.values(), *program.writes.values(), *program.state_out.values()}

    def is_overwritten(base: int, by: OpStep) -> bool:
        step = program.producers.get(base)
        return (
            step is not None and step.op_name == "update_slice" and step.attrs == by.attrs
            and program.consumers[base] == (by,) and base not in delivered
        )

    earlier: dict[int, int] = {}
    for step in program.steps:
        if step.op_name == "update_slice":
            base = step.input_ids[0]
            while is_overwritten(base, step):
                base = program.producers[base].input_ids[0]
            if base != step.input_ids[0]:
                earlier[step.result_id] = base
    if not earlier:
        return program
    new: dict[int, int] = {feed: feed for feed in program.feeds}

    def visit(builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
        new.update(zip(step.input_ids, inputs, strict=True))
        base = earlier.get(step.result_id)
        return None if base is None else builder.step(step.op_name, (new[base], inputs[1]), step.attrs)

    return prune(rewrite(program, visit))


def _read_back(program: FusedProgram) -> FusedProgram:
    """Have what is computed after an update read what was stored from there, rather than compute or store it twice."""
    lengths, order = chain_lengths(program), {s.step_id: k for k, s in enumerate(program.steps)}
    stored: dict[int, int] = {}
    for number, step in enumerate(program.steps):
        if lengths.get(step.result_id, 0) >= SHORTEST:
            value = _computed(program, step)
            if value is not None and any(order[c.step_id] > number for c in program.consumers.get(value, ())):
                stored[step.result_id] = value
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
        value = stored.get(step.result_id)
        if value is not None:
            shape = program.meta[value].shape
            piece = builder.step("slice", (made,), step.attrs)
            same = shape == builder.meta[piece].shape
            back[value] = piece if same else builder.step("reshape", (piece,), make_attrs({"shape": shape}))
        return made

    return prune(rewrite(program, visit))


def _computed(program: FusedProgram, step: OpStep) -> int | None:
    """Return what an update stores, before reshapes, where that is as large and computed element by element."""
    operand = value = step.input_ids[1]
    while value in program.producers and program.producers[value].op_name == "reshape":
        value = program.producers[value].input_ids[0]
    maker = program.producers.get(value)
    meta, base = program.meta[value], program.meta[step.input_ids[0]]
    fits = maker is not None and is_arithmetic(maker) and maker.op_name != "update_slice"
    whole = program.meta[operand].shape == step.attr("counts")
    return value if fits and whole and meta.dtype == base.dtype and not meta.weak else None
