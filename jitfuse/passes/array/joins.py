"""Write joins of many parts, such as `np.array` of a list of numbers or rows, as updates of one array.

A kernel over a join selects among all parts at every element: its code, compile time and run time grow with their
number, all together with its square. Owns this rewriting. Lists that loops fill are written in the loops, by
`jitfuse.tracing.control.reroll.lists`.
"""
from __future__ import annotations

from typing import Final

from jitfuse.ir.program import FusedProgram, OpStep, make_attrs
from jitfuse.tracing.program_builder import ProgramBuilder, rewrite

_LEAST: Final = 16
"""From this many parts on, writes are up to twice as fast as selects; for eight, both take the same time."""


def write_parts(program: FusedProgram) -> FusedProgram:
    """Make a join of many parts an array into which they are written."""
    long = {step.step_id for step in program.steps if step.op_name == "concat" and len(step.input_ids) >= _LEAST}
    if not long:
        return program

    def visit(builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
        if step.step_id not in long:
            return None
        meta = program.meta[step.result_id]
        axis, at = step.attr("axis") % meta.ndim, 0
        made = builder.step("zeros", (), make_attrs({"shape": meta.shape, "dtype": meta.dtype}), meta=meta)
        for part in inputs:
            counts = builder.meta[part].shape
            starts = tuple([at if a == axis else 0 for a in range(meta.ndim)])
            region = make_attrs({"starts": starts, "steps": (1,) * meta.ndim, "counts": counts})
            if 0 not in counts:
                made = builder.step("update_slice", (made, part), region, meta=meta)
            at += counts[axis]
        return made

    return rewrite(program, visit)
