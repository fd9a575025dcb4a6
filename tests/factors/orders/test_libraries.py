"""Orders made of other libraries' findings."""
from __future__ import annotations

import importlib.util
import sys
from random import Random

import pytest

from jitfuse.errors import ArgumentError
from jitfuse.factors.orders.cost import buckets, cost
from jitfuse.factors.orders.libraries import library_order, order_of_decomposition, order_of_path
from jitfuse.factors.orders.search import best_order
from jitfuse.factors.structure import Structure
from tests.factors.orders.structures import grid, random_structure


@pytest.mark.parametrize("seed", range(40))
def test_an_order_of_a_decomposition_stays_within_its_bags(seed: int) -> None:
    structure = random_structure(seed)
    count = len(structure.sizes)
    structure = Structure((2,) * count, structure.scopes)
    order = list(range(count))
    Random(seed).shuffle(order)
    made = buckets(structure, order)
    place = {bucket.variable: i for i, bucket in enumerate(made)}
    edges = [(i, place[bucket.parent]) for i, bucket in enumerate(made) if bucket.parent is not None]
    found = order_of_decomposition(count, [bucket.scope for bucket in made], edges)
    bags = [{*bucket.scope} for bucket in made]
    assert all(any({*bucket.scope} <= bag for bag in bags) for bucket in buckets(structure, found))


@pytest.mark.parametrize("seed", range(40))
def test_an_order_of_a_path_has_tables_no_larger_than_the_products(seed: int) -> None:
    structure = random_structure(seed)
    chance = Random(seed)
    left, path = len(structure.scopes), []
    while left > 1:
        path.append(tuple(chance.sample(range(left), 2)))
        left -= 1
    found = order_of_path(structure, path)
    assert sorted(found) == list(range(len(structure.sizes)))


@pytest.mark.parametrize("name", ["goatd", "opt_einsum", "cotengra"])
def test_a_library_is_one_more_candidate(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    structure = grid(6, 6)
    assert cost(structure, library_order(name, structure)).width <= 11
    found = best_order(structure, budget=100, libraries=(name,))
    assert name in [candidate.method for candidate in found.candidates] and found.cost.width == 7


def test_a_library_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "goatd", None)
    with pytest.raises(ArgumentError, match="pip install goatd"):
        library_order("goatd", grid(2, 2))
    with pytest.raises(ArgumentError, match="there is no 'metis'"):
        library_order("metis", grid(2, 2))
