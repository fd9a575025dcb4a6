"""Fusion: a product and the sum over some of its axes become one step, so that the product is never kept."""
from __future__ import annotations

from collections import Counter

from jitfuse.factors.ir.schema import Instruction, OpCode, Program, RegID
from jitfuse.factors.rewrites.free_early import freed, working


def fuse_eliminations(program: Program) -> Program:
    """Return the program with each CONTRACT that one ELIMINATE alone reads fused with it, in the place of the CONTRACT.

    The inputs and their order stay. A CONTRACT that sums axes itself stays apart: two sums in turn would become one,
    which adds in another order.
    """
    instructions = working(program)
    makers = {instruction.dst: instruction for instruction in instructions if instruction.dst is not None}
    readers = Counter([register for instruction in instructions for register in instruction.reads])
    eliminations: dict[RegID, Instruction] = {}
    """By the product that they read."""
    for instruction in instructions:
        if instruction.op is OpCode.ELIMINATE:
            (source,) = instruction.reads
            if readers[source] == 1 and _is_product(makers[source], makers):
                eliminations[source] = instruction
    fused = {sum_.dst for sum_ in eliminations.values()}
    kept: list[Instruction] = []
    for instruction in instructions:
        sum_ = None if instruction.dst is None else eliminations.get(instruction.dst)
        if sum_ is not None:
            kept.append(Instruction(instruction.op, sum_.dst, instruction.args, sum_.spec))
        elif instruction.dst is None or instruction.dst not in fused:
            kept.append(instruction)
    return freed(kept) if fused else program


def _is_product(instruction: Instruction, makers: dict[RegID, Instruction]) -> bool:
    """Whether an instruction is a CONTRACT that keeps all axes of its inputs."""
    if instruction.op is not OpCode.CONTRACT:
        return False
    assert instruction.spec is not None
    kept = set(instruction.spec.keys)
    specs = [makers[register].spec for register in instruction.reads]
    return all(kept.issuperset(spec.keys) for spec in specs if spec is not None)
