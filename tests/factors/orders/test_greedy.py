"""Greedy rules beside the same rules computed anew for each elimination."""
from __future__ import annotations

from itertools import combinations

import pytest

from jitfuse.factors.orders.cost import cost
from jitfuse.factors.orders.greedy import WEIGHTED, Rule, greedy_order, weights_of
from jitfuse.factors.structure import Structure
from tests.factors.orders.structures import complete, cycle, grid, random_structure, tree


def plainly(structure: Structure, rule: Rule) -> tuple[int, ...]:
    near = {v: set(around) for v, around in enumerate(structure.neighbours)}
    weight = weights_of(structure.sizes) if rule in WEIGHTED else [1] * len(near)

    def score(v: int) -> tuple[int, int]:
        if rule in (Rule.MIN_WIDTH, Rule.WEIGHTED_MIN_WIDTH):
            return sum(weight[u] for u in near[v] | {v}), v
        return sum(weight[a] * weight[b] for a, b in combinations(near[v], 2) if b not in near[a]), v

    order = []
    while near:
        v = min(near, key=score)
        order.append(v)
        around = near.pop(v)
        for u in around:
            near[u] |= around
            near[u] -= {u, v}
    return tuple(order)


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("structure", [
    grid(5, 6), grid(4, 4, 3), cycle(9), complete(6), tree(31), *(random_structure(seed, 14) for seed in range(60)),
])
def test_scores_are_kept_right(rule: Rule, structure: Structure) -> None:
    assert greedy_order(structure, rule) == plainly(structure, rule)


@pytest.mark.parametrize("rule", Rule)
def test_a_seed_gives_the_same_order_again(rule: Rule) -> None:
    structure = grid(6, 6)
    orders = {seed: greedy_order(structure, rule, seed=seed) for seed in range(5)}
    assert len({*orders.values()}) > 1
    for seed, order in orders.items():
        assert order == greedy_order(structure, rule, seed=seed) and sorted(order) == list(range(36))


@pytest.mark.parametrize(("structure", "width"), [(tree(100), 2), (cycle(50), 3), (complete(20), 20)])
@pytest.mark.parametrize("rule", Rule)
def test_greedy_rules_are_exact_where_there_is_no_choice(structure: Structure, width: int, rule: Rule) -> None:
    assert cost(structure, greedy_order(structure, rule)).width == width
