"""The part of a report that tells forward from backward kernels, and what lies in memory between both.

Owns these texts. Decides nothing: what is stored and what is computed again is the plan's choice.
"""
from __future__ import annotations

from collections.abc import Iterator

from jitfuse.dtypes import itemsize
from jitfuse.ir.formats.phases import phase_of
from jitfuse.ir.formats.text import meta_text
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, OpStep
from jitfuse.plans import RuntimePlan
from jitfuse.plans.plan import PlannedGroup


def phases(plan: RuntimePlan) -> list[str]:
    """Return a line for each kernel and library call, and one for each value kept; none without derivatives."""
    program = plan.program
    if not any(map(phase_of, program.sources.values())):
        return []
    lines: list[str] = []
    readers: dict[int, list[str]] = {}
    made_by: dict[int, str] = {}
    order = {s.step_id: k for k, s in enumerate(program.steps)}
    for group in plan.groups:
        made = {order[program.producers[v].step_id] for v in group.values if v in program.producers}
        steps = [program.steps[k] for k in sorted(made)]
        phase = _phase(program, steps)
        again = sum(_is_arithmetic(s) and not phase_of(program.sources.get(s.step_id)) for s in steps) if phase else 0
        stored = [v for s in steps for v in s.result_ids if v in plan.outputs or ("value", v) in plan.sizes]
        own = sum(not phase_of(program.sources.get(program.producers[v].step_id)) for v in stored)
        note = f", stores {own} of the function's values" if phase and own else ""
        note += f", computes {again} of the function's steps" if again else ""
        lines.append(f"{group.name}: {phase or 'forward'}{note}")
        made_by.update(dict.fromkeys(stored, group.name))
        for value in _read(program, group, steps) if phase else ():
            readers.setdefault(value, []).append(group.name)
    kept = [(value, names) for value, names in readers.items() if _is_kept(program, value, made_by)]
    total = 0
    for value, names in sorted(kept):
        meta, step = program.meta[value], program.producers[value]
        total += meta.size * itemsize(meta.dtype)
        lines.append(f"kept: %{value}: {meta_text(meta)} = {step.op_name}, {program.sources.get(step.step_id)}, "
                     f"by {made_by[value]} for {', '.join(dict.fromkeys(names))}")
    return [*lines, f"kept in all: {total} B"] if kept else lines


def _phase(program: FusedProgram, steps: list[OpStep]) -> str:
    """Return the latest phase of a kernel's steps: those before it are computed there too."""
    return next((phase for s in reversed(steps) if (phase := phase_of(program.sources.get(s.step_id)))), "")


def _is_arithmetic(step: OpStep) -> bool:
    row = ops.get(step.op_name)
    return row is not None and row.kind not in (ops.VIEW, ops.CREATION)


def _read(program: FusedProgram, group: PlannedGroup, steps: list[OpStep]) -> Iterator[int]:
    """Yield the values that a kernel loads, those that it loads through views among them."""
    todo = [i for s in steps for i in s.input_ids]
    seen: set[int] = set()
    while todo:
        i = todo.pop()
        step = program.producers.get(i)
        if i in seen or i in group.values or step is None:
            continue
        seen.add(i)
        row = ops.get(step.op_name)
        if row is not None and row.kind == ops.VIEW:
            todo += step.input_ids
        yield i


def _is_kept(program: FusedProgram, value: int, made_by: dict[int, str]) -> bool:
    step = program.producers[value]
    return value in made_by and not phase_of(program.sources.get(step.step_id))
