"""Systems of sizes with no, one or many solutions in non-negative integers, each to be classified right.

The judge counts solutions of small numbers: each size up to the largest number of the system and one more.
"""
from __future__ import annotations

import itertools
import random
from math import prod
from typing import Any, Final

import numpy as np
import pytest
from axes.compared import built
from axes.sides import flat_parts
from axes.sizes import AmbiguousError, InconsistentError, solve
from axes.terms import Axis, Number, Operation, Pack, Product, Sum, Term, can_be_written, written

from jitfuse.axes import ax, axes, rearrange
from jitfuse.errors import AxesError

COUNT: Final = 500
NAMES: Final = ("a", "b", "c")
RANKS: Final = 3
"""Packs in products have up to so many axes in the judge's count: one that has some has any number, with 1s."""


def _term(rng: random.Random, depth: int = 0) -> Term:
    kind = rng.random()
    if depth == 2 or kind < 0.35:
        return Axis(rng.choice(NAMES)) if rng.random() < 0.85 else Number(rng.choice((2, 3, 1, 0)))
    if kind < 0.4:
        return Product((Axis(rng.choice(NAMES)), Pack("P")))
    inner = [_term(rng, depth + 1) for _ in range(rng.choice((2, 2, 3)))]
    if all(isinstance(each, Number) for each in inner[:2]):
        inner[0] = Axis(rng.choice(NAMES))
    return Product(tuple(inner)) if kind < 0.75 else Sum(tuple(inner))


def _system(rng: random.Random) -> tuple[Operation, list[tuple[int, ...]]]:
    """Return an operation whose left side is the system, and shapes."""
    sizes = {name: rng.choices((0, 1, 2, 3), (12, 18, 40, 30))[0] for name in NAMES}
    pack = tuple(rng.choices((1, 2), k=rng.choice((0, 1, 1, 2))))
    arrays, shapes = [], []
    for _ in range(rng.choice((1, 1, 2))):
        terms = [_term(rng) for _ in range(rng.randint(1, 3))]
        shape = [_size(term, sizes, pack) for term in terms]
        if rng.random() < 0.2:
            terms.append(Pack("P"))
            shape += pack
        if not all(map(can_be_written, terms)):
            return _system(rng)
        if rng.random() < 0.25 and shape:
            shape[rng.randrange(len(shape))] = rng.choice((0, 1, 2, 4, 5, 6))
        arrays.append(tuple(terms))
        shapes.append(tuple(shape))
    given: dict[str, Any] = {name: sizes[name] for name in NAMES if rng.random() < 0.2}
    given |= {"P": pack} if rng.random() < 0.8 else {}
    most = max([0, *itertools.chain(*shapes)])
    if most > (12 if "P" in given else 6):
        return _system(rng)
    operation = Operation("rearrange", tuple(arrays), (), given, one_left=False, one_right=False)
    used = set(_names(operation))
    return operation._replace(sizes={name: size for name, size in given.items() if name in used}), shapes


def _size(term: Term, sizes: dict[str, int], pack: tuple[int, ...]) -> int:
    if isinstance(term, Axis):
        return sizes[term.name]
    if isinstance(term, Number):
        return term.size
    if isinstance(term, Pack):
        return prod(pack)
    assert isinstance(term, (Product, Sum))
    inner = [_size(each, sizes, pack) for each in term.of]
    return prod(inner) if isinstance(term, Product) else sum(inner)


def _names(operation: Operation) -> list[str]:
    found: list[str] = []

    def visit(term: Term) -> None:
        if isinstance(term, (Axis, Pack)):
            found.append(term.name)
        elif isinstance(term, (Product, Sum)):
            for each in term.of:
                visit(each)

    for array in operation.left:
        for term in array:
            visit(term)
    return found


def count(operation: Operation, shapes: list[tuple[int, ...]]) -> int:
    """Return how many solutions there are, 2 for several, trying all."""
    used = [name for name in NAMES if name in _names(operation)]
    top = max([0, *itertools.chain(*shapes), *(n for n in operation.sizes.values() if isinstance(n, int))]) + 2
    packs: list[tuple[int, ...]] = [()]
    if "P" in _names(operation):
        given = operation.sizes.get("P")
        packs = [given] if isinstance(given, tuple) else [
            pack for rank in range(RANKS) for pack in itertools.product(range(top), repeat=rank)
        ]
    found = 0
    for values in itertools.product(*(_range(operation, name, top) for name in used)):
        for pack in packs:
            found += _holds(operation, shapes, dict(zip(used, values)), pack)
            if found > 1:
                return 2
    return found


def _range(operation: Operation, name: str, top: int) -> list[int]:
    given = operation.sizes.get(name)
    return [given] if isinstance(given, int) else list(range(top))


def _holds(
    operation: Operation, shapes: list[tuple[int, ...]], sizes: dict[str, int], pack: tuple[int, ...]
) -> bool:
    for array, shape in zip(operation.left, shapes):
        wanted: list[int] = []
        for term in array:
            wanted += pack if isinstance(term, Pack) else [_size(term, sizes, pack)]
        if tuple(wanted) != shape:
            return False
    return True


def _taken_apart(operation: Operation) -> Operation:
    """Return the operation that gives each part by itself: only sizes can fail, and no sum counts as one axis."""
    right = tuple(tuple(part) for array in operation.left for part in flat_parts(array))
    return operation._replace(kind="rearrange", right=right)


def classified(operation: Operation, shapes: list[tuple[int, ...]]) -> str:
    """Return what jitfuse makes of the sizes."""
    try:
        built(_taken_apart(operation))(*(np.zeros(shape) for shape in shapes))
    except AxesError as error:
        return str(error.code)
    return "unique"


@pytest.mark.parametrize("seed", range(20))
def test_the_search_counts_as_trying_all_does(seed: int) -> None:
    rng = random.Random(f"search {seed}")
    for _ in range(COUNT // 20):
        operation, shapes = _system(rng)
        try:
            solve(operation, shapes)
            found = 1
        except AmbiguousError:
            found = 2
        except InconsistentError:
            found = 0
        assert found == count(operation, shapes), (written(operation), shapes)


@pytest.mark.parametrize("seed", range(20))
def test_systems_are_classified_as_trying_all_does(seed: int) -> None:
    rng = random.Random(f"systems {seed}")
    for _ in range(COUNT // 20):
        operation, shapes = _system(rng)
        wanted = ("inconsistent_sizes", "unique", "ambiguous_sizes")[count(operation, shapes)]
        assert classified(operation, shapes) == wanted, (written(_taken_apart(operation)), shapes)


def test_sums_bound_their_axes() -> None:
    a, c, f, g = axes(*"acfg")
    op = rearrange((ax[6 * a + 20 * f], ax[f + 12 * a * c], ax[4 * a + 5 * f * g]),
                   (ax[6, a], ax[20, f], ax[f], ax[12, a, c], ax[4, a], ax[5, f, g]))
    made = op(np.zeros(52), np.zeros(50), np.zeros(28))
    assert [x.shape for x in made] == [(6, 2), (20, 2), (2,), (12, 2, 2), (4, 2), (5, 2, 2)]


def test_a_sum_beside_a_zero_has_any_size_that_it_may_have() -> None:
    a, b, c = axes(*"abc")
    op = rearrange(ax[a * (8 * b + c)], ax[a, 8 * b + c]).with_sizes(a=0, c=1)
    with pytest.raises(AxesError, match=r"(?s)ambiguous_sizes.*Give the sizes of the axes"):
        op(np.zeros(0))
    assert op.with_sizes(b=2)(np.zeros(0)).shape == (0, 17)
