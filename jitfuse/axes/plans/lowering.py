"""Lowering: every way of writing an operation as primitive steps, for packs of known numbers of axes.

Arrays are cut into parts, each part on the right is made of its sources by one of several forms, and parts are joined.
Forms differ in what is grouped when (`Grouping`), in how products are formed (`Product`), and in whether parts are
joined or written to their places (`Assembly`). All of them are tried; equal plans are one. Owns the search. Does not
own what the parts are made of (`jitfuse.axes.routing`) nor the choice (`jitfuse.axes.plans.symbolic`).
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal

from jitfuse.axes.faults import Fault
from jitfuse.axes.parts import Dim, Keys, Part, Split, part
from jitfuse.axes.plans.draft import Draft, first_split, flat_keys, leaves
from jitfuse.axes.plans.grouping import fitting, ordered, runs, with_new
from jitfuse.axes.plans.paths import pairs
from jitfuse.axes.plans.products import MAX_LABELS, Contract, Einsum, is_matrix_product, product_order, roles
from jitfuse.axes.plans.steps import Dims, Slot, SymbolicStep
from jitfuse.axes.plans.structural import Reindex
from jitfuse.axes.plans.symbolic import SymbolicPlan
from jitfuse.axes.reducers import Reducer
from jitfuse.axes.routing import Sources
from jitfuse.axes.sizes import Solution
from jitfuse.base.records import NamedTuple, Record

Grouping = Literal["as written", "merged", "as wanted"]
Product = Literal["einsum", "einsum chain", "contract chain"]
Assembly = Literal["concat", "reindex"]
Phases = tuple[tuple[frozenset[str], Reducer], ...]
Orders = dict[tuple[tuple[Dims, ...], Dims], list[tuple[int, int]]]
"""In which order the operands of a product meet: forms share it."""


class Form(NamedTuple):
    """The choices of one candidate."""

    grouping: Grouping
    product: Product
    assembly: Assembly


class Operation(NamedTuple):
    """What is lowered: all axes with their sizes, the parts of both sides, the sources of each, the reductions."""

    solution: Solution
    lefts: tuple[Part, ...]
    rights: tuple[Part, ...]
    sources: tuple[Sources, ...]
    phases: Phases
    """Axes and how they are reduced, in order; axes in none of them are summed in their own dtype."""


class LoweringProgram(Record, frozen=True):
    """The forms that compete: how axes are grouped, how products are formed, how parts come together."""

    groupings: tuple[Grouping, ...] = ("as written", "merged", "as wanted")
    products: tuple[Product, ...] = ("einsum", "einsum chain", "contract chain")
    assemblies: tuple[Assembly, ...] = ("concat", "reindex")

    def candidates(self, operation: Operation) -> tuple[SymbolicPlan, ...]:
        """Return the plan of each form that exists; equal ones once, under the first form's name.

        Raises:
            Fault: there is none.
        """
        groups = len(operation.solution.sizes) > MAX_LABELS or any(
            len(keys) != 1 for p in (*operation.lefts, *operation.rights) for keys in p.dims)
        choices = (
            self.groupings if groups else self.groupings[:1],
            self.products if any(len(s) > 1 for s in operation.sources) else self.products[:1],
            self.assemblies if _gathers(operation) else self.assemblies[:1],
        )
        found: dict[object, SymbolicPlan] = {}
        orders: Orders = {}
        for form in map(Form._make, itertools.product(*choices)):
            lowered = _Lowering(operation, form, orders).run()
            if lowered is not None and all(step.feasible for step in lowered[0]):
                steps, outputs = lowered
                kind = ", ".join(choice for choice, among in zip(form, choices) if len(among) > 1)
                found.setdefault(lowered, SymbolicPlan(kind, len(operation.solution.lefts), outputs, steps))
        if not found:
            raise Fault("too_many_axes", "a sum of products has more axes than einsum has letters",
                        help="Merge axes that stay together into one, or multiply fewer arrays at once.")
        return tuple(found.values())


def _gathers(operation: Operation) -> bool:
    """Return whether a result joins parts, or repeats one: then parts may be written to their places."""
    joins = any(first_split(dims) is not None for dims in operation.solution.rights)
    return joins or any(
        right.axes - frozenset().union(*(operation.lefts[k].axes for k in own))
        for right, own in zip(operation.rights, operation.sources))


class _Lowering:
    """One candidate."""

    def __init__(self, operation: Operation, form: Form, orders: Orders) -> None:
        self.operation = operation
        self.form = form
        self.orders = orders
        self.draft = Draft(len(operation.solution.lefts))
        self.sizes: Mapping[str, int] = operation.solution.sizes

    def run(self) -> tuple[tuple[SymbolicStep, ...], tuple[Slot, ...]] | None:
        """Return the steps and the slots of the results, or None if there is no plan of this form."""
        lefts = self.operation.solution.lefts
        self.pieces = [
            piece for k, dims in enumerate(lefts) for piece in self.draft.unfold(k, k, dims)]
        rights = iter(self.operation.sources)
        made = []
        for number, dims in enumerate(self.operation.solution.rights):
            if self.form.assembly == "reindex":
                slot = self._written(number, dims, rights)
            else:
                slot = self.draft.fold(dims, self._parts(number, dims, rights))
            if slot is None:
                return None
            made.append(slot)
        return tuple(self.draft.steps), tuple(made)

    # ------------------------------------------------------------ one part
    def _parts(
        self, number: int, dims: tuple[Dim, ...], sources: Iterator[Sources]
    ) -> Callable[[tuple[Dim, ...]], Slot]:
        """Make the parts of a result; return what gives them, in their order, in one dtype.

        Joined two by two, arrays of three dtypes would have another one than all together.
        """
        made = [(self._built(part(number, chosen), own), own)  # type: ignore[arg-type]
                for chosen, own in zip(leaves(dims), sources)]
        slots = [slot for slot, _ in made]
        if len(slots) > 2 and len({self.operation.lefts[k].array for _, own in made for k in own}) > 1:
            slots = self.draft.promote(slots)
        parts = iter(slots)
        return lambda _: next(parts)

    def _built(self, right: Part, sources: Sources) -> Slot:
        """Make a part on the right, with its own axes."""
        slot, dims = self._computed(right, sources)
        wanted = tuple(dict.fromkeys(key for keys in right.dims for key in keys))
        grown = with_new(dims, wanted)
        slot = self.draft.expand(slot, dims, grown)
        everything = [key for keys in right.dims for key in keys]
        if len(everything) != len(wanted):
            single: Dims = tuple((key,) for key in wanted)
            slot, grown = self.draft.with_repeats(self.draft.reshape(slot, grown, single), single, everything)
        return self.draft.reshape(slot, grown, right.dims)

    def _computed(self, right: Part, sources: Sources) -> tuple[Slot, Dims]:
        """Make the axes of a part that come from the left, once each and in order, in groups."""
        wanted = tuple(dict.fromkeys(key for keys in right.dims for key in keys))
        operands = []
        for k in sources:
            slot, left = self.pieces[k]
            operands.append(self.draft.without_repeats(slot, left.dims))
        if len(operands) > 1:
            slots = self.draft.promote([slot for slot, _ in operands])
            operands = [(slot, dims) for slot, (_, dims) in zip(slots, operands, strict=True)]
            return self._product(operands, wanted)
        slot, dims = operands[0]
        groups = self._groups([dims], wanted, right.dims)
        slot = self.draft.reshape(slot, dims, groups)
        slot, groups = self._reduced(slot, groups, wanted)
        order = ordered(groups, wanted)
        return self.draft.permute(slot, groups, order), order

    def _reduced(self, slot: Slot, dims: Dims, wanted: Sequence[str]) -> tuple[Slot, Dims]:
        for keys, reducer in self.operation.phases:
            gone = [group for group in dims if keys.issuperset(group) and not set(group) & set(wanted)]
            slot, dims = self.draft.reduce(slot, dims, gone, reducer)
        return self._summed(slot, dims, [group for group in dims if not set(group) & set(wanted)])

    def _summed(self, slot: Slot, dims: Dims, gone: Sequence[Keys]) -> tuple[Slot, Dims]:
        return self.draft.reduce(slot, dims, gone, "+") if gone else (slot, dims)

    # ------------------------------------------------------------ groups
    def _groups(self, arrays: Sequence[Dims], wanted: Sequence[str], target: Dims) -> Dims:
        """Return the axes of all arrays, grouped: keys that stay neighbours are one axis where the form says so."""
        written = {pair for dims in arrays for keys in dims for pair in itertools.pairwise(keys)}
        aims = {key: d for d, keys in enumerate(target) for key in keys}
        orders = [[key for keys in dims for key in keys] for dims in arrays]
        next_wanted = dict(itertools.pairwise(wanted))
        follows: dict[str, str] = {}
        for one, other in (pair for order in orders for pair in itertools.pairwise(order)):
            if not self._stay(orders, one, other):
                continue
            if one in aims or other in aims:
                if next_wanted.get(one) != other:
                    continue
                if self.form.grouping == "as wanted" and aims[one] != aims[other]:
                    continue
            elif not self._reduced_together(one, other):
                continue
            if self.form.grouping == "as written" and (one, other) not in written:
                continue
            follows[one] = other
        return tuple(group for order in orders for group in runs(order, follows))

    @staticmethod
    def _stay(orders: Sequence[Sequence[str]], one: str, other: str) -> bool:
        """Return whether one key comes right before another in every array that has either."""
        return all(
            (one in order) == (other in order) and (one not in order or order[order.index(one) + 1 :][:1] == [other])
            for order in orders)

    def _reduced_together(self, one: str, other: str) -> bool:
        for keys, reducer in self.operation.phases:
            if one in keys or other in keys:
                return one in keys and other in keys and isinstance(reducer, str)
        return True

    # ------------------------------------------------------------ products
    def _product(self, operands: Sequence[tuple[Slot, Dims]], wanted: tuple[str, ...]) -> tuple[Slot, Dims]:
        groups = self._groups([dims for _, dims in operands], wanted, (wanted,))
        terms, slots = [], []
        for slot, dims in operands:
            own = {key for keys in dims for key in keys}
            mine = tuple(dict.fromkeys(group for group in groups if own.issuperset(group)))
            order = ordered(mine, [key for keys in dims for key in keys])
            slots.append(self.draft.reshape(slot, dims, order))
            terms.append(order)
        output = ordered(tuple(dict.fromkeys(groups)), wanted)
        if self.form.product == "einsum":
            return self._einsum(slots, terms, output), output
        product = (tuple(terms), output)
        if product not in self.orders:
            self.orders[product] = pairs(terms, output, {
                group: math.prod(map(self.sizes.__getitem__, group)) for group in groups})
        rounds = self.orders[product]
        for k, dims in enumerate(terms):
            others = {group for n, t in enumerate(terms) if n != k for group in t} | set(output)
            slots[k], terms[k] = self._summed(slots[k], dims, [group for group in dims if group not in others])
        live = set(range(len(terms)))
        for one, other in rounds:
            live -= {one, other}
            outside = {group for k in live for group in terms[k]} | set(output)
            slot, dims = self._pair((slots[one], terms[one]), (slots[other], terms[other]), outside, output)
            live.add(len(slots))
            slots.append(slot)
            terms.append(dims)
        return self.draft.permute(slots[-1], terms[-1], output), output

    def _pair(
        self, one: tuple[Slot, Dims], other: tuple[Slot, Dims], outside: Collection[Keys], output: Dims
    ) -> tuple[Slot, Dims]:
        """Contract two operands to the axes that are still used."""
        kept = tuple(group for group in dict.fromkeys((*one[1], *other[1])) if group in outside)
        made = tuple(sorted(kept, key=lambda g: output.index(g) if g in output else len(output)))
        if self.form.product == "einsum chain":
            return self._einsum([one[0], other[0]], [one[1], other[1]], made), made
        found = roles(one[1], other[1], made)
        if found.summed and not is_matrix_product(found):
            return self._einsum([one[0], other[0]], [one[1], other[1]], made), made
        free = [group for group in made if group not in found.batch]
        if found.summed and free and free[0] in found.columns:
            one, other = other, one
        order = product_order(one[1], other[1], made)
        (a, x), (b, y) = one, other
        return self.draft.add(lambda s: Contract((a, b), (s,), (x, y), order)), order

    def _einsum(self, slots: Sequence[Slot], terms: Sequence[Dims], output: Dims) -> Slot:
        return self.draft.add(lambda s: Einsum(tuple(slots), (s,), tuple(terms), output))

    # ------------------------------------------------------------ places
    def _written(self, number: int, dims: tuple[Dim, ...], rights: Iterator[Sources]) -> Slot | None:
        """Write all parts of an array to their places; None if a sum of it is inside of a product."""
        summands = []
        for dim in dims:
            split = dim[0] if len(dim) == 1 and isinstance(dim[0], Split) else None
            options = split.alternatives if split else (dim,)
            if any(isinstance(item, Split) for option in options for item in option):
                return None
            summands.append(options)
        slots, places, views = [], [], []
        for place in itertools.product(*(range(len(options)) for options in summands)):
            right = part(number, tuple(options[k] for options, k in zip(summands, place)))  # type: ignore[misc]
            wanted = [key for keys in right.dims for key in keys]
            if len(set(wanted)) != len(wanted):
                return None
            slot, own = self._computed(right, next(rights))
            have = {key for group in own for key in group}
            grown = fitting(with_new(own, wanted), right.dims)
            mine = tuple(keys[0] in have for keys in grown)
            if mine and not mine[-1]:  # NumPy would write element by element, where its `repeat` is faster
                return None
            slots.append(self.draft.reshape(slot, own, tuple(itertools.compress(grown, mine))))
            places.append(place)
            views.append((grown, mine))
        joined = tuple(tuple(flat_keys(option) for option in options) for options in summands)
        return self.draft.add(lambda s: Reindex(tuple(slots), (s,), joined, tuple(places), tuple(views)))
