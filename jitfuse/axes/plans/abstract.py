"""Abstract plans: an operation, both its sides, and how it is lowered. They know neither shapes nor libraries."""
from __future__ import annotations

from collections.abc import Iterator, Sequence

from jitfuse.axes.equations import product
from jitfuse.axes.faults import REDUCER, Fault, Place
from jitfuse.axes.parts import Part, Split, expand, names, pack_keys, parts, whole_sums
from jitfuse.axes.plans.draft import size_key
from jitfuse.axes.plans.lowering import LoweringProgram, Operation, Phases
from jitfuse.axes.plans.symbolic import SymbolicPlan
from jitfuse.axes.reducers import Reducer
from jitfuse.axes.routing import Sources, sources
from jitfuse.axes.sizes import Given, Shape, Solution, solve
from jitfuse.axes.terms import AxisList, Number, Pack, Product, Sum
from jitfuse.base.lazy import cached_property
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

    @cached_property
    def whole(self) -> frozenset[Sum]:
        """The sums that count as one axis."""
        return whole_sums((*self.lhs, *self.rhs))

    @cached_property
    def sources(self) -> tuple[Sources, ...]:
        """Which parts on the left each part on the right is made of; a pack counts as one axis, whatever its rank."""
        ranks = {name: 1 for axes in (*self.lhs, *self.rhs) for t in axes for name in names(t)}
        lefts, rights = ([p for k, axes in enumerate(side) for p in parts(k, expand(axes, ranks, self.whole))]
                         for side in (self.lhs, self.rhs))
        return tuple(sources(self.op_name, lefts, rights))

    def solve(self, shapes: Sequence[Shape], given: Given) -> Solution:
        """Return the sizes of all axes for arrays of these shapes.

        Raises:
            Fault: there is no solution, or there are several.
        """
        return solve(self.lhs, self.rhs, self.whole, given, shapes)

    def operation(self, solution: Solution, reductions: Reductions) -> Operation:
        """Return what is to be computed: parts, sources and reductions.

        Raises:
            Fault: a reducer is missing for an axis, or numbers stand in a product.
        """
        lefts = tuple(p for k, dims in enumerate(solution.lefts) for p in parts(k, dims))
        rights = tuple(p for k, dims in enumerate(solution.rights) for p in parts(k, dims))
        phases = self._phases(solution, lefts, reductions)
        reduced = frozenset(key for keys, _ in phases for key in keys)
        for right, own in zip(rights, self.sources):
            if len(own) > 1:
                self._check_product(right, [lefts[k] for k in own], reductions)
            elif phases and (forgotten := lefts[own[0]].axes - right.axes - reduced):
                raise Fault("bad_reducer", f"no reducer is for {min(forgotten).partition('#')[0]}",
                            help="Name every axis that is reduced, numbers too.", place=REDUCER)
        sized = {key: int(key.partition("#")[0]) for p in (*lefts, *rights) for key in p.axes if "#" in key}
        for dims in (*solution.lefts, *solution.rights):
            for item in (item for dim in dims for item in dim):
                sized.update(_more_sizes(item, solution.sizes))
        solution = solution._replace(sizes={**solution.sizes, **sized})
        return Operation(solution, lefts, rights, self.sources, phases)

    def lower(self, operation: Operation) -> tuple[SymbolicPlan, ...]:
        """Return every way of computing an operation."""
        return self.lowering.candidates(operation)

    @staticmethod
    def _check_product(right: Part, lefts: Sequence[Part], reductions: Reductions) -> None:
        for side, p in (("right", right), *(("left", left) for left in lefts)):
            if number := next((key for key in p.axes if "#" in key), None):
                raise Fault("number_in_product", f"{number.partition('#')[0]} has no name, so that nothing tells which "
                            "axes of the other arrays it is", place=Place(side, p.array),
                            help="Make an axis of it, and give its size with with_sizes.")
        if reductions not in (None, "sum"):
            raise Fault("bad_reducer", "products are summed, and reduce_by says otherwise", place=REDUCER,
                        help="Multiply first, then reduce the result.")

    @staticmethod
    def _phases(solution: Solution, lefts: Sequence[Part], reductions: Reductions) -> Phases:
        if reductions is None:
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
        total = product((item,), sizes)
        assert total is not None
        yield size_key(item), total


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
