"""The dimension solver: sizes of axes, and the number of axes of packs, from the shapes of arrays.

Each axis of an array is an equation (`jitfuse.axes.equations`); the search for solutions stops at the second one. Owns
the ranks of packs, what counts as a solution, and the messages.
"""
from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

from jitfuse.axes.equations import ContradictionError, Equation, feasible, leaves, product, propagate, searched
from jitfuse.axes.faults import Fault, Place
from jitfuse.axes.parts import Dim, Split, expand, pack_keys
from jitfuse.axes.terms import AxisList, Pack, Product, Sum
from jitfuse.base.records import NamedTuple

Shape = tuple[int, ...]
Given = Mapping[str, int | tuple[int, ...]]


class Solution(NamedTuple):
    """The number of axes of each pack, the axes of all arrays as products of keys, and the size of each key."""

    ranks: dict[str, int]
    lefts: tuple[tuple[Dim, ...], ...]
    rights: tuple[tuple[Dim, ...], ...]
    sizes: dict[str, int]


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
    unknown = _unknown_packs(lefts, rights, given)
    for ranks in _ranks(lefts, dict.fromkeys(unknown, 1), given, shapes):
        try:
            found.append(_sizes(lefts, rights, whole, given, shapes, ranks))
        except Fault as error:
            if error.code != "ambiguous_sizes":
                fault = fault or error
                continue
            if not unknown:
                raise
        if unknown:  # one axis has all sizes that any number of them has: so there are solutions
            raise Fault("ambiguous_sizes", f"nothing tells how many axes the pack {unknown[0]} has", help=(
                f"Give its sizes: .with_sizes({unknown[0]}=(2, 3))."))
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
def _unknown_packs(lefts: Sequence[AxisList], rights: Sequence[AxisList], given: Given) -> list[str]:
    """Return the packs of which no array tells the number of axes: they stand within terms on the left, if at all."""
    told = {t.name for axes in lefts for t in axes if isinstance(t, Pack)}.union(given)
    written = (t.name for axes in (*lefts, *rights) for term in axes for t in term.leaves() if isinstance(t, Pack))
    return [name for name in dict.fromkeys(written) if name not in told]


def _ranks(
    lefts: Sequence[AxisList], unknown: Mapping[str, int], given: Given, shapes: Sequence[Shape]
) -> Iterator[dict[str, int]]:
    """Yield the numbers of axes that packs may have; those of the packs that no array tells are given."""
    ranks = {**unknown, **{name: len(sizes) for name, sizes in given.items() if isinstance(sizes, tuple)}}
    left: list[tuple[int, list[str], int]] = []
    for k, (axes, shape) in enumerate(zip(lefts, shapes)):
        own = [t.name for t in axes if isinstance(t, Pack)]
        rest = len(shape) - (len(axes) - len(own))
        if rest < 0 or (rest and not own):
            raise Fault("rank_mismatch", (
                f"array {k + 1} has {len(shape)} axes, of sizes {shape}, and {len(axes) - len(own)} are written"
            ), help="Write one term for each axis; a pack stands for any number of them.", place=Place("left", k))
        left.append((rest, own, k))
    found = False
    for solved in _solved(ranks, left):
        found = True
        yield solved
    if not found:
        known = [(rest, own, k) for rest, own, k in left if all(name in ranks for name in own)]
        wrong = [(rest, own, k) for rest, own, k in known if rest != sum(ranks[name] for name in own)]
        _, own, k = (wrong or [array for array in left if array[1]] or left)[0]
        raise Fault("rank_mismatch", f"no numbers of axes of {', '.join(dict.fromkeys(own))} fit the arrays' shapes "
                    f"{', '.join(map(str, shapes))}", help="The same pack has the same number of axes everywhere.",
                    place=Place("left", k))


def _solved(
    ranks: dict[str, int], equations: list[tuple[int, list[str], int]]
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
        yield from _solved({**ranks, name: rank}, equations)


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
    sizes.update({key: total for key, dim in sums.items() if (total := product(dim, sizes)) is not None})
    start = dict(sizes)
    try:
        waiting = propagate(equations, sizes)
    except ContradictionError as error:
        raise _inconsistent(error.equation, start, sizes, equations) from None
    if waiting:
        least = {key: product(dim, {**dict.fromkeys(leaves(dim), 1), **sizes}) or 0 for key, dim in sums.items()}
        fitting = (found for found in searched(waiting, sizes, least) if _misfit(sums, found, start) is None)
        solutions = list(itertools.islice(fitting, 2))
        if not solutions:
            raise _inconsistent(waiting[0], start, sizes, equations)
        if len(solutions) > 1:
            raise _ambiguous(waiting[0], solutions[0], solutions[1], sizes)
        sizes = solutions[0]
    if (misfit := _misfit(sums, sizes, start)) is not None:
        raise Fault("inconsistent_sizes", f"{misfit} cannot be {sizes[misfit]}", sizes=sizes,
                    help="Check the numbers in it, and the sizes that are given.")
    for key in dict.fromkeys(leaf for dims in (*left_dims, *right_dims) for dim in dims for leaf in leaves(dim)):
        if key not in sizes:
            name = key.split(".")[0]
            way_out = f"Give the sizes of the axes in {key}." if key in sums else f"Give it: .with_sizes({name}=3)."
            raise Fault("ambiguous_sizes", f"nothing tells the size of {name}", sizes=sizes, help=way_out)
    return Solution(ranks, left_dims, right_dims, sizes)


def _terms(axes: AxisList, ranks: Mapping[str, int]) -> Iterator[int]:
    """Yield the number of the term that each axis of an array belongs to."""
    for number, term in enumerate(axes):
        yield from itertools.repeat(number, ranks[term.name] if isinstance(term, Pack) else 1)


def _alone(term: object, ranks: dict[str, int]) -> Dim:
    (dim,) = expand(AxisList((Product((term,)),)), ranks, ())  # type: ignore[arg-type]
    return dim


def _misfit(sums: Mapping[str, Dim], sizes: Mapping[str, int], given: Mapping[str, int]) -> str | None:
    """Return a sum that counts as one axis and cannot have its size, whatever its axes are; or None."""
    equations = {key: Equation(dim, sizes[key], Place("left")) for key, dim in sums.items() if key in sizes}
    return next((key for key, equation in equations.items() if not feasible(equation, given)), None)


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
    name = key.split(".")[0]
    way_out = f"Give one of them: .with_sizes({name}=...)." if name.isidentifier() else (
        f"Give the sizes of the axes in {name}.")
    return Fault("ambiguous_sizes", f"several sizes fit, such as {texts[0]} and {texts[1]}", sizes=known,
                 help=way_out, place=equation.place)
