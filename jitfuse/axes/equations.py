"""Equations of sizes: a product of axes, numbers and sums of products that is a known non-negative integer.

Equations with one unknown are solved until none is left; the rest is searched over divisors and bounded ranges. Owns
what one set of equations says. Does not own where they come from (`jitfuse.axes.sizes`).
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from jitfuse.axes.faults import Fault, Place
from jitfuse.axes.parts import Dim, Item, Split
from jitfuse.base.records import NamedTuple

MAX_NODES: Final = 20_000
"""Assignments that a search tries."""


class Equation(NamedTuple):
    """A product that has a size, and where that is written."""

    dim: Dim
    size: int
    place: Place
    axis: int = 0


class ContradictionError(Exception):
    """An equation has no solution."""

    def __init__(self, equation: Equation) -> None:
        super().__init__(equation)
        self.equation = equation


def leaves(dim: Dim) -> Iterator[str]:
    """Yield the keys in a product, those in sums too."""
    for item in dim:
        if isinstance(item, str):
            yield item
        elif isinstance(item, Split):
            for alternative in item.alternatives:
                yield from leaves(alternative)


def feasible(equation: Equation, given: Mapping[str, int]) -> bool:
    """Return whether an equation has a solution, with all its axes unknown but for the given ones."""
    sizes = dict(given)
    try:
        waiting = propagate([equation], sizes)
    except ContradictionError:
        return False
    return not waiting or next(searched(waiting, sizes), None) is not None


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
        value = product(alternative, sizes)
        if value is None:
            return None
        total += value
    return total


def product(dim: Dim, sizes: Mapping[str, int]) -> int | None:
    """Return the size of a product, or None if it is not known."""
    total, unknown = 1, False
    for item in dim:
        value = _value(item, sizes)
        if value is None:
            unknown = True
        else:
            total *= value
    return None if unknown and total else total


def _narrow(dim: Dim, size: int, sizes: dict[str, int], equation: Equation) -> bool:
    """Learn what a product of a size tells; return whether nothing in it is unknown any more."""
    known, unknown = 1, []
    for item in dim:
        value = sizes.get(item) if type(item) is str else _value(item, sizes)
        if value is None:
            unknown.append(item)
        else:
            known *= value
    if not unknown:
        if known != size:
            raise ContradictionError(equation)
        return True
    if known == 0 or size % known:
        if size != 0 or known:
            raise ContradictionError(equation)
        return False
    rest = size // known
    first = unknown[0]
    if all(item == first for item in unknown):
        root = _root(rest, len(unknown))
        if root is None:
            raise ContradictionError(equation)
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
        value = product(alternative, sizes)
        if value is None:
            unknown.append(alternative)
        else:
            size -= value
    if size < 0 or (not unknown and size):
        raise ContradictionError(equation)
    if all(alternative == unknown[0] for alternative in unknown):
        if size % len(unknown):
            raise ContradictionError(equation)
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
def searched(
    equations: Sequence[Equation], sizes: dict[str, int], least: Mapping[str, int] = MappingProxyType({})
) -> Iterator[dict[str, int]]:
    """Yield the solutions of equations with several unknowns, but not all where there are more than two.

    A factor of 0 leaves others any size: for these 0 and 1 are tried, or up to what is in `least`.

    Raises:
        Fault: `MAX_NODES` assignments do not tell how many there are.
    """
    budget = itertools.count()

    def search(equations: Sequence[Equation], sizes: dict[str, int]) -> Iterator[dict[str, int]]:
        key, tried = _narrowest(equations, sizes, least)
        for value in tried:
            if next(budget) > MAX_NODES:
                raise Fault("ambiguous_sizes", f"the size of {key} has too many possibilities to try", sizes=sizes,
                            help=f"Give it: .with_sizes({key.split('.')[0]}=...).", place=equations[0].place)
            held = {**sizes, key: value}
            try:
                waiting = propagate(equations, held)
            except ContradictionError:
                continue
            if waiting:
                yield from search(waiting, held)
            else:
                yield held

    return search(equations, dict(sizes))


def _narrowest(
    equations: Sequence[Equation], sizes: Mapping[str, int], least: Mapping[str, int]
) -> tuple[str, Collection[int]]:
    """Return an unknown key of few possible values, and these."""
    best: tuple[str, Collection[int]] | None = None
    limits: dict[str, int] = {}
    for dim, size, *_ in equations:
        for key in leaves(dim):
            limits[key] = max(limits.get(key, least.get(key, 1)), size)
    for dim, size, *_ in equations:
        for key, most in _bounds(dim, size, sizes, positive=size > 0):
            limits[key] = min(limits[key], most)
    for dim, size, *_ in equations:
        for key in leaves(dim):
            if key in sizes:
                continue
            tried: Collection[int] = _divisors(size) if size and key in dim else range(limits[key] + 1)
            if best is None or len(tried) < len(best[1]):
                best = key, tried
    assert best is not None
    return best


def _bounds(dim: Dim, most: int, sizes: Mapping[str, int], *, positive: bool) -> Iterator[tuple[str, int]]:
    """Yield unknown keys and the largest size of each in a product of a size up to `most`.

    Of several unknown factors nothing is known where one may be 0; a product that is `positive` has none.
    """
    values = [_value(item, sizes) for item in dim]
    known = math.prod(value for value in values if value is not None)
    unknown = [item for item, value in zip(dim, values) if value is None]
    if known == 0 or (len(unknown) > 1 and not positive):
        return
    for item in unknown:
        if isinstance(item, str):
            yield item, most // known
        elif isinstance(item, Split):
            summands = [product(alternative, sizes) for alternative in item.alternatives]
            rest = most // known - sum(value for value in summands if value is not None)
            for alternative, value in zip(item.alternatives, summands):
                if value is None:
                    yield from _bounds(alternative, rest, sizes, positive=False)


def _divisors(n: int) -> list[int]:
    small = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return small + [n // d for d in reversed(small) if d * d != n]
