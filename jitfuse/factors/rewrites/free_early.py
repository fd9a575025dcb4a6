"""Registers are freed right after the last instruction that reads them. Owns where FREE stands, for all rewrites."""
from __future__ import annotations

from collections.abc import Iterable

from jitfuse.factors.ir.schema import Instruction, OpCode, Program, RegID


def free_early(program: Program) -> Program:
    """Return the program with each register freed right after its last use; one that nothing reads, once it is made."""
    return freed(working(program))


def working(program: Program) -> list[Instruction]:
    """Return the instructions that compute, load or store: all but FREE."""
    return [instruction for instruction in program.instructions if instruction.op is not OpCode.FREE]


def freed(instructions: Iterable[Instruction]) -> Program:
    """Return the program of instructions without FREE, with each register freed right after its last use."""
    kept = tuple(instructions)
    last: dict[RegID, int] = {}
    for number, instruction in enumerate(kept):
        for register in instruction.reads:
            last[register] = number
        if instruction.dst is not None:
            last[instruction.dst] = number
    ending: dict[int, list[RegID]] = {}
    for register, number in last.items():
        ending.setdefault(number, []).append(register)
    out: list[Instruction] = []
    for number, instruction in enumerate(kept):
        out.append(instruction)
        if number in ending:
            out.append(Instruction(OpCode.FREE, None, {"srcs": tuple(ending[number])}))
    return Program(tuple(out))
