"""Forms: the choices that make one candidate of an operation's plans, and the steps of each.

Arrays are cut into parts, each part on the right is made of its sources by one of several forms, and parts are joined.
Forms differ in what is grouped when (`Grouping`), in how products are formed (`Product`), in whether arrays are split
before them or behind (`Sharing`), and in whether parts are joined or written to their places (`Assembly`). Owns the
steps of a form. Does not own which forms are tried (`jitfuse.axes.plans.lowering`).
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from jitfuse.axes.parts import Dim, Keys, Part, Split, part
from jitfuse.axes.plans.draft import Draft, flat_keys, leaves
from jitfuse.axes.plans.grouping import fitting, ordered, runs, together, with_new
from jitfuse.axes.plans.paths import pairs
from jitfuse.axes.plans.products import Contract, Einsum, is_matrix_product, product_order, roles
from jitfuse.axes.plans.sharing import Shared, shared_products
from jitfuse.axes.plans.steps import Dims, Slot
from jitfuse.axes.plans.structural import Reindex
from jitfuse.axes.reducers import Reducer
from jitfuse.axes.routing import Sources
from jitfuse.axes.sizes import Solution
from jitfuse.base.records import NamedTuple

Grouping = Literal["as written", "merged", "as wanted"]
Product = Literal["einsum", "einsum chain", "contract chain"]
Sharing = Literal["split first", "contract first"]
Assembly = Literal["concat", "reindex"]
Phases = tuple[tuple[frozenset[str], Reducer], ...]
Orders = dict[tuple[tuple[Dims, ...], Dims], list[tuple[int, int]]]
"""In which order the operands of a product meet: forms share it."""


class Form(NamedTuple):
    """The choices of one candidate."""

    grouping: Grouping
    product: Product
    sharing: Sharing
    assembly: Assembly


class Operation(NamedTuple):
    """What is lowered: all axes with their sizes, the parts of both sides, the sources of each, the reductions."""

    solution: Solution
    lefts: tuple[Part, ...]
    rights: tuple[Part, ...]
    sources: tuple[Sources, ...]
    phases: Phases
    """Axes and how they are reduced, in order; axes in none of them are summed in their own dtype."""


def _shared(operation: Operation) -> list[Shared]:
    """Return the products that parts share, if there are products."""
    if len(operation.rights) == 1 or all(len(own) == 1 for own in operation.sources):
        return []
    return shared_products(operation.solution.lefts, operation.lefts, operation.rights, operation.sources)


class _Target(NamedTuple):
    """A part of a result while it is made: its axes, what it is made of, and what may be grouped.

    `neighbours` are keys of which the second follows the first wherever either stands, with whether they are one axis
    as written, and one axis of the part.
    """

    number: object
    """What tells it from other parts: its place among those of all results."""
    dims: Dims
    wanted: tuple[str, ...]
    """Its keys, once each, in order."""
    operands: tuple[tuple[Slot, Dims], ...]
    neighbours: tuple[tuple[str, str, bool, bool], ...]


class Forms:
    """All candidates: what two of them do alike is made once."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.draft = Draft(len(operation.solution.lefts))
        self.sizes: Mapping[str, int] = operation.solution.sizes
        pieces = [piece for k, dims in enumerate(operation.solution.lefts) for piece in self.draft.unfold(k, k, dims)]
        sources = iter(enumerate(operation.sources))
        self.targets = []
        for k, dims in enumerate(operation.solution.rights):
            rights = [(next(sources), part(k, chosen)) for chosen in leaves(dims)]  # type: ignore[arg-type]
            self.targets.append([
                self._target(n, right.dims, [pieces[s] for s in own]) for (n, own), right in rights])
        self.orders: Orders = {}
        self._computed: dict[object, tuple[Slot, Dims]] = {}
        self.shared = {n: (k, shared) for shared in _shared(operation) for k, n in enumerate(shared.rights)}
        """The products that parts on the right share, and which part of them each is."""
        self._sharing = {shared.rights: self._joint(shared, pieces) for _, shared in self.shared.values()}

    def _target(self, number: object, right: Dims, pieces: Sequence[tuple[Slot, Part]]) -> _Target:
        self.draft.scope = number
        operands = [self.draft.without_repeats(slot, left.dims) for slot, left in pieces]
        if len(operands) > 1:
            slots = self.draft.promote([slot for slot, _ in operands])
            operands = [(slot, dims) for slot, (_, dims) in zip(slots, operands)]
        wanted = tuple(dict.fromkeys(key for keys in right for key in keys))
        target = right if len(operands) == 1 else (wanted,)
        neighbours = self._neighbours([dims for _, dims in operands], wanted, target)
        return _Target(number, right, wanted, tuple(operands), neighbours)

    def _joint(self, shared: Shared, pieces: Sequence[tuple[Slot, Part]]) -> _Target:
        """Return the product that several parts share, with the sum as one axis."""
        self.draft.scope = -1
        operands = [pieces[s] for s in shared.sources]
        operands[shared.place] = self.draft.unfold(shared.array, shared.array, shared.dims)[shared.part]
        inside = shared.summands[0]
        keys = [key for keys in self.operation.rights[shared.rights[0]].dims for key in keys if key not in inside]
        have = frozenset().union(*(left.axes for _, left in operands))
        target = self._target(shared.rights, (*((key,) for key in keys if key in have), (shared.key,)), operands)
        return target._replace(neighbours=tuple(pair for pair in target.neighbours if shared.key not in pair))

    def _reads_several(self, targets: Sequence[_Target]) -> bool:
        """Whether parts of a result are made of several arrays."""
        read = [k for target in targets for k in self.operation.sources[target.number]]  # type: ignore[call-overload]
        return len({self.operation.lefts[k].array for k in read}) > 1

    def outputs(self, form: Form) -> tuple[Slot, ...] | None:
        """Return the slots of the results, or None if there is no plan of this form."""
        made = []
        for array, (dims, targets) in enumerate(zip(self.operation.solution.rights, self.targets)):
            if form.assembly == "reindex":
                slot = self._written(array, dims, targets, form)
            else:
                parts = [self._built(target, form) for target in targets]
                self.draft.scope = -2 - array
                if len(parts) > 2 and self._reads_several(targets):
                    parts = list(self.draft.promote(parts))  # two by two, three dtypes would have another common one
                slot = self.draft.fold(dims, iter(parts))
            if slot is None:
                return None
            made.append(slot)
        return tuple(made)

    # ------------------------------------------------------------ one part
    def _built(self, target: _Target, form: Form) -> Slot:
        """Make a part on the right, with its own axes."""
        slot, dims = self._from_left(target, form)
        wanted, own = target.wanted, target.dims
        grown = with_new(dims, wanted)
        slot = self.draft.expand(slot, dims, grown)
        everything = [key for keys in own for key in keys]
        if len(everything) != len(wanted):
            single: Dims = tuple((key,) for key in wanted)
            slot, grown = self.draft.with_repeats(self.draft.reshape(slot, grown, single), single, everything)
        return self.draft.reshape(slot, grown, own)

    def _from_left(self, target: _Target, form: Form) -> tuple[Slot, Dims]:
        """Make the axes of a part that come from the left, once each and in order, in groups."""
        if form.sharing == "split first" or target.number not in self.shared:
            return self._computed_alone(target, form)
        number, shared = self.shared[target.number]
        slot, dims = self._computed_alone(self._sharing[shared.rights], form)
        axis = dims.index((shared.key,))
        slot = self.draft.cut(slot, axis, shared.summands)[number]
        dims = (*dims[:axis], shared.summands[number], *dims[axis + 1 :])
        self.draft.scope = target.number
        groups = together(dims, target.wanted)
        order = ordered(groups, target.wanted)
        return self.draft.permute(self.draft.reshape(slot, dims, groups), groups, order), order

    def _computed_alone(self, target: _Target, form: Form) -> tuple[Slot, Dims]:
        """Make the axes of a part, or of a product that parts share, of its own operands."""
        self.draft.scope = target.number
        follows = {one: other for one, other, written, aimed in target.neighbours
                   if form.grouping == "merged" or (written if form.grouping == "as written" else aimed)}
        key = target.number, tuple(follows), form.product
        found = self._computed.get(key)
        if found is None:
            groups = [tuple(runs([k for keys in dims for k in keys], follows)) for _, dims in target.operands]
            make = self._alone if len(groups) == 1 else self._product
            found = self._computed[key] = make(target, groups, form.product)
        return found

    def _alone(self, target: _Target, groups: Sequence[Dims], product: Product) -> tuple[Slot, Dims]:
        """Reduce and permute the only operand."""
        slot, dims = self.draft.reshape(*target.operands[0], groups[0]), groups[0]
        gone = {key for group in dims for key in group}.difference(target.wanted)
        for keys, reducer in self.operation.phases:
            reduced = [group for group in dims if keys.issuperset(group) and gone.issuperset(group)]
            slot, dims = self.draft.reduce(slot, dims, reduced, reducer)
        slot, dims = self._summed(slot, dims, [group for group in dims if gone.issuperset(group)])
        order = ordered(dims, target.wanted)
        return self.draft.permute(slot, dims, order), order

    def _summed(self, slot: Slot, dims: Dims, gone: Sequence[Keys]) -> tuple[Slot, Dims]:
        return self.draft.reduce(slot, dims, gone, "+") if gone else (slot, dims)

    # ------------------------------------------------------------ groups
    def _neighbours(
        self, arrays: Sequence[Dims], wanted: Sequence[str], target: Dims
    ) -> tuple[tuple[str, str, bool, bool], ...]:
        """Return the keys that may be one axis: they stay neighbours, and are used alike."""
        written = {pair for dims in arrays for keys in dims for pair in itertools.pairwise(keys)}
        aims = {key: d for d, keys in enumerate(target) for key in keys}
        orders = [[key for keys in dims for key in keys] for dims in arrays]
        next_wanted = dict(itertools.pairwise(wanted))
        found = {}
        for pair in (pair for order in orders for pair in itertools.pairwise(order)):
            one, other = pair
            if one in aims or other in aims:
                if next_wanted.get(one) != other:
                    continue
            elif not self._reduced_together(one, other):
                continue
            if pair not in found and (len(orders) == 1 or self._stay(orders, one, other)):
                found[pair] = one, other, pair in written, aims.get(one) == aims.get(other)
        return tuple(found.values())

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
    def _product(self, target: _Target, groups: Sequence[Dims], product: Product) -> tuple[Slot, Dims]:
        slots = [self.draft.reshape(*operand, own) for operand, own in zip(target.operands, groups)]
        terms, every = list(groups), tuple(dict.fromkeys(itertools.chain(*groups)))
        output = ordered(every, target.wanted)
        if product == "einsum":
            return self._einsum(slots, terms, output), output
        meeting = (tuple(terms), output)
        if meeting not in self.orders:
            self.orders[meeting] = pairs(terms, output, {
                group: math.prod(map(self.sizes.__getitem__, group)) for group in every})
        rounds = self.orders[meeting]
        for k, dims in enumerate(terms):
            others = {group for n, t in enumerate(terms) if n != k for group in t} | set(output)
            slots[k], terms[k] = self._summed(slots[k], dims, [group for group in dims if group not in others])
        live = set(range(len(terms)))
        for one, other in rounds:
            live -= {one, other}
            outside = {group for k in live for group in terms[k]} | set(output)
            slot, dims = self._pair((slots[one], terms[one]), (slots[other], terms[other]), outside, output, product)
            live.add(len(slots))
            slots.append(slot)
            terms.append(dims)
        return self.draft.permute(slots[-1], terms[-1], output), output

    def _pair(
        self, one: tuple[Slot, Dims], other: tuple[Slot, Dims], outside: Collection[Keys], output: Dims,
        product: Product,
    ) -> tuple[Slot, Dims]:
        """Contract two operands to the axes that are still used."""
        kept = tuple(group for group in dict.fromkeys((*one[1], *other[1])) if group in outside)
        made = tuple(sorted(kept, key=lambda g: output.index(g) if g in output else len(output)))
        if product == "einsum chain":
            return self._einsum([one[0], other[0]], [one[1], other[1]], made), made
        found = roles(one[1], other[1], made)
        if found.summed and not is_matrix_product(found):
            return self._einsum([one[0], other[0]], [one[1], other[1]], made), made
        free = [group for group in made if group not in found.batch]
        if found.summed and free and free[0] in found.columns:
            one, other = other, one
        order = product_order(one[1], other[1], made)
        return self.draft.add(Contract, (one[0], other[0]), (one[1], other[1]), order), order

    def _einsum(self, slots: Sequence[Slot], terms: Sequence[Dims], output: Dims) -> Slot:
        return self.draft.add(Einsum, tuple(slots), tuple(terms), output)

    # ------------------------------------------------------------ places
    def _written(self, array: int, dims: tuple[Dim, ...], targets: Sequence[_Target], form: Form) -> Slot | None:
        """Write all parts of an array to their places; None if a sum of it is inside of a product."""
        summands = []
        for dim in dims:
            split = dim[0] if len(dim) == 1 and isinstance(dim[0], Split) else None
            options = split.alternatives if split else (dim,)
            if any(isinstance(item, Split) for option in options for item in option):
                return None
            summands.append(options)
        slots, views = [], []
        for target in targets:
            wanted = [key for keys in target.dims for key in keys]
            if len(target.wanted) != len(wanted):
                return None
            slot, own = self._from_left(target, form)
            have = {key for group in own for key in group}
            grown = fitting(with_new(own, wanted), target.dims)
            mine = tuple(keys[0] in have for keys in grown)
            if mine and not mine[-1]:  # NumPy would write element by element, where its `repeat` is faster
                return None
            slots.append(self.draft.reshape(slot, own, tuple(itertools.compress(grown, mine))))
            views.append((grown, mine))
        joined = tuple(tuple(flat_keys(option) for option in options) for options in summands)
        places = tuple(itertools.product(*(range(len(options)) for options in summands)))
        self.draft.scope = -2 - array
        return self.draft.add(Reindex, tuple(slots), joined, places, tuple(views))
