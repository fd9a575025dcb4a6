"""Specialise a program for one mode, and drop what that mode does not compute, nor write."""
from __future__ import annotations

from typing import Any

from jitfuse.base.later import Later
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, OpStep
from jitfuse.tracing.program_builder import ProgramBuilder, rewrite

bodies = Later("jitfuse.gradients.bodies")
scans = Later("jitfuse.passes.array.scans")


def specialise(program: FusedProgram, training: bool) -> FusedProgram:
    """Resolve every mode-sensitive step: choose an operand, or decompose with the flag; drop other state.

    Scans that are the same loop in this mode become one.
    """

    def visit(builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
        if step.op_name == "mode_select":
            return inputs[0 if training else 1]
        if not step.mode_sensitive:
            return None
        op = ops.get(step.op_name)
        assert op is not None and op.decompose is not None
        operands = [builder.tensor(i) for i in inputs]
        return int(op.decompose(*operands, **op.check_attrs(step.attr_dict), training=training).id)

    if not ops.WITH_RULES.isdisjoint(program.op_names):
        program = bodies.differentiated(program)
    kept = {
        feed: new for feed, new in program.state_out.items() if training or program.is_random_state(feed)
    }
    resolved = _with_nested(program, training)
    if any(s.mode_sensitive or s.op_name == "mode_select" for s in program.steps):
        resolved = rewrite(resolved, visit)
    writes = {feed: new for feed, new in resolved.writes.items() if new != feed}  # the others stay what they are
    live = prune(resolved.replace(state_out={feed: resolved.state_out[feed] for feed in kept}, writes=writes))
    return scans.shared(live) if [s.op_name for s in live.steps].count("scan") > 1 else live


def _with_nested(program: FusedProgram, training: bool) -> FusedProgram:
    """Return the program with the programs in its steps resolved for the mode, at any depth."""
    if not any(step.op_name in ops.HOLD_PROGRAMS for step in program.steps):
        return program

    def resolved(value: Any) -> Any:
        return specialise(value, training) if isinstance(value, FusedProgram) else value

    def with_resolved(step: OpStep) -> OpStep:
        if step.op_name not in ops.HOLD_PROGRAMS:
            return step
        return step._replace(attrs=tuple((name, resolved(value)) for name, value in step.attrs))

    return program.replace(steps=tuple(map(with_resolved, program.steps)))


def prune(program: FusedProgram) -> FusedProgram:
    """Drop steps on which nothing delivered depends; feeds stay."""
    live = {*program.outputs.values(), *program.writes.values(), *program.state_out.values()}
    steps = []
    for step in reversed(program.steps):
        if not live.isdisjoint(step.result_ids):
            live.update(step.input_ids)
            steps.append(step)
    if len(steps) == len(program.steps):
        return program
    kept = tuple(reversed(steps))
    ids = program.feeds | {r for s in kept for r in s.result_ids}
    return FusedProgram(
        feeds=program.feeds, steps=kept, outputs=program.outputs,
        meta={i: m for i, m in program.meta.items() if i in ids}, feed_names=program.feed_names,
        state_in=program.state_in, state_out=program.state_out, writes=program.writes,
        sources={s.step_id: program.sources[s.step_id] for s in kept if s.step_id in program.sources},
        version=program.version,
    )
