"""Fusion: a product and the sum over some of its axes become one step, so that the product is never kept."""
from __future__ import annotations

from jitfuse.factors.ir.dataflow import Dataflow, dataflow
from jitfuse.factors.ir.schema import Instruction, OpCode, Program
from jitfuse.factors.rewrites.free_early import freed, working


def fuse_eliminations(program: Program) -> Program:
    """Return the program with each CONTRACT that one ELIMINATE alone reads fused with it, in the place of the CONTRACT.

    The inputs and their order stay. A CONTRACT that sums axes itself stays apart: two sums in turn would become one,
    which adds in another order.
    """
    flow = dataflow(working(program))
    sums: dict[int, int] = {}
    """The places of eliminations, by those of the products that they read."""
    for place, step in enumerate(flow.steps):
        if step.op is OpCode.ELIMINATE:
            (source,) = flow.inputs[place]
            if flow.readers[source] == [place] and _is_product(flow, source):
                sums[source] = place
    gone = set(sums.values())
    kept: list[Instruction] = []
    for place, step in enumerate(flow.steps):
        if place in sums:
            sum_ = flow.steps[sums[place]]
            kept.append(Instruction(step.op, sum_.dst, step.args, sum_.spec))
        elif place not in gone:
            kept.append(step)
    return freed(kept) if sums else program


def _is_product(flow: Dataflow, place: int) -> bool:
    """Whether an instruction is a CONTRACT that keeps all axes of its inputs."""
    step, specs = flow.steps[place], [flow.steps[i].spec for i in flow.inputs[place]]
    if step.op is not OpCode.CONTRACT or step.spec is None:
        return False
    return all(step.spec.axis_pos.keys() >= {*spec.keys} for spec in specs if spec is not None)
