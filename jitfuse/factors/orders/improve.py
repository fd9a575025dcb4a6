"""An order made better region by region: part of its clique tree is triangulated anew, and kept where that is cheaper.

The buckets of an order and their parents are a tree. Of any connected part of it, the buckets can be replaced by those
of another order of the same variables: outside, nothing changes, because what the part shares with each of its
neighbours is a clique before and after. So regions around the largest bucket are ordered by a greedy rule with weights
that are slightly wrong, again and again. Owns the tree and the search. Chance comes from a seed, effort is counted in
steps.
"""
from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Final

from jitfuse.base.records import Record
from jitfuse.factors.orders.greedy import WEIGHT_OF_BIT, Graph, Rule, eliminated
from jitfuse.factors.orders.parts import Part, Score, score_of, weighed

PATIENCE: Final = 120
"""Regions in a row that were no better, after which a search ends."""
_LEAST_REGION: Final = 8
_MOST_REGION: Final = 72
_RULES: Final = (Rule.WEIGHTED_MIN_FILL, Rule.WEIGHTED_MIN_FILL, Rule.WEIGHTED_MIN_FILL, Rule.WEIGHTED_MIN_WIDTH)


class Region(Record, frozen=True, eq=False):
    """Connected buckets of a tree, and the graph in which they can be ordered anew.

    inside   the variables of the buckets, in increasing order
    top      that of the bucket above all others
    outside  the others in the buckets: those of the message of `top`
    below    the variables of the buckets whose messages come in
    near     the neighbours of each variable; those that share a message with the rest of the tree are connected
    """

    inside: list[int]
    top: int
    outside: list[int]
    below: list[int]
    near: dict[int, set[int]]


class CliqueTree:
    """The buckets of an order: for each vertex the others of its bucket, its parent (-1: none), the bucket's weight."""

    def __init__(self, part: Part, order: Iterable[int]) -> None:
        self.part = part
        self.later: list[set[int]] = [set() for _ in part.near]
        self.parent = [-1] * len(part.near)
        self.children: list[set[int]] = [set() for _ in part.near]
        self.heavy = [0] * len(part.near)
        place = {v: i for i, v in enumerate(order)}
        for v, later in part.eliminated(place):
            self._set(v, later, min(later, key=place.__getitem__, default=-1))

    def _set(self, v: int, later: set[int], parent: int) -> None:
        weight = self.part.weight
        self.later[v], self.parent[v] = later, parent
        self.heavy[v] = weight[v] + sum([weight[u] for u in later])
        if parent >= 0:
            self.children[parent].add(v)

    def order(self) -> list[int]:
        """Return an order of these buckets."""
        order: list[int] = []
        stack = [v for v, parent in enumerate(self.parent) if parent < 0]
        while stack:
            v = stack.pop()
            order.append(v)
            stack += sorted(self.children[v])
        return order[::-1]

    def region(self, start: int, size: int, chance: Random) -> Region:
        """Return a region of at most `size` buckets around one, grown by chance."""
        inside, top = {start}, start
        edge = sorted(self.children[start]) + [self.parent[start]]
        while edge and len(inside) < size:
            number = chance.randrange(len(edge))
            edge[number], edge[-1] = edge[-1], edge[number]
            v = edge.pop()
            if v < 0:
                continue
            inside.add(v)
            edge += sorted(self.children[v] - inside)
            if v == self.parent[top]:
                top = v
                edge.append(self.parent[v])
        return self._graph(inside, top)

    def _graph(self, inside: set[int], top: int) -> Region:
        outside = self.later[top]
        every = inside | outside
        near = {v: self.part.near[v] & every for v in inside}
        for v in outside:
            near[v] = (self.part.near[v] & inside) | outside
        below = [c for v in inside for c in self.children[v] if c not in inside]
        for message in [self.later[c] for c in below]:
            for v in message:
                near[v] |= message
        for v, around in near.items():
            around.discard(v)
        return Region(sorted(inside), top, sorted(outside), below, near)

    def replace(self, region: Region, found: list[tuple[int, set[int]]]) -> None:
        """Put the buckets of another order into a region: its vertices in this order, each with the others."""
        up = self.parent[region.top]
        if up >= 0:
            self.children[up].discard(region.top)
        place = {v: i for i, (v, _) in enumerate(found)}
        end = len(place)
        for v in region.inside:
            self.children[v] = set()
        for v, later in found:
            first = min(later, key=lambda u: place.get(u, end), default=-1)
            self._set(v, later, first if first in place else up)
        for c in region.below:
            self._set(c, self.later[c], min(self.later[c], key=lambda u: place.get(u, end)))


def improved(part: Part, order: list[int], *, budget: int, seed: int = 0) -> list[int]:
    """Return an order no worse than the one given.

    A step looks at one variable of one bucket. It ends when `budget` steps were taken, or `PATIENCE` is at its end.
    """
    tree, chance = CliqueTree(part, order), Random(seed)
    steps = fruitless = 0
    while steps < budget and fruitless < PATIENCE:
        most = max(tree.heavy)
        least = most - WEIGHT_OF_BIT * chance.choice((0, 0, 1, 2))
        start = chance.choice([v for v, heavy in enumerate(tree.heavy) if heavy >= least])
        region = tree.region(start, chance.randint(_LEAST_REGION, _MOST_REGION), chance)
        before = score_of([tree.heavy[v] for v in region.inside])
        found, after = _ordered(region, part.weight, before.weight, chance)
        steps += sum([1 + len(later) for _, later in found])
        fruitless += 1
        if after <= before:
            tree.replace(region, found)
            if after < before:
                fruitless = 0
    return tree.order()


def _ordered(
    region: Region, weight: list[int], limit: int, chance: Random,
) -> tuple[list[tuple[int, set[int]]], Score]:
    """Order a region by chance; fewer buckets, and a score without hope, once one weighs more than `limit`."""
    names = region.inside[:]
    chance.shuffle(names)
    going = range(len(names))
    names += region.outside
    place = {v: i for i, v in enumerate(names)}
    wrong = [int(weight[v] * chance.uniform(0.6, 1.6)) + 1 for v in names]
    graph = Graph([[place[u] for u in region.near[v]] for v in names], wrong)
    elimination = eliminated(graph, chance.choice(_RULES), going)
    return weighed(((names[v], {names[u] for u in later}) for v, later in elimination), weight, limit)
