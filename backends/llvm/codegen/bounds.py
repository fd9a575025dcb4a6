"""Groups of vectors that cross no bound: those in which a slice, pad or join begins or ends at no lane.

There each comparison of an index with a bound has one value for all lanes, and what it chooses needs no masks. Kernels
write their loop bodies twice, with such scalars and with masks, and choose for each group of vectors: the second is
for the few groups at the bounds. Owns which values become scalars. Does not own the bodies (`body`).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jitfuse.backends.llvm.codegen.analysis import ENTRY, Analysis
from jitfuse.base.records import NamedTuple
from jitfuse.ir.kernels.stages import Instr
from jitfuse.ir.kernels.values import access

ORDERS: Final = {"greater_equal": "sge", "less_equal": "sle", "greater": "sgt", "less": "slt"}
_FLIPPED: Final = {"greater_equal": "less_equal", "less_equal": "greater_equal", "greater": "less", "less": "greater"}
_LOGICAL: Final = ("logical_and", "logical_or", "logical_not")


class Bounds(NamedTuple):
    """The comparisons of positions along the lanes: number -> (operator, number of the bound), and all conditions.

    The conditions are these comparisons, and what logical operators make of them and of values that all lanes share.
    """

    comparisons: dict[int, tuple[str, int]]
    conditions: frozenset[int]


NOWHERE: Final = Bounds({}, frozenset())


def bounds_of(analysis: Analysis) -> Bounds | None:
    """Return the comparisons of a form, or None where a second body is not worth its text."""
    instructions = [one for _, body, _ in analysis.form.numbered for one in body]
    loops_inside = analysis.lanes_on_grid and analysis.form.inner
    if len(analysis.varying) != 1 or loops_inside or analysis.masked_only or any(
            i.op == "scan" for _, i in instructions):
        return None
    (lane_axis,) = analysis.varying
    comparisons: dict[int, tuple[str, int]] = {}
    conditions: set[int] = set()
    used = False
    for number, instr in instructions:
        found = _comparison(analysis, instr, lane_axis)
        if found is not None:
            comparisons[number] = found
            conditions.add(number)
        elif instr.op in _LOGICAL and instr.dtype == "bool" and not conditions.isdisjoint(instr.args) and all(
                a in conditions or analysis.info[a].uniform for a in instr.args):
            conditions.add(number)
        else:
            used = used or not conditions.isdisjoint(_chosen_by(instr))
    return Bounds(comparisons, frozenset(conditions)) if used else None


def _comparison(analysis: Analysis, instr: Instr, lane_axis: int) -> tuple[str, int] | None:
    """Return the operator and bound of a comparison of the position along the lanes with what the launch fixes."""
    if instr.op not in _FLIPPED:
        return None
    for (a, b), op in ((instr.args, instr.op), (instr.args[::-1], _FLIPPED[instr.op])):
        index = analysis.form.instructions[a]
        position = isinstance(index, Instr) and index.op == "index" and int(index.imm) == lane_axis
        if position and analysis.info[b].scope == ENTRY:
            return op, b
    return None


def _chosen_by(instr: Instr) -> Sequence[int]:
    """Return the condition by which an instruction chooses what it loads or returns."""
    if instr.op == "where":
        return instr.args[:1]
    return instr.args[-1:] if instr.op == "load" and access(instr).mask else ()
