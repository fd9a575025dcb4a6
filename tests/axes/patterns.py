"""Random operations over named axes, of small arrays, nearly all well formed: what the judge and jitfuse are asked.

Sides are drawn from flat parts, which are put into arrays as products, sums and orders at random, so that most fit
together; the judge says which do, and draws that it refuses are kept as tests of errors for a small share.
"""
from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from axes.oracle import Judged, Unclear, Verdict, wholes
from axes.sizes import Ambiguous, Inconsistent, Known, TooHard, size_of, solve
from axes.sources import Refused
from axes.terms import (
    Array,
    Axis,
    Number,
    Operation,
    Pack,
    Product,
    Side,
    Sum,
    Term,
    can_be_written,
    flat,
    leaves,
    names,
)

KINDS = ("view", "rearrange", "repeat", "reduce", "contract", "einop")
REFUSED = 0.05
"""The share of operations that the page refuses."""
ELEMENTS, ITERATIONS = 300, 3000
"""The most of an array, and of the index space of one part."""
Leaf = Axis | Pack | Number


class Pattern(NamedTuple):
    """An operation, its arrays as Python expressions over `np`, and their dtype."""

    operation: Operation
    arrays: tuple[str, ...]
    dtype: str
    shapes: tuple[tuple[int, ...], ...]


class Draw:
    """Draws sides of operations. Names are used up in order, so that patterns read alike."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.letters, self.pack_letters = iter("abcdefghijklmnopqrstuvwxyz"), iter("PQRSTUVW")
        self.sizes: Known = {}
        self.ranks: dict[str, int] = {}

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def axis(self) -> Axis:
        axis = Axis(next(self.letters))
        self.sizes[axis.name, -1] = self.rng.choices((0, 1, 2, 3, 4), (2, 12, 40, 36, 10))[0]
        return axis

    def pack(self) -> Pack:
        pack = Pack(next(self.pack_letters))
        rank = self.ranks[pack.name] = self.rng.choices((0, 1, 2, 3), (25, 25, 35, 15))[0]
        self.sizes |= {(pack.name, i): self.rng.choices((0, 1, 2, 3), (3, 20, 50, 27))[0] for i in range(rank)}
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
    if draw.chance(0.4) and len(left) == 1 == len(right):  # in order, as views are
        factors = draw.leaves(1, 5)
        order = [draw.array(factors, 0.0) for _ in range(1)][0]
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


SIDES = {
    "view": _view, "rearrange": _rearrange, "repeat": _repeat, "reduce": _reduce, "contract": _contract, "einop": _einop,
}
DTYPES = ("int64", "int32", "int8", "bool", "float32", "float64", "complex64", "complex128")


def _reducer(draw: Draw, dtype: str, gone: list[Leaf]) -> str | tuple[tuple[tuple[Axis | Pack, ...], str], ...]:
    kind = dtype.rstrip("0123456789")
    allowed = ["sum", "mean", "prod", "any", "all", "squares", "var"]
    if kind == "bool":
        allowed = ["sum", "mean", "any", "all", "max", "min"]
    elif kind != "complex":
        allowed += ["max", "min", "logsumexp"]
    named = list(dict.fromkeys(leaf for leaf in gone if not isinstance(leaf, Number)))
    if len(named) == len(gone) and len(named) > 1 and draw.chance(0.4) and kind in ("int", "float"):
        order = draw.shuffled(named)
        at = draw.rng.randint(1, len(order) - 1)
        smooth = ["sum", "mean", "max", "min"]
        return tuple((tuple(axes), draw.rng.choice(smooth)) for axes in (order[:at], order[at:]))  # type: ignore[misc]
    return draw.rng.choice(allowed)


def _gone(left: Side, right: Side) -> list[Leaf] | None:
    """Return what one part on the left has more than one on the right; None of more parts."""
    if len(left) != 1 or len(right) != 1 or any(isinstance(t, Sum) for t in _subterms((*left[0], *right[0]))):
        return None
    there = {leaf for term in right[0] for leaf in leaves(term)}
    return [leaf for term in left[0] for leaf in leaves(term) if leaf not in there and leaf != Number(1)]


def _subterms(terms: Sequence[Term]) -> list[Term]:
    found: list[Term] = []
    for term in terms:
        found.append(term)
        if isinstance(term, (Product, Sum)):
            found += _subterms(term.of)
    return found


def _values(rng: random.Random, count: int, dtype: str, kind: str, reducer: object) -> str:
    """Return a NumPy expression of numbers whose sums and products are exact, different ones where they only move."""
    drawn = f"np.random.default_rng({rng.randrange(1000)})"
    if dtype == "bool":
        return f"({drawn}.random({count}) < 0.5)"
    if kind in ("view", "rearrange", "repeat") and dtype != "int8":
        return f"({drawn}.permutation({count}) + 1)"
    few = "[-1, 1, 2]" if reducer == "prod" or kind in ("contract", "einop") else "range(-3, 4)"
    if dtype.startswith("complex"):
        return f"({drawn}.choice({few}, {count}) + 1j * {drawn}.choice([-1, 0, 1], {count}))"
    return f"{drawn}.choice({few}, {count})" + (" / 4" if dtype.startswith("float") and reducer != "prod" else "")


def _expression(rng: random.Random, shape: tuple[int, ...], dtype: str, kind: str, reducer: object) -> str:
    """Return a NumPy expression of an array of the shape, in one of several layouts."""
    layout = rng.choice(("plain", "plain", "fortran", "transposed", "negative", "broadcast", "stepped"))
    rank, after = len(shape), ""
    stored = list(shape)
    if layout == "transposed" and rank > 1:
        order = rng.sample(range(rank), rank)
        stored = [0] * rank
        for at, axis in enumerate(order):
            stored[axis] = shape[at]
        after = f".transpose({', '.join(map(str, order))})"
    elif layout == "negative" and rank:
        after = "[" + ", ".join(rng.choice((":", "::-1")) for _ in shape) + "]"
    elif layout == "broadcast" and rank and (wide := [i for i, n in enumerate(shape) if n > 1]):
        stored[rng.choice(wide)] = 1
        after = f", {shape})"
    elif layout == "stepped" and rank and math.prod(shape) <= ELEMENTS // 2:
        at = rng.randrange(rank)
        stored[at] *= 2
        after = "[" + ":, " * at + "::2]"
    values = _values(rng, math.prod(stored), dtype, kind, reducer)
    shaped = ", ".join(map(str, stored)) + "," * (len(stored) == 1)
    order_of = ', order="F"' if layout == "fortran" else ""
    text = f"np.asarray({values}, {dtype!r}).reshape(({shaped}){order_of})"
    return f"np.broadcast_to({text}{after}" if after.startswith(", ") else text + after


def _fits(draw: Draw, operation: Operation, verdict: Verdict | None) -> bool:
    for array in (*operation.left, *operation.right):
        if not all(map(can_be_written, array)):
            return False
        if math.prod(size_of(term, draw.sizes, draw.ranks) for term in array) > ELEMENTS:
            return False
    everything = [leaf for leaf in names(operation).values()]
    if math.prod(max(1, size_of(leaf, draw.sizes, draw.ranks)) for leaf in everything) > 40 * ITERATIONS:
        return False
    for made_of in verdict.sources if verdict else ():
        within = {leaf for at in made_of for term in operation.left[verdict.left[at].array] for leaf in leaves(term)}
        if math.prod(max(1, size_of(leaf, draw.sizes, draw.ranks)) for leaf in within) > ITERATIONS:
            return False
    return True


def _shape(draw: Draw, array: Array) -> tuple[int, ...]:
    shape: list[int] = []
    for term in array:
        if isinstance(term, Pack):
            shape += [draw.sizes[term.name, i] for i in range(draw.ranks[term.name])]
        else:
            shape.append(size_of(term, draw.sizes, draw.ranks))
    return tuple(shape)


def _given(draw: Draw, operation: Operation, shapes: Sequence[tuple[int, ...]], ambiguous: bool) -> Operation | None:
    """Return the operation with the sizes that it needs, and some more; None where none are missing and some should be."""
    every = {
        name: draw.sizes[name, -1] if isinstance(leaf, Axis)
        else tuple(draw.sizes[name, i] for i in range(draw.ranks[name]))
        for name, leaf in names(operation).items()
    }
    share = draw.rng.choice((0.0, 0.0, 0.2, 0.5))
    given = {name for name in every if draw.chance(share)}
    for name in [None, *draw.rng.sample(list(every), len(every))]:
        given |= {name} if name else set()
        if len(given) < len(every) and len(every) - len(given) > 6:
            continue
        trial = operation._replace(sizes={name: every[name] for name in every if name in given})
        try:
            solve(trial, shapes, wholes(operation))
        except Ambiguous:
            if ambiguous:
                return trial
            continue
        except TooHard:
            continue
        return None if ambiguous else trial
    return None


def draw_pattern(kind: str, rng: random.Random) -> Pattern:
    """Return a random operation of a kind with its arrays."""
    error = rng.choice(("sides", "ambiguous", "inconsistent")) if rng.random() < REFUSED else None
    while True:
        found = _attempt(kind, rng, error)
        if found is not None:
            return found


def _attempt(kind: str, rng: random.Random, error: str | None) -> Pattern | None:
    draw = Draw(rng)
    left, right = SIDES[kind](draw)
    one_left = len(left) == 1 and (kind in ("view", "repeat", "reduce") or draw.chance(0.9))
    one_right = len(right) == 1 and (kind in ("repeat", "reduce") or draw.chance(0.9))
    if (kind in ("view", "repeat", "reduce") and len(left) > 1) or (kind in ("repeat", "reduce") and len(right) > 1):
        return None
    dtype = draw.rng.choice(DTYPES)
    if kind == "contract" and dtype == "bool":
        dtype = "float64"
    gone = _gone(left, right)
    reducer = _reducer(draw, dtype, gone or []) if kind == "reduce" else None
    if kind == "einop" and len(left) == 1 and draw.chance(0.5):
        reducer = _reducer(draw, dtype, gone or [])
    if kind == "einop" and dtype == "bool" and reducer is None:
        dtype = "int64"
    operation = Operation(kind, left, right, {}, reducer, one_left, one_right)
    verdict = None
    try:
        verdict = Verdict(operation, draw.ranks)
    except Refused:
        pass
    except Unclear:
        return None
    if (verdict is None) != (error == "sides") or not _fits(draw, operation, verdict):
        return None
    if verdict and reducer not in (None, "sum") and max(map(len, verdict.sources), default=0) > 1:
        return None
    shapes = [_shape(draw, array) for array in left]
    given = _given(draw, operation, shapes, error == "ambiguous")
    if given is None:
        return None
    if error == "inconsistent":
        given = _spoilt(draw, given, shapes)
        if given is None:
            return None
    arrays = tuple(_expression(rng, shape, dtype, kind, reducer) for shape in shapes)
    return Pattern(given, arrays, dtype, tuple(shapes))


def _spoilt(draw: Draw, operation: Operation, shapes: list[tuple[int, ...]]) -> Operation | None:
    """Change a size of the arrays (in place) or a size given so that there is no solution."""
    axes = [(i, j) for i, shape in enumerate(shapes) for j in range(len(shape))]
    if not axes:
        return None
    i, j = draw.rng.choice(axes)
    before = shapes[i]
    shapes[i] = (*before[:j], before[j] + 1, *before[j + 1 :])
    try:
        solve(operation, shapes, wholes(operation))
    except Inconsistent:
        return operation
    except (Ambiguous, TooHard):
        pass
    return None


__all__ = ["KINDS", "Judged", "Pattern", "draw_pattern"]
