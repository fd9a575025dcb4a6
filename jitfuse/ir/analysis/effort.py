"""Estimate the effort of a program: the steps to plan, and whether writes at data-dependent indices dominate.

A kernel stores at offsets that its launch knows. So `x[i] = v` with an `i` from data goes over all of `x`, where NumPy
touches one element; only loops of the program store single elements in place.
Owns the estimate. Does not own what follows from it (`jitfuse.graph_breaks.limits`).
"""
from __future__ import annotations

from typing import Final

from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import COMPONENT, itemsize
from jitfuse.ir.operators.ops import HOLD_PROGRAMS
from jitfuse.ir.schema import Meta, ProgramData

_VIEWS: Final = frozenset({"reshape", "transpose", "broadcast_to", "slice"})
_STEP: Final = 512
"""Bytes that a processor moves in the time of a small step."""
_MANY: Final = 16
"""Up to this many writes, a call is not much slower."""
LARGE: Final = 1 << 17
"""Bytes that take some 10 µs to go over; NumPy writes an element in 1 µs."""
_MUCH: Final = 1 << 26
_SHARE: Final = 8


COMPLEX: Final = 6
"""How many real steps a step over complex numbers becomes on average."""


def planned(program: ProgramData) -> int:
    """Return roughly how many steps kernels are planned from; a loop counts as one."""
    if program.dtypes.isdisjoint(COMPONENT):
        return len(program.steps)
    meta = program.meta
    return sum([COMPLEX if meta[step.result_ids[0]].dtype in COMPONENT else 1 for step in program.steps])


class Touched(NamedTuple):
    """The number of writes at data-dependent indices, the bytes that they go over, and the bytes of everything else."""

    writes: int
    over: int
    others: int

    @property
    def is_waste(self) -> bool:
        """Whether plain Python would be far faster: many writes, into large arrays, and little else."""
        return (self.writes >= _MANY and self.over > _MUCH and self.over > self.writes * LARGE
                and self.over > _SHARE * self.others)


def touched(program: ProgramData) -> Touched:
    """Return what one run touches; re-rolled loops count with all of their iterations."""
    writes = over = others = 0
    for step in program.steps:
        name = step.op_name
        if name == "scatter":
            writes, over = writes + 1, over + _bytes(program.meta[step.result_ids[0]])
        elif name == "rolled_loop":
            body, length = step.attr("body"), step.attr("length")
            inside = touched(body)
            writes, over, others = (a + length * b for a, b in zip((writes, over, others), inside, strict=True))
        elif name == "update_slice":
            others += _STEP + _bytes(program.meta[step.input_ids[1]])
        elif name not in _VIEWS and name not in HOLD_PROGRAMS:
            others += _STEP + sum(_bytes(program.meta[t]) for t in step.result_ids)
    return Touched(writes, over, others)


def _bytes(meta: Meta) -> int:
    return meta.size * itemsize(meta.dtype)
