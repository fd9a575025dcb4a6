"""Abstract plans: an operation, both its sides, and how it is lowered. They know neither shapes nor libraries."""
from __future__ import annotations

from collections.abc import Iterator, Sequence

from jitfuse.axes.faults import Fault, Place
from jitfuse.axes.parts import Dim, Part, Split, names, pack_keys, parts, whole_sums
from jitfuse.axes.plans.draft import size_key
from jitfuse.axes.plans.lowering import LoweringProgram, Operation, Phases
from jitfuse.axes.plans.symbolic import SymbolicPlan
from jitfuse.axes.reducers import Reducer
from jitfuse.axes.routing import sources
from jitfuse.axes.sizes import Given, Shape, Solution, solve
from jitfuse.axes.terms import AxisList, Number, Pack, Product
from jitfuse.base.records import Record

AxisSide = tuple[AxisList, ...]
Reductions = Reducer | tuple[tuple[AxisList, Reducer], ...] | None
"""One reducer for all axes, several in order with theirs, or none: sums of products."""


class AbstractPlan(Record, frozen=True):
    """An operation over named axes."""

    op_name: str
    lhs: AxisSide
    rhs: AxisSide
    lowering: LoweringProgram = LoweringProgram()

    def solve(self, shapes: Sequence[Shape], given: Given) -> Solution:
        """Return the sizes of all axes for arrays of these shapes.

        Raises:
            Fault: there is no solution, or there are several.
        """
        whole = [s for s in whole_sums((*self.lhs, *self.rhs)) if not given.keys() & set(names(s))]
        return solve(self.lhs, self.rhs, whole, given, shapes)

    def operation(self, solution: Solution, reductions: Reductions) -> Operation:
        """Return what is to be computed: parts, sources and reductions.

        Raises:
            Fault: a part on the right has no source or several, or one on the left is not used.
        """
        lefts = tuple(p for k, dims in enumerate(solution.lefts) for p in parts(k, dims))
        rights = tuple(p for k, dims in enumerate(solution.rights) for p in parts(k, dims))
        found = tuple(sources(self.op_name, lefts, rights))
        for right, own in zip(rights, found):
            if len(own) > 1:
                self._check_product(right, [lefts[k] for k in own], reductions)
        sized = {key: int(key.partition("#")[0]) for p in (*lefts, *rights) for key in p.axes if "#" in key}
        for dims in (*solution.lefts, *solution.rights):
            for item in (item for dim in dims for item in dim):
                sized.update(_more_sizes(item, solution.sizes))
        solution = solution._replace(sizes={**solution.sizes, **sized})
        return Operation(solution, lefts, rights, found, self._phases(solution, lefts, reductions))

    def lower(self, operation: Operation) -> tuple[SymbolicPlan, ...]:
        """Return every way of computing an operation."""
        return self.lowering.candidates(operation)

    @staticmethod
    def _check_product(right: Part, lefts: Sequence[Part], reductions: Reductions) -> None:
        if number := next((key for p in (right, *lefts) for key in p.axes if "#" in key), None):
            raise Fault("number_in_product", f"{number.partition('#')[0]} has no name, so that nothing tells which "
                        "axes of the other arrays it is", help="Make an axis of it, and give its size with with_sizes.")
        if reductions not in (None, "sum"):
            raise Fault("bad_reducer", "products are summed, and reduce_by says otherwise", place=Place("reducer"),
                        help="Multiply first, then reduce the result.")

    @staticmethod
    def _phases(solution: Solution, lefts: Sequence[Part], reductions: Reductions) -> Phases:
        if reductions is None or (reductions == "sum" and len({p.array for p in lefts}) > 1):
            return ()
        everything = frozenset(key for p in lefts for key in p.axes)
        if not isinstance(reductions, tuple):
            return ((everything, reductions),)
        return tuple((_keys(axes, solution, everything), reducer) for axes, reducer in reductions)


def _more_sizes(item: object, sizes: dict[str, int]) -> Iterator[tuple[str, int]]:
    """Yield the sizes of numbers and sums, by the keys of plans."""
    if isinstance(item, int):
        yield size_key(item), item
    elif isinstance(item, Split):
        for alternative in item.alternatives:
            for inner in alternative:
                yield from _more_sizes(inner, sizes)
        yield size_key(item), _size(item, sizes)


def _size(item: object, sizes: dict[str, int]) -> int:
    if isinstance(item, Split):
        return sum(_product(alternative, sizes) for alternative in item.alternatives)
    return item if isinstance(item, int) else sizes[item]  # type: ignore[index]


def _product(dim: Dim, sizes: dict[str, int]) -> int:
    product = 1
    for item in dim:
        product *= _size(item, sizes)
    return product


def _keys(axes: AxisList, solution: Solution, everything: frozenset[str]) -> frozenset[str]:
    """Return the keys of a reducer's axes."""
    found: set[str] = set()
    stack = list(axes)
    while stack:
        term = stack.pop()
        if isinstance(term, Product):
            stack += term.factors
        elif isinstance(term, Pack):
            found.update(pack_keys(term.name, solution.ranks[term.name]))
        elif isinstance(term, Number):
            found.update(key for key in everything if key.startswith(f"{term.value}#"))
        else:
            found.add(str(term))
    return frozenset(found)
