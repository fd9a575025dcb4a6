"""The dimension solver: sizes of axes, and the number of axes of packs, from the shapes of arrays.

Each axis of an array is an equation: a product of axes, numbers and sums of products that is a known non-negative
integer. Equations with one unknown are solved until none is left; the rest is searched over divisors and bounded
ranges, and the search stops at the second solution. Owns equations and their solutions.
"""
from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from jitfuse.axes.faults import Fault, Place
from jitfuse.axes.parts import Dim, Item, Split, expand, pack_keys
from jitfuse.axes.terms import AxisList, Pack, Product, Sum
from jitfuse.base.records import NamedTuple

MAX_NODES: Final = 20_000
"""Assignments that a search tries."""
Shape = tuple[int, ...]
Given = Mapping[str, int | tuple[int, ...]]


class Solution(NamedTuple):
    """The number of axes of each pack, the axes of all arrays as products of keys, and the size of each key."""

    ranks: dict[str, int]
    lefts: tuple[tuple[Dim, ...], ...]
    rights: tuple[tuple[Dim, ...], ...]
    sizes: dict[str, int]


class Equation(NamedTuple):
    """A product that has a size, and where that is written."""

    dim: Dim
    size: int
    place: Place
    axis: int = 0


class _ContradictionError(Exception):
    def __init__(self, equation: Equation) -> None:
        super().__init__(equation)
        self.equation = equation


def solve(
    lefts: Sequence[AxisList], rights: Sequence[AxisList], whole: Collection[Sum], given: Given,
    shapes: Sequence[Shape],
) -> Solution:
    """Return the only solution for arrays of these shapes.

    Raises:
        Fault: the number of axes does not fit, there is no solution, or there are several.
    """
    found: list[Solution] = []
    fault: Fault | None = None
    for ranks in _ranks(lefts, rights, given, shapes):
        try:
            found.append(_sizes(lefts, rights, whole, given, shapes, ranks))
        except Fault as error:
            if error.code == "ambiguous_sizes":
                raise
            fault = fault or error
        if len(found) > 1:
            pack = next(name for name, rank in ranks.items() if found[0].ranks[name] != rank)
            raise Fault("ambiguous_sizes", (
                f"the pack {pack} may have {found[0].ranks[pack]} axes or {ranks[pack]}"
            ), help=f"Give its sizes: .with_sizes({pack}=(2, 3)).")
    if not found:
        assert fault is not None
        raise fault
    return found[0]


# ---------------------------------------------------------------- packs
def _ranks(
    lefts: Sequence[AxisList], rights: Sequence[AxisList], given: Given, shapes: Sequence[Shape]
) -> Iterator[dict[str, int]]:
    """Yield the numbers of axes that packs may have."""
    ranks = {name: len(sizes) for name, sizes in given.items() if isinstance(sizes, tuple)}
    left: list[tuple[int, list[str], int]] = []
    for k, (axes, shape) in enumerate(zip(lefts, shapes)):
        own = [t.name for t in axes if isinstance(t, Pack)]
        rest = len(shape) - (len(axes) - len(own))
        if rest < 0 or (rest and not own):
            raise Fault("rank_mismatch", (
                f"array {k + 1} has {len(shape)} axes, of sizes {shape}, and {len(axes) - len(own)} are written"
            ), help="Write one term for each axis; a pack stands for any number of them.", place=Place("left", k))
        left.append((rest, own, k))
    unknown = dict.fromkeys(name for _, own, _ in left for name in own if name not in ranks)
    written = {t.name: None for axes in (*lefts, *rights) for t in _packs(axes)}
    other = [name for name in written if name not in ranks and name not in unknown]
    if other:
        raise Fault("ambiguous_sizes", f"nothing tells how many axes the pack {other[0]} has", help=(
            f"Give its sizes: .with_sizes({other[0]}=(2, 3))."))
    found = False
    for solved in _solved(ranks, list(unknown), left):
        found = True
        yield solved
    if not found:
        rest, own, k = left[-1]
        raise Fault("rank_mismatch", f"no numbers of axes of {', '.join(dict.fromkeys(own))} fit the arrays' shapes "
                    f"{', '.join(map(str, shapes))}", help="The same pack has the same number of axes everywhere.",
                    place=Place("left", k))


def _packs(axes: AxisList) -> Iterator[Pack]:
    stack = list(axes)
    while stack:
        term = stack.pop()
        if isinstance(term, Pack):
            yield term
        stack += term.factors if isinstance(term, Product) else term.terms if isinstance(term, Sum) else ()


def _solved(
    ranks: dict[str, int], unknown: list[str], equations: list[tuple[int, list[str], int]]
) -> Iterator[dict[str, int]]:
    """Yield all non-negative solutions of sums of ranks: the narrowest equation is tried first."""
    open_ = []
    for total, own, _ in equations:
        rest = total - sum(ranks[name] for name in own if name in ranks)
        free = [name for name in own if name not in ranks]
        if rest < 0 or (rest and not free):
            return
        if free:
            open_.append((len(set(free)), rest, free))
    if not open_:
        yield ranks
        return
    _, rest, free = min(open_)
    name, times = free[0], free.count(free[0])
    tried = [rest // times] if len(set(free)) == 1 else range(rest // times + 1)
    for rank in tried:
        yield from _solved({**ranks, name: rank}, unknown, equations)


# ---------------------------------------------------------------- sizes
def _sizes(
    lefts: Sequence[AxisList], rights: Sequence[AxisList], whole: Collection[Sum], given: Given,
    shapes: Sequence[Shape], ranks: dict[str, int],
) -> Solution:
    left_dims = tuple(expand(axes, ranks, whole) for axes in lefts)
    right_dims = tuple(expand(axes, ranks, whole) for axes in rights)
    sizes: dict[str, int] = {}
    for name, size in given.items():
        sizes.update(zip(pack_keys(name, len(size)), size) if isinstance(size, tuple) else ((name, size),))
    equations = [
        Equation(dim, n, Place("left", k, term), axis)
        for k, (axes, dims, shape) in enumerate(zip(lefts, left_dims, shapes))
        for axis, (dim, n, term) in enumerate(zip(dims, shape, _terms(axes, ranks)))
    ]
    sums = {str(term): (Split(tuple(_alone(t, ranks) for t in term.terms)),) for term in whole}
    sizes.update({key: total for key, dim in sums.items() if (total := _product(dim, sizes)) is not None})
    start = dict(sizes)
    try:
        waiting = propagate(equations, sizes)
    except _ContradictionError as error:
        raise _inconsistent(error.equation, start, sizes, equations) from None
    if waiting:
        fitting = (found for found in _searched(waiting, sizes) if _misfit(sums, found, start) is None)
        solutions = list(itertools.islice(fitting, 2))
        if not solutions:
            raise _inconsistent(waiting[0], start, sizes, equations)
        if len(solutions) > 1:
            raise _ambiguous(waiting[0], solutions[0], solutions[1], sizes)
        sizes = solutions[0]
    for key in dict.fromkeys(leaf for dims in (*left_dims, *right_dims) for dim in dims for leaf in leaves(dim)):
        if key not in sizes:
            name = key.split(".")[0]
            way_out = f"Give the sizes of the axes in {key}." if key in sums else f"Give it: .with_sizes({name}=3)."
            raise Fault("ambiguous_sizes", f"nothing tells the size of {name}", sizes=sizes, help=way_out)
    if (misfit := _misfit(sums, sizes, start)) is not None:
        raise Fault("inconsistent_sizes", f"{misfit} cannot be {sizes[misfit]}", sizes=sizes,
                    help="Check the numbers in it, and the sizes that are given.")
    return Solution(ranks, left_dims, right_dims, sizes)


def _terms(axes: AxisList, ranks: Mapping[str, int]) -> Iterator[int]:
    """Yield the number of the term that each axis of an array belongs to."""
    for number, term in enumerate(axes):
        yield from itertools.repeat(number, ranks[term.name] if isinstance(term, Pack) else 1)


def _alone(term: object, ranks: dict[str, int]) -> Dim:
    (dim,) = expand(AxisList((Product((term,)),)), ranks, ())  # type: ignore[arg-type]
    return dim


def leaves(dim: Dim) -> Iterator[str]:
    """Yield the keys in a product, those in sums too."""
    for item in dim:
        if isinstance(item, str):
            yield item
        elif isinstance(item, Split):
            for alternative in item.alternatives:
                yield from leaves(alternative)


def _misfit(sums: Mapping[str, Dim], sizes: Mapping[str, int], given: Mapping[str, int]) -> str | None:
    """Return a sum that counts as one axis and cannot have its size, whatever its axes are; or None."""
    equations = {key: Equation(dim, sizes[key], Place("left")) for key, dim in sums.items() if key in sizes}
    return next((key for key, equation in equations.items() if not feasible(equation, given)), None)


def feasible(equation: Equation, given: Mapping[str, int]) -> bool:
    """Return whether an equation has a solution, with all its axes unknown but for the given ones."""
    sizes = dict(given)
    try:
        waiting = propagate([equation], sizes)
    except _ContradictionError:
        return False
    return not waiting or next(_searched(waiting, sizes), None) is not None


def propagate(equations: Sequence[Equation], sizes: dict[str, int]) -> list[Equation]:
    """Solve equations of one unknown until none is left; `sizes` takes what is found. Return those that wait."""
    waiting = list(equations)
    while True:
        before = len(sizes)
        waiting = [e for e in waiting if not _narrow(e.dim, e.size, sizes, e)]
        if len(sizes) == before or not waiting:
            return waiting


def _value(item: Item, sizes: Mapping[str, int]) -> int | None:
    if isinstance(item, int):
        return item
    if isinstance(item, str):
        return sizes.get(item)
    total = 0
    for alternative in item.alternatives:
        value = _product(alternative, sizes)
        if value is None:
            return None
        total += value
    return total


def _product(dim: Dim, sizes: Mapping[str, int]) -> int | None:
    product, unknown = 1, False
    for item in dim:
        value = _value(item, sizes)
        if value is None:
            unknown = True
        else:
            product *= value
    return None if unknown and product else product


def _narrow(dim: Dim, size: int, sizes: dict[str, int], equation: Equation) -> bool:
    """Learn what a product of a size tells; return whether nothing in it is unknown any more."""
    known, unknown = 1, []
    for item in dim:
        value = _value(item, sizes)
        if value is None:
            unknown.append(item)
        else:
            known *= value
    if not unknown:
        if known != size:
            raise _ContradictionError(equation)
        return True
    if known == 0 or size % known:
        if size != 0 or known:
            raise _ContradictionError(equation)
        return False
    rest = size // known
    first = unknown[0]
    if all(item == first for item in unknown):
        root = _root(rest, len(unknown))
        if root is None:
            raise _ContradictionError(equation)
        if isinstance(first, str):
            sizes[first] = root
            return True
        return _narrow_sum(first, root, sizes, equation)  # type: ignore[arg-type]
    if rest == 1:
        done = [_narrow((item,), 1, sizes, equation) for item in unknown]  # each of them learns
        return all(done)
    return False


def _narrow_sum(split: Split, size: int, sizes: dict[str, int], equation: Equation) -> bool:
    unknown = []
    for alternative in split.alternatives:
        value = _product(alternative, sizes)
        if value is None:
            unknown.append(alternative)
        else:
            size -= value
    if size < 0 or (not unknown and size):
        raise _ContradictionError(equation)
    if all(alternative == unknown[0] for alternative in unknown):
        if size % len(unknown):
            raise _ContradictionError(equation)
        return _narrow(unknown[0], size // len(unknown), sizes, equation)
    if size == 0:
        done = [_narrow(alternative, 0, sizes, equation) for alternative in unknown]
        return all(done)
    return False


def _root(value: int, power: int) -> int | None:
    """Return the integer root of a non-negative integer, or None if it has none."""
    if power == 1 or value < 2:
        return value
    guess = round(value ** (1 / power))
    return next((g for g in (guess - 1, guess, guess + 1) if g >= 0 and g**power == value), None)


# ---------------------------------------------------------------- search
def _searched(equations: Sequence[Equation], sizes: dict[str, int]) -> Iterator[dict[str, int]]:
    """Yield the solutions of equations with several unknowns; after `MAX_NODES` tries, the same one twice.

    A search that is cut off cannot tell one solution from several.
    """
    budget = itertools.count()

    def search(equations: Sequence[Equation], sizes: dict[str, int]) -> Iterator[dict[str, int]]:
        key, tried = _narrowest(equations, sizes)
        for value in tried:
            if next(budget) > MAX_NODES:
                raise Fault("ambiguous_sizes", f"the size of {key} has too many possibilities to try", sizes=sizes,
                            help=f"Give it: .with_sizes({key.split('.')[0]}=...).", place=equations[0].place)
            held = {**sizes, key: value}
            try:
                waiting = propagate(equations, held)
            except _ContradictionError:
                continue
            if waiting:
                yield from search(waiting, held)
            else:
                yield held

    return search(equations, dict(sizes))


def _narrowest(equations: Sequence[Equation], sizes: Mapping[str, int]) -> tuple[str, Collection[int]]:
    """Return an unknown key of few possible values, and these."""
    best: tuple[str, Collection[int]] | None = None
    limits: dict[str, int] = {}
    for dim, size, *_ in equations:
        for key in leaves(dim):
            limits[key] = max(limits.get(key, 1), size)
    for dim, size, *_ in equations:
        for key in leaves(dim):
            if key in sizes:
                continue
            tried: Collection[int] = _divisors(size) if size and key in dim else range(limits[key] + 1)
            if best is None or len(tried) < len(best[1]):
                best = key, tried
    assert best is not None
    return best


def _divisors(n: int) -> list[int]:
    small = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return small + [n // d for d in reversed(small) if d * d != n]


# ---------------------------------------------------------------- messages
def _inconsistent(
    equation: Equation, start: Mapping[str, int], sizes: Mapping[str, int], equations: Sequence[Equation]
) -> Fault:
    """Return the error for an equation without a solution; it names the place that says otherwise."""
    known = {k: v for k, v in sizes.items() if k in set(leaves(equation.dim))}
    others = []
    for key in known:
        if key in start:
            others.append(f"{key} = {known[key]} was given")
        elif (other := next((e for e in equations if e is not equation and key in set(leaves(e.dim))), None)):
            others.append(f"{key} = {known[key]} from axis {other.axis + 1} of array {other.place.array + 1}")
    place = equation.place
    reason = f"axis {equation.axis + 1} of array {place.array + 1} has size {equation.size}"
    return Fault("inconsistent_sizes", f"{reason}, but {' and '.join(others) or 'no sizes of its axes give that'}",
                 help="Check the shapes of the arrays and the sizes that are given.", place=place, sizes=sizes)


def _ambiguous(
    equation: Equation, one: Mapping[str, int], other: Mapping[str, int], known: Mapping[str, int]
) -> Fault:
    key = next(k for k in one if one[k] != other[k])
    differing = [k for k in one if one[k] != other[k]]
    texts = [", ".join(f"{k}={s[k]}" for k in differing) for s in (one, other)]
    return Fault("ambiguous_sizes", f"several sizes fit, such as {texts[0]} and {texts[1]}", sizes=known,
                 help=f"Give one of them: .with_sizes({key.split('.')[0]}=...).", place=equation.place)
