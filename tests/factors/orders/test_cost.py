"""Buckets and costs beside an elimination carried out with arrays."""
from __future__ import annotations

from math import log2, prod
from random import Random

import numpy as np
import pytest

from jitfuse.factors.orders.cost import buckets, cost, postorder
from jitfuse.factors.structure import Structure
from tests.factors.orders.structures import chain, grid, random_structure


def eliminated(structure: Structure, order: list[int]) -> dict[str, float]:
    """Multiply and sum arrays of ones in this order; count what is made and held."""
    sizes = structure.sizes
    held = [({v for v in scope if sizes[v] > 1} or set(scope[:1]), False) for scope in structure.scopes if scope]
    width = most = operations = kept = largest = 0
    states = 1
    for v in order:
        taken = [each for each in held if v in each[0]]
        held = [each for each in held if v not in each[0]]
        scope = set().union({v}, *[names for names, _ in taken])
        table = np.ones([sizes[u] for u in sorted(scope)], bool)
        message = table.any(axis=sorted(scope).index(v))
        live = sum(prod(sizes[u] for u in names) for names, sent in held + taken if sent)
        width, states = max(width, table.ndim), max(states, table.size)
        most, kept, largest = max(most, live + message.size), kept + message.size, max(largest, message.size)
        operations += table.size * max(1, len(taken))
        if message.ndim:
            held.append((scope - {v}, True))
    return {
        "width": width, "states": log2(states), "operations": operations, "numbers": most, "kept": kept,
        "largest": largest,
    }


@pytest.mark.parametrize("seed", range(200))
def test_cost_is_that_of_an_elimination(seed: int) -> None:
    structure = random_structure(seed, 7)
    order = list(range(len(structure.sizes)))
    Random(seed).shuffle(order)
    found = cost(structure, order)
    assert {name: getattr(found, name) for name in found._fields} == eliminated(structure, order)


@pytest.mark.parametrize("seed", range(50))
def test_buckets_are_a_tree_that_holds_all_factors(seed: int) -> None:
    structure = random_structure(seed)
    order = list(range(len(structure.sizes)))
    Random(seed).shuffle(order)
    made = {bucket.variable: bucket for bucket in buckets(structure, order)}
    assert list(made) == order
    assert sorted(f for b in made.values() for f in b.factors) == [f for f, s in enumerate(structure.scopes) if s]
    for v, bucket in made.items():
        assert all(made[child].parent == v for child in bucket.children)
        if bucket.parent is None:
            assert bucket.scope == (v,)
        else:
            assert order.index(bucket.parent) > order.index(v) and v in made[bucket.parent].children
            assert {*bucket.scope} - {v} <= {*made[bucket.parent].scope}
        for factor in bucket.factors:
            assert {u for u in structure.scopes[factor] if structure.sizes[u] > 1} <= {*bucket.scope}


@pytest.mark.parametrize("structure", [grid(5, 6), chain(30), *(random_structure(seed) for seed in range(30))])
def test_postorder_makes_the_same_buckets_with_no_more_memory(structure: Structure) -> None:
    order = list(range(len(structure.sizes)))
    Random(0).shuffle(order)
    made = buckets(structure, order)
    again = postorder(structure.sizes, made)
    assert {(b.variable, b.scope) for b in made} == {(b.variable, b.scope) for b in buckets(structure, again)}
    before, after = cost(structure, order), cost(structure, again)
    assert after.numbers <= before.numbers
    assert (after.states, after.operations, after.kept) == (before.states, before.operations, before.kept)


def test_costs_compare_by_states_then_operations() -> None:
    structure = grid(3, 3)
    good, bad = cost(structure, range(9)), cost(structure, (4, 0, 1, 2, 3, 5, 6, 7, 8))
    assert good < bad and not bad < good
    assert good.bytes() == 8 * good.numbers and good.bytes(keep=True) == 8 * good.kept


@pytest.mark.parametrize("order", [(0, 1), (0, 1, 1), (0, 1, 3), (0, 1, 2, 2)])
def test_an_order_holds_each_variable_once(order: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="each of 3 variables once"):
        buckets(Structure((2, 2, 2), ()), order)
