"""Levels: which instructions can run at once, and the order by levels."""
from __future__ import annotations

from jitfuse.factors.ir.dataflow import dataflow
from jitfuse.factors.ir.schema import Program
from jitfuse.factors.rewrites.free_early import freed, working


def levels(program: Program) -> tuple[tuple[int, ...], ...]:
    """Return the numbers of instructions, level by level: those of one level depend only on those of earlier levels.

    An instruction depends on those that write the registers and slots that it reads; FREE on all that use what it
    frees. Each stands in the first level that it can, but what is loaded stands right before its first reader.

    Example:
        >>> from jitfuse.factors.ir.text import from_text
        >>> levels(from_text("UNIT dst=0 spec=()\\nUNIT dst=1 spec=()\\nFREE srcs=(0)\\nFREE srcs=(1)"))
        ((0, 1), (2, 3))
    """
    flow = dataflow(program.instructions)
    found: list[int] = []
    for inputs in flow.inputs:
        found.append(1 + max([found[i] for i in inputs], default=-1))
    groups: list[list[int]] = [[] for _ in range(max(found, default=-1) + 1)]
    for place, (level, step, readers) in enumerate(zip(found, flow.steps, flow.readers)):
        is_load = step.dst is not None and not step.reads
        groups[min([found[i] for i in readers]) - 1 if is_load and readers else level].append(place)
    return tuple(map(tuple, groups))


def by_level(program: Program) -> Program:
    """Return the program in the order of `levels`, and as it was within a level."""
    instructions = working(program)
    order = [number for level in levels(Program(tuple(instructions))) for number in level]
    if order == [*range(len(order))]:
        return program
    return freed([instructions[number] for number in order])
