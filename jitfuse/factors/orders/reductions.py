"""Eliminations that are never wrong, and the connected parts that are left to be ordered.

A vertex whose neighbours are a clique may always go first. So may one that lacks this by one neighbour, if the tables
are no larger than one that there is anyway, and if that neighbour has no more states than the vertex itself
[Bodlaender, Koster, van den Eijkhof 2005, Preprocessing rules for triangulation of probabilistic networks].
"""
from __future__ import annotations

from collections.abc import Sequence

from jitfuse.factors.orders.greedy import Graph

MOST_NEIGHBOURS = 16
"""Neighbours of a vertex whose cliques are looked for: the time grows with their square."""


class Reduced:
    """`first` are the vertices that go first, in order; `graph` has the others; `low` is the least weight possible.

    `low` is a lower bound for the weight of the largest bucket of any order.
    """

    def __init__(self, near: Sequence[set[int]], weight: Sequence[int], low: int) -> None:
        self.graph = Graph(near, weight)
        self.first: list[int] = []
        self.low = low
        waiting = set(range(len(near)))
        while waiting:
            for v in sorted(waiting):
                waiting.discard(v)
                if self._may_go(v):
                    waiting |= self._eliminate(v)

    def _may_go(self, v: int) -> bool:
        """Whether it is safe to eliminate `v` now."""
        near, weight = self.graph.near, self.graph.weight
        around = near[v]
        if len(around) < 2:
            return True
        if len(around) > MOST_NEIGHBOURS:
            return False
        light = self.graph.around[v] + weight[v] <= self.low
        odd = set(around)  # the neighbours that every missing edge has an end at
        for u in around:
            lacking = around - near[u]
            if len(lacking) > 1:
                if not light:
                    return False
                odd &= lacking if len(lacking) == 2 else {u}
        if len(odd) == len(around):
            return True
        return light and any(weight[u] <= weight[v] for u in odd)

    def _eliminate(self, v: int) -> set[int]:
        """Eliminate `v`; return the vertices whose neighbours changed."""
        graph = self.graph
        around = set(graph.near[v])
        self.low = max(self.low, graph.around[v] + graph.weight[v])
        if len(around) > 1:
            for a, b in list(graph.missing(v)):
                graph.connect(a, b)
        graph.remove(v)
        self.first.append(v)
        return around

    def parts(self) -> list[list[int]]:
        """Return the vertices that are left, those that are connected together, in increasing order."""
        near, found = self.graph.near, []
        left = {v for v, around in enumerate(near) if around}
        for start in sorted(left):
            if start in left:
                part, edge = {start}, {start}
                while edge:
                    edge = set().union(*[near[v] for v in edge]) - part
                    part |= edge
                left -= part
                found.append(sorted(part))
        return found
