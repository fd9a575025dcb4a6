"""Greedy orders: the variable that looks cheapest goes next [Kjærulff 1990, Triangulation of graphs].

Owns the four rules and the graph that is eliminated. Weights are integers, so that no rounding accumulates.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from heapq import heapify, heappop, heappush
from math import log2
from random import Random
from typing import Final

import numpy as np

from jitfuse.factors.structure import Structure

MATRIX: Final = 160
"""Vertices up to which a graph is a matrix where the fills of all are asked for."""
WEIGHT_OF_BIT = 256
"""What a variable of two states weighs; others in proportion to log2 of their sizes, rounded."""


class Rule(Enum):
    """What makes a variable look cheap; ties go to the lowest index, or by chance.

    MIN_FILL             fewest edges that its elimination adds
    MIN_WIDTH            fewest neighbours
    WEIGHTED_MIN_FILL    least sum over these edges, of the products of log2 of the two sizes
    WEIGHTED_MIN_WIDTH   smallest table
    """

    MIN_FILL = "min-fill"
    MIN_WIDTH = "min-width"
    WEIGHTED_MIN_FILL = "weighted min-fill"
    WEIGHTED_MIN_WIDTH = "weighted min-width"


BY_FILL: Final = frozenset({Rule.MIN_FILL, Rule.WEIGHTED_MIN_FILL})
WEIGHTED: Final = frozenset({Rule.WEIGHTED_MIN_FILL, Rule.WEIGHTED_MIN_WIDTH})


def weights_of(sizes: Iterable[int]) -> list[int]:
    """Return the weight of each size: `WEIGHT_OF_BIT` times log2, at least 1."""
    return [max(1, round(WEIGHT_OF_BIT * log2(size))) for size in sizes]


class Graph:
    """A graph whose vertices are eliminated one after the other. Vertices 0, 1, ... and those that are left of them.

    `near` are the neighbours of each vertex, `weight` its weight, `around` the weight of its neighbours.
    """

    def __init__(self, near: Iterable[Iterable[int]], weight: Sequence[int]) -> None:
        self.near = [set(vertices) for vertices in near]
        self.weight = weight
        self.unit = {*weight} <= {1}
        self.around = [len(vertices) if self.unit else sum([weight[u] for u in vertices]) for vertices in self.near]

    def fills(self, count: int) -> list[int]:
        """Return the fill of each of the first vertices. In float64 whole numbers of this size are exact."""
        size = len(self.near)
        if size > MATRIX:
            return [self.fill(v) for v in range(count)]
        edges = np.zeros((size, size))
        for v, around in enumerate(self.near):
            edges[v, [*around]] = 1.0
        weight = np.array(self.weight, np.float64)
        weighted = edges[:count] * weight
        squares = weighted.sum(axis=1) ** 2 - (weighted * weight).sum(axis=1)
        inside = (np.einsum("vu,ut->vt", weighted, edges) * weighted).sum(axis=1)  # no threads, as `@` would start
        fills: list[int] = ((squares - inside) / 2).astype(np.int64).tolist()
        return fills

    def fill(self, v: int) -> int:
        """Return the weight of the edges that are missing between the neighbours of `v`."""
        near, weight = self.near, self.weight
        if self.unit:
            return sum([len(near[v] - near[u]) - 1 for u in near[v]]) // 2
        total = 0
        for u in near[v]:
            total += weight[u] * sum([weight[t] for t in near[v] - near[u]])
        return (total - sum([weight[u] ** 2 for u in near[v]])) // 2

    def missing(self, v: int) -> Iterator[tuple[int, int]]:
        """Yield the pairs of neighbours of `v` that share no edge, each once."""
        left = sorted(self.near[v])
        for i, a in enumerate(left):
            known = self.near[a]
            for b in left[i + 1:]:
                if b not in known:
                    yield a, b

    def connect(self, a: int, b: int) -> None:
        """Add an edge."""
        self.near[a].add(b)
        self.near[b].add(a)
        self.around[a] += self.weight[b]
        self.around[b] += self.weight[a]

    def remove(self, v: int) -> None:
        """Remove a vertex and its edges."""
        for u in self.near[v]:
            self.near[u].discard(v)
            self.around[u] -= self.weight[v]
        self.near[v] = set()


def greedy_order(structure: Structure, rule: Rule = Rule.MIN_FILL, *, seed: int | None = None) -> tuple[int, ...]:
    """Return an order by a rule. A `seed` breaks ties by chance, the same each time.

    Example:
        >>> greedy_order(Structure((2, 2, 2), ((0, 1), (1, 2))))
        (0, 1, 2)
    """
    ties = list(range(len(structure.sizes)))
    if seed is not None:
        Random(seed).shuffle(ties)
    weight = weights_of(structure.sizes) if rule in WEIGHTED else [1] * len(ties)
    return tuple([v for v, _ in eliminated(Graph(structure.neighbours, weight), rule, ties)])


def eliminated(graph: Graph, rule: Rule, ties: Sequence[int]) -> Iterator[tuple[int, set[int]]]:
    """Eliminate vertices as a rule says, and yield each with its neighbours at that time.

    `ties` numbers the vertices 0, 1, ... that are to go; of those that look alike the lowest number goes. Vertices
    beyond them stay.
    """
    by_fill = rule in BY_FILL
    near, weight, around = graph.near, graph.weight, graph.around
    going = range(len(ties))
    named = sorted(going, key=ties.__getitem__)
    scores = graph.fills(len(going)) if by_fill else [around[v] + weight[v] for v in going]
    scores += [0] * (len(near) - len(ties))
    heap = [(scores[v], ties[v]) for v in going]
    heapify(heap)
    gone = [False] * len(near)
    left = len(near)
    while heap:
        score, tie = heappop(heap)
        v = named[tie]
        if gone[v] or score != scores[v]:
            continue
        clique = set(near[v])
        yield v, clique
        gone[v] = True
        left -= 1
        if len(clique) == left:  # its neighbours are all that is left, and a clique now
            yield from _one_by_one([u for u in named if u in clique], clique)
            return
        touched = clique
        if by_fill:
            if score:
                touched = touched | _fill_in(graph, v, scores)
            _lower(graph, v, scores)
            graph.remove(v)
        else:
            _make_clique(graph, v)
            for u in touched:
                scores[u] = around[u] + weight[u]
        for u in touched:
            if u in going:
                heappush(heap, (scores[u], ties[u]))


def _one_by_one(vertices: Iterable[int], clique: set[int]) -> Iterator[tuple[int, set[int]]]:
    """Eliminate vertices of a clique in this order."""
    left = clique
    for v in vertices:
        left = left - {v}
        yield v, left


def _fill_in(graph: Graph, v: int, fills: list[int]) -> set[int]:
    """Connect the neighbours of `v`, keep the fills right, and return the vertices whose fill may have changed."""
    near, weight, around = graph.near, graph.weight, graph.around
    touched: set[int] = set()
    for a, b in graph.missing(v):
        common = near[a] & near[b]
        heavy = weight[a] * weight[b]
        shared = 0
        for c in common:
            fills[c] -= heavy
            shared += weight[c]
        touched |= common
        fills[a] += weight[b] * (around[a] - shared)
        fills[b] += weight[a] * (around[b] - shared)
        near[a].add(b)
        near[b].add(a)
        around[a] += weight[b]
        around[b] += weight[a]
    touched.discard(v)
    return touched


def _lower(graph: Graph, v: int, fills: list[int]) -> None:
    """Take from the fills of its neighbours, a clique by now, the edges between `v` and the others that they lack."""
    weight, around = graph.weight, graph.around
    inside = weight[v] + around[v]
    for u in graph.near[v]:
        fills[u] -= weight[v] * (around[u] + weight[u] - inside)


def _make_clique(graph: Graph, v: int) -> None:
    """Eliminate `v`: its neighbours are connected, and it goes."""
    near, weight, around = graph.near, graph.weight, graph.around
    clique = near[v]
    for u in clique:
        known = near[u]
        if not graph.unit:
            added = clique - known
            added.discard(u)
            around[u] += sum([weight[t] for t in added]) - weight[v]
        known |= clique
        known.discard(u)
        known.discard(v)
        if graph.unit:
            around[u] = len(known)
    near[v] = set()
