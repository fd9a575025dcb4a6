"""Reductions that find a position: argmin and argmax, over pairs of an element and its position.

Owns: which of two pairs wins, and `parts`, which gives every reduction its kind of `Part`.
"""
from __future__ import annotations

from collections.abc import Sequence

from jitfuse.backends.llvm.builder import with_element
from jitfuse.backends.llvm.codegen import elementwise
from jitfuse.backends.llvm.codegen.combine import Constant, Part, Positions, State
from jitfuse.backends.llvm.codegen.types import KIND
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.ir.kernel import POSITIONS, Reduction


class PositionPart(Part):
    """One argmin or argmax. A state is (extremes, positions).

    A lane that saw nothing better than the identity says position 0: it only wins where every element equals the
    identity, and then 0 is right.
    """

    def start(self, constant: Constant) -> State:
        """Return the identity at position 0."""
        return constant(self.dtype, self.identity), constant("int64", 0)

    def of_element(self, x: Batch, position: int) -> State:
        """Return elements at their position."""
        f = x.context.f
        at = f.const(with_element(x.type, "i64"), position)
        return x, x.context.batch([at] * len(x.values))

    def _better(self, x: Batch, y: Batch) -> Batch:
        """Return where an element comes before another whatever their positions; NaN comes first."""
        name = "greater" if self.combine == "argmax" else "less"
        better = elementwise.apply(name, self.dtype, [x, y])
        return better | (x.is_nan() & y.compare("ord", y)) if KIND[self.dtype] == "float" else better

    def merge(self, a: State, b: State) -> State:
        """Take the better element, of equal ones the one at the lower position."""
        earlier = b[1].compare("ult", a[1])
        equal = self._better(a[0], b[0]) ^ 1
        taken = self._better(b[0], a[0]) | (equal & earlier)
        return b[0].where(taken, a[0]), b[1].where(taken, a[1])

    def absorb(self, state: State, x: Batch, positions: Positions) -> State:
        """Take elements that are better than what came before them."""
        extremes, found = state
        n, where = len(extremes.values), positions()
        for k in range(0, len(x.values), n):
            group, at = x.context.batch(x.values[k : k + n]), x.context.batch(where.values[k : k + n])
            better = self._better(group, extremes)
            extremes, found = group.where(better, extremes), at.where(better, found)
        return extremes, found

    def finished(self, state: State) -> Batch:
        """Return the position."""
        return state[1]


def parts(reductions: Sequence[tuple[int, Reduction]]) -> list[Part]:
    """Return the values under reduction of a stage, one for each component."""
    result = []
    for number, r in reductions:
        values: tuple[int | None, ...] = r.values or (None,)
        kind = PositionPart if r.combine in POSITIONS else Part
        result += [kind(number + k, r.combine, r.dtype, v, r) for k, v in enumerate(values)]
    return result
