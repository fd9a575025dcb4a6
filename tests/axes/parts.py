"""Parts of sides: what sums on the left split into and sums on the right join; and the axes of a part."""
from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from axes.sizes import keys_of
from axes.terms import Axis, Number, Operation, Pack, Product, Side, Sum, Term, Whole, flat, leaves

AxisKey = tuple[Any, int]


class Choice(NamedTuple):
    """One summand of a sum of axes."""

    of: Sum
    chosen: int
    term: Any


class Numbered(NamedTuple):
    """A number, the how many-th of its size in a part."""

    size: int
    number: int


class Part(NamedTuple):
    array: int
    terms: tuple[Any, ...]


def _sums(term: Term) -> Iterator[Sum]:
    if isinstance(term, (Product, Sum)):
        if isinstance(term, Sum):
            yield term
        for inner in term.of:
            yield from _sums(inner)


def _named(term: Term) -> Counter[Any]:
    return Counter(leaf for leaf in leaves(term) if not isinstance(leaf, Number))


def wholes(operation: Operation) -> list[Sum]:
    """Return the sums that are written the same wherever their axes stand; of nested ones the outermost."""
    terms = [flat(term) for array in (*operation.left, *operation.right) for term in array]
    everywhere = Counter(leaf for term in terms for leaf in leaves(term))
    often = Counter(found for term in terms for found in _sums(term))
    whole = [
        found for found, times in often.items()
        if all(everywhere[leaf] == times * n for leaf, n in _named(found).items())
    ]
    return [found for found in whole if not any(found in list(_sums(other))[1:] for other in whole)]


def with_wholes(term: Term, whole: list[Sum]) -> Term:
    if isinstance(term, (Product, Sum)):
        if term in whole:
            assert isinstance(term, Sum)
            return Whole(term)
        return type(term)(tuple(with_wholes(inner, whole) for inner in term.of))
    return term


def _choices(term: Term) -> Iterator[Any]:
    if isinstance(term, Sum):
        for at, inner in enumerate(term.of):
            for chosen in _choices(inner):
                yield Choice(term, at, chosen)
    elif isinstance(term, Product):
        for factors in itertools.product(*map(list, map(_choices, term.of))):
            yield Product(tuple(factors))
    else:
        yield term


def _numbered(term: Any, seen: Counter[int]) -> Any:
    if isinstance(term, Choice):
        return term._replace(term=_numbered(term.term, seen))
    if isinstance(term, Product):
        return Product(tuple(_numbered(inner, seen) for inner in term.of))
    if isinstance(term, Number) and term.size != 1:
        seen[term.size] += 1
        return Numbered(term.size, seen[term.size])
    return term


def parts(side: Side, whole: list[Sum]) -> list[Part]:
    """Return the parts of a side, in order."""
    found = []
    for at, array in enumerate(side):
        terms = [list(_choices(with_wholes(flat(term), whole))) for term in array]
        for chosen in itertools.product(*terms):
            seen: Counter[int] = Counter()
            found.append(Part(at, tuple(_numbered(term, seen) for term in chosen)))
    return found


def term_keys(term: Any, ranks: Mapping[str, int] | None) -> list[AxisKey]:
    """Return the axes of a term of a part; a pack is one axis where no ranks are given."""
    if isinstance(term, Choice):
        return term_keys(term.term, ranks)
    if isinstance(term, Product):
        return [key for inner in term.of for key in term_keys(inner, ranks)]
    if isinstance(term, Numbered):
        return [(str(term.size), term.number)]
    if isinstance(term, Whole):
        return [(term.of, -1)]
    if isinstance(term, Pack) and ranks is None:
        return [(term.name, 0)]
    return keys_of(term, ranks) if isinstance(term, (Axis, Pack)) else []  # type: ignore[arg-type, return-value]


def axis_keys(part: Part, ranks: Mapping[str, int] | None) -> list[AxisKey]:
    """Return the different axes of a part, in the order of writing."""
    return list(dict.fromkeys(key for term in part.terms for key in term_keys(term, ranks)))


def repeats(part: Part) -> bool:
    """Return whether a part is a diagonal."""
    every = [key for term in part.terms for key in term_keys(term, None)]
    return len(every) != len(set(every))
