"""The judge of sizes: all solutions in non-negative integers, by search, never by algebra.

No size above the largest number of the system is looked for. A larger one stands in products with 0 only, so that 0
and 1 are solutions in its place, and the system is ambiguous in the range as well.
"""
from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from axes.terms import Array, Axis, Number, Operation, Pack, Product, Sum, Term, Whole, leaves, names

Key = tuple[str, int]
"""A name and, of a pack, which of its axes; -1 of an axis."""
Known = dict[Key, int]


class InconsistentError(Exception):
    """No solution."""


class AmbiguousError(Exception):
    """Several solutions."""


class TooHardError(Exception):
    """The search takes too long: no verdict."""


EFFORT = 1000
"""How many steps a search may take."""


def keys_of(leaf: Axis | Pack, ranks: Mapping[str, int]) -> list[Key]:
    """Return the unknowns of a name."""
    return [(leaf.name, -1)] if isinstance(leaf, Axis) else [(leaf.name, i) for i in range(ranks[leaf.name])]


def size_of(term: Term, sizes: Mapping[Key, int], ranks: Mapping[str, int]) -> int:
    """Return the size of a term as one axis of an array."""
    if isinstance(term, Number):
        return term.size
    if isinstance(term, (Axis, Pack)):
        return prod(sizes[key] for key in keys_of(term, ranks))
    if isinstance(term, Whole):
        return size_of(term.of, sizes, ranks)
    inner = [size_of(each, sizes, ranks) for each in term.of]
    return sum(inner) if isinstance(term, Sum) else prod(inner)


def _ranks(
    operation: Operation, shapes: Sequence[tuple[int, ...]], named: Iterable[Axis | Pack]
) -> Iterator[dict[str, int]]:
    packs = [leaf.name for leaf in named if isinstance(leaf, Pack)]
    most = max([2, *map(len, shapes)])
    given = {name: len(size) for name, size in operation.sizes.items() if isinstance(size, tuple)}
    for numbers in itertools.product(*([given[name]] if name in given else range(most + 1) for name in packs)):
        ranks = dict(zip(packs, numbers))
        if all(_rank(array, ranks) == len(shape) for array, shape in zip(operation.left, shapes)):
            yield ranks


def _rank(array: Array, ranks: Mapping[str, int]) -> int:
    return sum(ranks[term.name] if isinstance(term, Pack) else 1 for term in array)


def _equations(
    operation: Operation, shapes: Sequence[tuple[int, ...]], ranks: Mapping[str, int], known: Known
) -> list[tuple[Term, int]] | None:
    """Return terms and their sizes, having put sizes of names into `known`; None where two differ."""
    equations: list[tuple[Term, int]] = []
    for array, shape in zip(operation.left, shapes):
        dims = iter(shape)
        for term in array:
            if isinstance(term, (Axis, Pack)):
                for key in keys_of(term, ranks):
                    dim = next(dims)
                    if known.setdefault(key, dim) != dim:
                        return None
            else:
                equations.append((term, next(dims)))
    return equations


def _narrow(term: Term, size: int, ranks: Mapping[str, int], domains: dict[Key, list[int]]) -> None:
    """Keep the sizes of unknowns that divide a product and are no larger than a sum."""
    if isinstance(term, (Axis, Pack)):
        for key in keys_of(term, ranks):
            domains[key] = [v for v in domains[key] if size == 0 or (v and size % v == 0)]
    elif isinstance(term, Product):
        for inner in term.of if size else ():
            _narrow(inner, size, ranks, domains)
    elif isinstance(term, Sum):
        for inner in term.of:
            if isinstance(inner, Axis):
                domains[inner.name, -1] = [v for v in domains[inner.name, -1] if v <= size]


class _Node:
    """A term of an equation, with the least and the largest size that it may have for now."""

    __slots__ = ("high", "joins", "key", "low", "of")

    def __init__(self, term: Term, ranks: Mapping[str, int]) -> None:
        self.key, self.low, self.high, self.of, self.joins = None, 0, 0, (), isinstance(term, Sum)
        if isinstance(term, Axis):
            self.key = (term.name, -1)
        elif isinstance(term, Number):
            self.low = self.high = term.size
        elif isinstance(term, Pack):
            self.of = tuple(_Node(Axis(""), ranks) for _ in keys_of(term, ranks))
            for node, key in zip(self.of, keys_of(term, ranks)):
                node.key = key
            if not self.of:
                self.low = self.high = 1
        else:
            inner = term.of.of if isinstance(term, Whole) else term.of
            self.of, self.joins = tuple(_Node(each, ranks) for each in inner), isinstance(term, (Sum, Whole))

    def measure(self, low: Known, high: Known) -> None:
        """Set the least and the largest size, of unknowns from `low` to `high`."""
        if self.key is not None:
            self.low, self.high = low[self.key], high[self.key]
        elif self.of:
            for node in self.of:
                node.measure(low, high)
            join = sum if self.joins else prod
            self.low, self.high = join([n.low for n in self.of]), join([n.high for n in self.of])

    def bounds(self, least: int, most: int, narrowed: dict[Key, list[int]]) -> None:
        """Keep the sizes of unknowns for which the term's size is from `least` to `most`."""
        if self.key is not None:
            values = narrowed[self.key]
            if values and (values[0] < least or values[-1] > most):
                narrowed[self.key] = [value for value in values if least <= value <= most]
            return
        for at, node in enumerate(self.of):
            others = self.of[:at] + self.of[at + 1 :]
            if self.joins:
                node.bounds(least - sum(n.high for n in others), most - sum(n.low for n in others), narrowed)
            else:
                low, high = prod(n.low for n in others), prod(n.high for n in others)
                node.bounds(-(-least // high) if least > 0 and high else 0, most // low if low else node.high, narrowed)


def _solutions(
    equations: list[tuple[_Node, int]], domains: dict[Key, list[int]], effort: list[int]
) -> Iterator[Known]:
    """Yield all solutions within the domains; `effort` counts what has been tried."""
    while True:
        effort[0] += 1
        if effort[0] > EFFORT:
            raise TooHardError
        low = {key: domain[0] for key, domain in domains.items()}
        high = {key: domain[-1] for key, domain in domains.items()}
        for node, size in equations:
            node.measure(low, high)
            if not node.low <= size <= node.high:
                return
        if low == high:
            yield low
            return
        narrowed = dict(domains)
        for node, size in equations:
            node.bounds(size, size, narrowed)
        if not all(narrowed.values()):
            return
        if narrowed == domains:
            break
        domains = narrowed
    key = min((key for key in domains if len(domains[key]) > 1), key=lambda key: len(domains[key]))
    for value in domains[key]:
        yield from _solutions(equations, {**domains, key: [value]}, effort)


def _counted(
    free_names: Sequence[Axis | Pack], wholes: Sequence[Sum], ranks: Mapping[str, int], found: Known
) -> tuple[object, ...]:
    """Return what one solution is: the size of each axis, where a sum that counts as one is one."""
    free = [found[k] for leaf in free_names for k in keys_of(leaf, ranks)]
    return (*sorted(ranks.items()), *free, *(size_of(whole, found, ranks) for whole in wholes))


def solve(
    operation: Operation, shapes: Sequence[tuple[int, ...]], wholes: Sequence[Sum] = ()
) -> tuple[Known, dict[str, int]]:
    """Return the sizes of names, and the ranks of packs; raise where there are none or several.

    Names inside of `wholes` have any of the sizes that they may have.
    """
    given = (size if isinstance(size, tuple) else (size,) for size in operation.sizes.values())
    numbers = itertools.chain(*shapes, *given)
    top = max(numbers, default=0) + 1
    first: tuple[tuple[object, ...], Known, dict[str, int]] | None = None
    effort = [0]
    named = list(names(operation).values())
    inside = {leaf for whole in wholes for leaf in leaves(whole)}
    free = [leaf for leaf in named if leaf not in inside]
    for ranks in _ranks(operation, shapes, named):
        known: Known = {}
        for name, size in operation.sizes.items():
            known |= {(name, i): n for i, n in enumerate(size)} if isinstance(size, tuple) else {(name, -1): size}
        equations = _equations(operation, shapes, ranks, known)
        if equations is None:
            continue
        unknown = [key for leaf in named for key in keys_of(leaf, ranks)]
        domains = {key: [known[key]] if key in known else list(range(top + 1)) for key in unknown}
        for term, size in equations:
            _narrow(term, size, ranks, domains)
        if not all(domains.values()):
            continue
        nodes = [(_Node(term, ranks), size) for term, size in equations]
        for found in _solutions(nodes, domains, effort):
            counted = _counted(free, wholes, ranks, found)
            if first is None:
                first = counted, found, dict(ranks)
            elif first[0] != counted:
                raise AmbiguousError
    if first is None:
        raise InconsistentError
    return first[1], first[2]
