"""Levels: which instructions can run at once, and the order by levels."""
from __future__ import annotations

from typing import Final

from jitfuse.factors.ir.arguments import written_slot
from jitfuse.factors.ir.schema import Instruction, OpCode, Program, RegID, SlotKey
from jitfuse.factors.rewrites.free_early import freed, working

_LOADS: Final = frozenset({OpCode.UNIT, OpCode.LOAD_FACTOR, OpCode.LOAD_SELECTOR, OpCode.LOAD_SLOT})


def levels(program: Program) -> tuple[tuple[int, ...], ...]:
    """Return the numbers of instructions, level by level: those of one level depend only on those of earlier levels.

    An instruction depends on those that write the registers and slots that it reads; FREE on all that use what it
    frees. Each stands in the first level that it can, but what is loaded stands right before its first reader.

    Example:
        >>> from jitfuse.factors.ir.text import from_text
        >>> levels(from_text("UNIT dst=0 spec=()\\nUNIT dst=1 spec=()\\nFREE srcs=(0)\\nFREE srcs=(1)"))
        ((0, 1), (2, 3))
    """
    placed: list[int] = []
    written: dict[RegID | SlotKey, int] = {}
    used: dict[RegID, int] = {}
    """The last level that writes or reads a register."""
    first: dict[RegID, int] = {}
    """The first level that reads it."""
    for instruction in program.instructions:
        needed = _needed(instruction, written, used)
        level = 1 + max(needed) if needed else 0
        placed.append(level)
        for register in instruction.reads:
            used[register] = max(used[register], level)
            first[register] = min(first.get(register, level), level)
        if instruction.dst is not None:
            written[instruction.dst] = used[instruction.dst] = level
        if (slot := written_slot(instruction)) is not None:
            written[slot] = level
    groups: list[list[int]] = [[] for _ in range(max(placed, default=-1) + 1)]
    for number, (level, instruction) in enumerate(zip(placed, program.instructions, strict=True)):
        late = instruction.op in _LOADS and instruction.dst in first
        groups[first[instruction.dst] - 1 if late and instruction.dst is not None else level].append(number)
    return tuple(map(tuple, groups))


def _needed(
    instruction: Instruction, written: dict[RegID | SlotKey, int], used: dict[RegID, int]
) -> list[int]:
    """Return the levels of what an instruction depends on."""
    if instruction.op is OpCode.FREE:
        return [used[register] for register in instruction.args["srcs"]]
    found = [written[register] for register in instruction.reads]
    if instruction.op is OpCode.LOAD_SLOT and instruction.args["slot"] in written:
        found.append(written[instruction.args["slot"]])
    return found


def by_level(program: Program) -> Program:
    """Return the program in the order of `levels`, and as it was within a level."""
    instructions = working(program)
    order = [number for level in levels(Program(tuple(instructions))) for number in level]
    if order == [*range(len(order))]:
        return program
    return freed([instructions[number] for number in order])
