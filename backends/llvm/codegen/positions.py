"""Reductions that find a position: argmin and argmax, over pairs of an element and its position.

Owns: which of two pairs wins, and `parts`, which gives every reduction its kind of `Reduced`.
"""
from __future__ import annotations

from collections.abc import Sequence

from jitfuse.backends.llvm.codegen.combine import Constant, Positions, Reduced, State
from jitfuse.backends.llvm.codegen.elements import elementwise
from jitfuse.backends.llvm.codegen.elements.types import ITEMSIZE, KIND, i64
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.text.builder import lanes, with_element
from jitfuse.ir.kernels.stages import POSITIONS, Reduction


class PositionPart(Reduced, frozen=True):
    """One argmin or argmax. A state is (extremes, positions).

    A lane without an element better than the identity holds position 0. It only wins where every element equals the
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
        """Return where an element wins over another regardless of position; NaN wins over numbers."""
        largest = self.combine == "argmax"
        if KIND[self.dtype] == "float":
            return x.compare("ugt" if largest else "ult", y) & y.compare("ord", y)
        return elementwise.apply("greater" if largest else "less", self.dtype, [x, y])

    def merge(self, a: State, b: State) -> State:
        """Return the better element; among equals the one at the lower position."""
        earlier = b[1].compare("ult", a[1])
        equal = self._better(a[0], b[0]) ^ 1
        taken = self._better(b[0], a[0]) | (equal & earlier)
        return b[0].where(taken, a[0]), b[1].where(taken, a[1])

    def absorb(self, state: State, x: Batch, positions: Positions) -> State:
        """Return the state with elements put in that are better than all before them."""
        extremes, found = state
        n, where = len(extremes.values), positions.lanes()
        for k in range(0, len(x.values), n):
            group, at = x.context.batch(x.values[k : k + n]), x.context.batch(where.values[k : k + n])
            better = self._better(group, extremes)
            extremes, found = group.where(better, extremes), at.where(better, found)
        return extremes, found

    # ------------------------------------------------------------------ loops along the lanes
    @property
    def _count_type(self) -> str:
        """Integers as wide as the elements, in which a loop records the number of the vector that a lane is from.

        They suffice for rows of 2**36 elements of 4 bytes, more than any memory holds.
        """
        return "i64" if ITEMSIZE[self.dtype] == 8 else "i32"

    def opened(self, state: State) -> State:
        """Return the carried values: extremes, numbers of their vectors (-1: from before the loop), old positions."""
        extremes, found = state
        none = extremes.context.constant(with_element(found.type, self._count_type), -1)
        return extremes, extremes.context.batch([none] * len(found.values)), found

    def gather(self, carried: State, x: Batch, positions: Positions) -> State:
        """Take better elements and the numbers of their vectors; groups begin at whole vectors."""
        extremes, numbers, before = carried
        f, width, n = x.context.f, lanes(x.type), len(extremes.values)
        first = f.lshr(positions.first, i64(width.bit_length() - 1))
        first = first if self._count_type == "i64" else f.cast("trunc", first, "i32")
        number = x.context.batch([f.splat(first, width)])
        for k in range(0, len(x.values), n):
            group = x.context.batch(x.values[k : k + n])
            at = x.context.batch([(number + j).values[0] for j in range(k, k + n)])
            better = self._better(group, extremes)
            extremes, numbers = group.where(better, extremes), at.where(better, numbers)
        return extremes, numbers, before

    def closed(self, carried: State) -> State:
        """Return the extremes and their positions."""
        extremes, numbers, before = carried
        f, width = extremes.context.f, lanes(extremes.type)
        wide = numbers if self._count_type == "i64" else numbers.cast("zext", "i64")
        lane = extremes.context.batch([f.vector_const("i64", range(width)) if width > 1 else i64(0)] * len(wide.values))
        return extremes, before.where(numbers.compare("eq", -1), (wide << (width.bit_length() - 1)) + lane)

    # ------------------------------------------------------------------ results
    def finished(self, state: State) -> Batch:
        """Return the position."""
        return state[1]


def parts(reductions: Sequence[tuple[int, Reduction]]) -> list[Reduced]:
    """Return the values under reduction of a stage, one for each component."""
    result = []
    for number, r in reductions:
        values: tuple[int | None, ...] = r.values or (None,)
        kind = PositionPart if r.combine in POSITIONS else Reduced
        result += [kind(number + k, r.combine, r.dtype, v, r) for k, v in enumerate(values)]
    return result
