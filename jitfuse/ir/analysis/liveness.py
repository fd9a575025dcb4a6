"""Find the steps of a program that a mode needs. Does not own when their values may be dropped."""
from __future__ import annotations

from jitfuse.ir.operators.ops import HOLD_PROGRAMS
from jitfuse.ir.schema import OpStep, ProgramData


def looks_at_mode(program: ProgramData) -> bool:
    """Return whether a step reads the training flag, also within the programs that steps hold."""
    for _, name, _, attrs, _, mode_sensitive, _ in program.steps:
        if mode_sensitive:
            return True
        if name in HOLD_PROGRAMS and any(isinstance(v, ProgramData) and looks_at_mode(v) for _, v in attrs):
            return True
    return False


def live_steps(program: ProgramData, training: bool) -> list[OpStep]:
    """Return the steps on which a mode's outputs, writes and state depend, in program order."""
    needed = set(program.delivered(training))
    live = []
    for step in reversed(program.steps):
        if not needed.isdisjoint(step.result_ids):
            live.append(step)
            needed.update(inputs_in_mode(step, training))
    return live[::-1]


def inputs_in_mode(step: OpStep, training: bool) -> tuple[int, ...]:
    """Return the operands that a step reads in a mode; a select reads the mode's own operand twice, never the other."""
    if step.op_name == "mode_select" and len(step.input_ids) == 2:
        return (step.input_ids[0 if training else 1],) * 2
    return step.input_ids
