"""Common subexpressions: what is loaded or computed twice is loaded or computed once."""
from __future__ import annotations

from typing import Any

from jitfuse.factors.ir.arguments import ARGUMENTS, written_slot
from jitfuse.factors.ir.schema import Instruction, Program, RegID
from jitfuse.factors.rewrites.free_early import freed, working


def common_subexpressions(program: Program) -> Program:
    """Return the program with equal instructions merged into the first of them, whose register is then read longer.

    Instructions are equal where opcode, arguments and spec are, after earlier merges. A slot is written once, so that
    all that load it load the same. The order of a CONTRACT's inputs matters: a product in another order is another
    one. NORMALIZE writes a slot of its own, and is never merged.
    """
    names: dict[RegID, RegID] = {}
    first: dict[Any, RegID] = {}
    kept: list[Instruction] = []
    for instruction in working(program):
        renamed = _renamed(instruction, names)
        if renamed.dst is not None and renamed.spec is not None and written_slot(renamed) is None:
            args = [renamed.args[name] for name in ARGUMENTS[renamed.op]]
            shared = first.setdefault((renamed.op, *args, renamed.spec.keys), renamed.dst)
            if shared != renamed.dst:
                names[renamed.dst] = shared
                continue
        kept.append(renamed)
    return freed(kept) if names else program


def _renamed(instruction: Instruction, names: dict[RegID, RegID]) -> Instruction:
    if names.keys().isdisjoint(instruction.reads):
        return instruction
    args: dict[str, Any] = {**instruction.args}
    if "src" in args:
        args["src"] = names[args["src"]]
    else:
        args["inputs"] = tuple(names.get(register, register) for register in args["inputs"])
    return instruction.replace(args=args)
