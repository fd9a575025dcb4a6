"""Parts: what sums of axes split an array into, and which of its axes each part has.

Owns the expansion of packs, the sums that count as one axis, and the order of parts. Axes are known by keys from here
on: an axis by its name, the axes of a pack as "tail.0", a sum that counts as one axis by its text, and the first axis
of size 3 without a name in a part as "3#0".
"""
from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from jitfuse.axes.terms import AxisList, NamedAxis, Number, Pack, Sum, Term
from jitfuse.base.records import NamedTuple


class Split(NamedTuple):
    """A sum of axes: each alternative is a product."""

    alternatives: tuple[Dim, ...]


Leaf = str | int
"""An axis' key, or a size without a name."""
Item = str | int | Split
Dim = tuple[Item, ...]
"""One axis of an array: a product of items. The empty product is an axis of size 1."""
Keys = tuple[str, ...]


class Part(NamedTuple):
    """One part of an array: the keys of the axes that each axis of the array holds in it."""

    array: int
    dims: tuple[Keys, ...]
    axes: frozenset[str]


def whole_sums(lists: Collection[AxisList]) -> frozenset[Sum]:
    """Return the sums that are written the same wherever their axes stand: each counts as one axis."""
    terms = [t for one in lists for t in one]
    sums = {s for t in terms for s in _sums(t)}
    if not sums:
        return frozenset()
    everywhere = [name for t in terms for name in names(t)]
    found = set()
    for s in sums:
        inside = names(s)
        times = sum(_count(t, s) for t in terms)
        if inside and all(everywhere.count(name) == times * inside.count(name) for name in inside):
            found.add(s)
    return frozenset(s for s in found if not any(s != other and s in _sums(other) for other in found))


def names(term: Term) -> list[str]:
    """Return the names of axes and packs in a term, as often as they stand there."""
    return [leaf.name for leaf in term.leaves() if isinstance(leaf, NamedAxis | Pack)]


def _sums(term: Term) -> Iterator[Sum]:
    if isinstance(term, Sum):
        yield term
    for inner in term.inner:
        yield from _sums(inner)


def _count(term: Term, wanted: Sum) -> int:
    return 1 if term == wanted else sum(_count(inner, wanted) for inner in term.inner)


def expand(axes: AxisList, ranks: Mapping[str, int], whole: Collection[Sum]) -> tuple[Dim, ...]:
    """Return an array's axes as products of keys, for packs of these numbers of axes."""
    dims: list[Dim] = []
    for term in axes:
        if isinstance(term, Pack):
            dims += [(key,) for key in pack_keys(term.name, ranks[term.name])]
        else:
            dims.append(_product(term, ranks, whole))
    return tuple(dims)


def pack_keys(name: str, rank: int) -> Keys:
    """Return the keys of a pack's axes."""
    return tuple(f"{name}.{k}" for k in range(rank))


def _product(term: Term, ranks: Mapping[str, int], whole: Collection[Sum]) -> Dim:
    if isinstance(term, NamedAxis):
        return (term.name,)
    if isinstance(term, Number):
        return () if term.value == 1 else (term.value,)
    if isinstance(term, Pack):
        return pack_keys(term.name, ranks[term.name])
    if isinstance(term, Sum):
        return (str(term),) if term in whole else (Split(tuple(_product(t, ranks, whole) for t in term.terms)),)
    return tuple(item for factor in term.inner for item in _product(factor, ranks, whole))


def parts(array: int, dims: tuple[Dim, ...]) -> list[Part]:
    """Return the parts of an array, the choice of its first sum changing slowest."""
    return [part(array, chosen) for chosen in itertools.product(*map(_choices, dims))]


def part(array: int, dims: tuple[tuple[Leaf, ...], ...]) -> Part:
    """Return the part with these axes: sizes without a name get keys in their order."""
    if not any(isinstance(leaf, int) for dim in dims for leaf in dim):
        named: tuple[Keys, ...] = dims  # type: ignore[assignment]
        return Part(array, named, frozenset(itertools.chain(*named)))
    seen: Counter[int] = Counter()
    keyed = []
    for dim in dims:
        keys = []
        for leaf in dim:
            if isinstance(leaf, int):
                keys.append(f"{leaf}#{seen[leaf]}")
                seen[leaf] += 1
            else:
                keys.append(leaf)
        keyed.append(tuple(keys))
    return Part(array, tuple(keyed), frozenset(itertools.chain(*keyed)))


def _choices(dim: Dim) -> list[tuple[Leaf, ...]]:
    found: list[tuple[Leaf, ...]] = [()]
    for item in dim:
        if isinstance(item, Split):
            inner = [choice for alternative in item.alternatives for choice in _choices(alternative)]
            found = [(*chosen, *more) for chosen in found for more in inner]
        else:
            found = [(*chosen, item) for chosen in found]
    return found
