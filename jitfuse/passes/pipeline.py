"""The tuple of passes: functions from program to program, valid in, valid out."""
from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jitfuse.ir.program import FusedProgram
from jitfuse.passes.array.joins import write_parts
from jitfuse.passes.array.lower_dtypes import compare_by_sign, widen_narrow_floats
from jitfuse.passes.array.lower_ops import decompose, promote
from jitfuse.passes.array.mode import prune, specialise
from jitfuse.passes.array.scatters import write_few
from jitfuse.passes.array.simplify import fold_constants, own_results, share, simplify
from jitfuse.passes.complex.lower_complex import lower_complex

__all__ = ["PIPELINE", "run_passes", "specialise"]

Pass = Callable[[FusedProgram], FusedProgram]

PIPELINE: Final[tuple[Pass, ...]] = (
    write_few, decompose, promote, lower_complex, widen_narrow_floats, compare_by_sign, fold_constants, write_parts,
    simplify, share, own_results, prune,
)
"""The passes over a program of one mode between its trace and its plan, in order."""


def run_passes(
    program: FusedProgram, training: bool, after: Callable[[str, FusedProgram], None] | None = None
) -> FusedProgram:
    """Return the primitive program of one mode; `after(name, program)` sees the result of each pass."""
    program = specialise(program, training)
    if after is not None:
        after("specialise", program)
    for step in PIPELINE:
        program = step(program)
        if after is not None:
            after(step.__name__, program)
    return program
