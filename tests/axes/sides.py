"""Random sides of operations over named axes: flat parts put into arrays as products, sums and orders at random."""
from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from axes.sizes import Known
from axes.terms import Array, Axis, Number, Pack, Product, Side, Sum, Term, flat, leaves

Leaf = Axis | Pack | Number


class Draw:
    """Draws sides of operations. Names are used up in order, so that patterns read alike."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.letters, self.pack_letters = iter("abcdefghijklmnopqrstuvwxyz"), iter("PQRSTUVW")
        self.sizes: Known = {}
        self.ranks: dict[str, int] = {}
        self.weights = rng.choices(([2, 12, 40, 36, 10], [0, 50, 30, 20, 0], [25, 15, 40, 20, 0]), (60, 25, 15))[0]
        """How often sizes of 0, 1, 2, 3 and 4 are drawn: in some operations often 1, in some often 0."""

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def _size(self) -> int:
        return self.rng.choices(range(5), self.weights)[0]

    def axis(self) -> Axis:
        axis = Axis(next(self.letters))
        self.sizes[axis.name, -1] = self._size()
        return axis

    def pack(self) -> Pack:
        pack = Pack(next(self.pack_letters))
        rank = self.ranks[pack.name] = self.rng.choices((0, 1, 2, 3), (25, 25, 35, 15))[0]
        self.sizes |= {(pack.name, i): self._size() for i in range(rank)}
        return pack

    def leaf(self, packs: float = 0.2, numbers: float = 0.0) -> Leaf:
        if self.chance(numbers):
            return Number(self.rng.choices((2, 3, 0), (60, 35, 5))[0])
        return self.pack() if self.chance(packs) else self.axis()

    def leaves(self, least: int, most: int, packs: float = 0.2, numbers: float = 0.0) -> list[Leaf]:
        return [self.leaf(packs, numbers) for _ in range(self.rng.randint(least, most))]

    def shuffled(self, items: Sequence[Term]) -> list[Term]:
        return self.rng.sample(list(items), len(items))

    def some(self, items: Sequence[Leaf], share: float = 0.6) -> list[Leaf]:
        return [item for item in items if self.chance(share)]

    def term(self, factors: Sequence[Term]) -> Term:
        """Return one term that holds the factors, with products in products at times."""
        if not factors:
            return Number(1)
        if len(factors) == 1:
            return Product((Number(1), factors[0])) if self.chance(0.04) else factors[0]
        if len(factors) > 2 and self.chance(0.4):
            at = self.rng.randint(0, len(factors) - 2)
            return self.term((*factors[:at], Product((factors[at], factors[at + 1])), *factors[at + 2 :]))
        return Product(tuple(factors))

    def array(self, factors: Sequence[Term], diagonal: float = 0.06) -> Array:
        """Return an array with the factors in any order, alone or in products, with 1 and repeated names at times."""
        every = self.shuffled(factors)
        named = [item for item in every if isinstance(item, (Axis, Pack))]
        if named and self.chance(diagonal):
            every.insert(self.rng.randint(0, len(every)), self.rng.choice(named))
        grouped: list[Term] = []
        while every:
            count = min(len(every), self.rng.choices((1, 2, 3), (65, 25, 10))[0])
            grouped.append(self.term(every[:count]))
            every = every[count:]
        if self.chance(0.12):
            grouped.insert(self.rng.randint(0, len(grouped)), Number(1))
        return tuple(grouped)

    def sum(self, depth: int = 0) -> Sum:
        """Return a sum of new axes, numbers, products and sums in products."""
        summands: list[Term] = []
        for _ in range(self.rng.choices((2, 3), (75, 25))[0]):
            choice = self.rng.random()
            if choice < 0.55:
                summands.append(self.axis())
            elif choice < 0.75:
                summands.append(self.term([self.axis(), self.leaf(0.3, 0.15)]))
            elif choice < 0.85 and depth == 0:
                summands.append(self.term(self.shuffled([self.axis(), self.sum(1)])))
            else:
                summands.append(Number(self.rng.choice((1, 1, 1, 2, 0))))
        if all(isinstance(leaf, Number) for each in summands for leaf in leaves(each)):
            summands[0] = self.axis()
        return Sum(tuple(self.shuffled(summands)))

    def reordered(self, term: Term) -> Term:
        """Return a term with factors and summands in another order."""
        if isinstance(term, (Product, Sum)):
            inner = [self.reordered(each) for each in term.of]
            return type(term)(tuple(self.shuffled(inner) if self.chance(0.6) else inner))
        return term

    def rearranged(self, array: Array) -> Array:
        """Return an array of the same axes, with sums as they are or in another order."""
        factors: list[Term] = []
        for term in map(flat, array):
            factors.extend(term.of if isinstance(term, Product) else [term])
        return self.array([self.reordered(factor) for factor in dict.fromkeys(factors) if factor != Number(1)], 0.03)


def chosen(term: Term) -> list[list[Leaf]]:
    """Return the leaves of each choice of summands."""
    if isinstance(term, Sum):
        return [each for inner in term.of for each in chosen(inner)]
    if isinstance(term, Product):
        found: list[list[Leaf]] = [[]]
        for inner in term.of:
            found = [before + more for before in found for more in chosen(inner)]
        return found
    return [[term]]  # type: ignore[list-item]


def flat_parts(array: Array) -> list[list[Leaf]]:
    """Return the different axes of each part, numbers as often as they are there."""
    found = []
    for leaves_of in chosen(Product(array)):
        kept = list(dict.fromkeys(leaf for leaf in leaves_of if not isinstance(leaf, Number)))
        found.append([*kept, *(leaf for leaf in leaves_of if isinstance(leaf, Number) and leaf.size != 1)])
    return found


def _joined(draw: Draw, one: list[Leaf], two: list[Leaf]) -> Array:
    both = list((Counter(one) & Counter(two)).elements())
    rests = [list((Counter(part) - Counter(both)).elements()) for part in (one, two)]
    return draw.array([*both, Sum(tuple(draw.term(draw.shuffled(rest)) for rest in rests))], 0.02)


def _split(draw: Draw) -> Array:
    """Return an array with one or two sums."""
    factors: list[Term] = [*draw.leaves(0, 2), draw.sum()]
    if draw.chance(0.3):
        factors.append(draw.sum(1))
    return draw.array(factors)


def _rearrange(draw: Draw) -> tuple[Side, Side]:
    form = draw.rng.random()
    if form < 0.4:
        left: list[Array] = []
        for _ in range(draw.rng.choices((1, 2, 3), (75, 18, 7))[0]):
            factors = draw.leaves(draw.rng.choice((0, 1, 2, 2)), 5, numbers=0.12)
            left += [draw.array(factors)] * (2 if draw.chance(0.05) else 1)
        return tuple(left), tuple(draw.shuffled([draw.rearranged(a) for a in left]))  # type: ignore[arg-type]
    left = [_split(draw) for _ in range(draw.rng.choices((1, 2), (85, 15))[0])]
    if form < 0.6:
        right = [draw.rearranged(array) for array in left]
    else:
        every = draw.shuffled([part for array in left for part in flat_parts(array)])  # type: ignore[arg-type, misc]
        if draw.chance(0.5):
            every = [part for array in left for part in flat_parts(array)]  # type: ignore[misc]
        right = []
        while every:
            if len(every) > 1 and draw.chance(0.45):
                right.append(_joined(draw, every.pop(0), every.pop(0)))  # type: ignore[arg-type]
            else:
                right.append(draw.array(every.pop(0), 0.03))  # type: ignore[arg-type]
    sides = tuple(left), tuple(right)
    return sides if draw.chance(0.5) else sides[::-1]


def _view(draw: Draw) -> tuple[Side, Side]:
    left, right = _rearrange(draw)
    if len(left) > 1:
        left, right = right, left
    if draw.chance(0.75) and len(left) == 1 == len(right):  # in order, as views are
        factors = draw.leaves(1, 5)
        order = draw.array(factors, 0.0)
        inner = [leaf for term in order for leaf in leaves(term) if leaf != Number(1)]
        left, right = (order,), (_grouped(draw, inner),)
        if draw.chance(0.5):
            left, right = right, left
    return left, right


def _grouped(draw: Draw, factors: list[Leaf]) -> Array:
    grouped: list[Term] = []
    while factors:
        count = draw.rng.choices((1, 2, 3), (40, 40, 20))[0]
        grouped.append(draw.term(factors[:count]))
        factors = factors[count:]
    return tuple(grouped)


def _repeat(draw: Draw) -> tuple[Side, Side]:
    new = draw.leaves(0, 2, packs=0.25, numbers=0.3)
    form = draw.rng.random()
    if form < 0.55:
        factors = draw.leaves(draw.rng.choice((0, 1, 1, 2)), 4, numbers=0.08)
        return (draw.array(factors),), (draw.array([*factors, *new]),)
    if form < 0.8:  # several parts of one
        factors = draw.leaves(0, 3)
        summands = [draw.term(draw.shuffled(draw.leaves(0, 2, numbers=0.3))) for _ in range(draw.rng.randint(2, 3))]
        return (draw.array(factors),), (draw.array([*factors, Sum(tuple(summands)), *draw.some(new, 0.3)]),)
    left = _split(draw)
    return (left,), (draw.array([*draw.rearranged(left), *new]),)


def _reduce(draw: Draw) -> tuple[Side, Side]:
    left, right = _repeat(draw)
    if draw.chance(0.75):
        return right, left
    if draw.chance(0.5):
        factors = draw.leaves(1, 5, numbers=0.05)
        outs = [draw.term(draw.some(factors, 0.5)) for _ in range(draw.rng.randint(2, 3))]
        return (draw.array(factors),), (draw.array([Sum(tuple(outs))], 0.0),)
    return left, tuple(draw.rearranged(array) for array in left)


def _contract(draw: Draw) -> tuple[Side, Side]:
    every = draw.leaves(1, 6, packs=0.2)
    batch = draw.some(every, 0.25)
    left: list[Array] = []
    used: list[Leaf] = []
    for _ in range(draw.rng.choices((1, 2, 3, 4, 5), (15, 45, 22, 10, 8))[0]):
        factors = list(dict.fromkeys([*batch, *draw.some(every, 0.45)]))
        used += [factor for factor in factors if factor not in used]
        left.append(draw.array(factors))
    right = []
    for _ in range(draw.rng.choices((1, 2, 3), (65, 25, 10))[0]):
        right.append(draw.array(draw.some(used, 0.55)))
    if draw.chance(0.2):  # an operand of several parts
        split = draw.sum(1)
        at = draw.rng.randrange(len(left))
        left[at] = draw.array([*dict.fromkeys(flat_parts(left[at])[0]), split], 0.0)
        out = draw.some(used, 0.5)
        if draw.chance(0.5):
            right = [draw.array([*out, draw.reordered(split)], 0.02)]
        else:
            right = [draw.array([*part, *out], 0.02) for part in chosen(split)]
    if len(left) == 1 and draw.chance(0.3):
        left[0] = (*left[0], Number(draw.rng.choice((2, 3))))
    return tuple(left), tuple(right)


def _einop(draw: Draw) -> tuple[Side, Side]:
    form = draw.rng.random()
    if form < 0.2:
        return _rearrange(draw)
    if form < 0.4:
        return _repeat(draw)
    if form < 0.5:
        return _reduce(draw)
    left, right = _contract(draw)
    if draw.chance(0.35):
        right = tuple(draw.array([*array, *draw.leaves(0, 1, numbers=0.2)], 0.0) for array in right)
    return left, right


def spoilt(draw: Draw, left: Side, right: Side) -> tuple[Side, Side]:
    """Return sides of which one lacks a term, or has another in its place: most are refused."""
    sides = [list(left), list(right)]
    side = draw.rng.choice(sides)
    at = draw.rng.randrange(len(side))
    array = list(side[at])
    if array:
        array[draw.rng.randrange(len(array))] = draw.leaf(0.2, 0.2) if draw.chance(0.5) else Number(1)
    else:
        array.append(draw.leaf(0.2, 0.2))
    side[at] = tuple(array)
    return tuple(sides[0]), tuple(sides[1])


SIDES = {
    "view": _view, "rearrange": _rearrange, "repeat": _repeat, "reduce": _reduce, "contract": _contract,
    "einop": _einop,
}
