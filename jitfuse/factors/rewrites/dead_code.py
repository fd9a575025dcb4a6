"""Dead code: what nothing that is stored depends on is left out."""
from __future__ import annotations

from jitfuse.factors.ir.arguments import written_slot
from jitfuse.factors.ir.schema import Instruction, Program, RegID
from jitfuse.factors.rewrites.free_early import freed, working


def dead_code(program: Program) -> Program:
    """Return the program without instructions that no slot depends on. Every slot is still written."""
    instructions, needed = working(program), set[RegID]()
    kept: list[Instruction] = []
    for instruction in reversed(instructions):
        if instruction.dst in needed or written_slot(instruction) is not None:
            needed.update(instruction.reads)
            kept.append(instruction)
    return program if len(kept) == len(instructions) else freed(reversed(kept))
