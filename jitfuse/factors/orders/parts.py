"""One connected part of a graph, and what an order of it costs in a search."""
from __future__ import annotations

from collections.abc import Sequence
from math import log2

from jitfuse.base.records import NamedTuple, Record
from jitfuse.factors.orders.greedy import WEIGHT_OF_BIT, Graph


class Score(NamedTuple):
    """What an order of a part costs, the smaller the better: the weight of the largest bucket, log2 of all elements."""

    weight: int
    total: float


class Part(Record, frozen=True, eq=False):
    """Vertices that are connected, by their numbers in the whole graph.

    `near` and `weight` are those of vertices 0, 1, ... of the part. Nobody changes them.
    """

    vertices: list[int]
    near: list[set[int]]
    weight: list[int]

    @staticmethod
    def of(graph: Graph, vertices: list[int]) -> Part:
        """Return these vertices of a graph, with their edges."""
        place = {v: i for i, v in enumerate(vertices)}
        near = [{place[u] for u in graph.near[v]} for v in vertices]
        return Part(vertices, near, [graph.weight[v] for v in vertices])

    def score(self, order: Sequence[int]) -> Score:
        """Return what an order costs."""
        place = [0] * len(order)
        for i, v in enumerate(order):
            place[v] = i
        weight = [self.weight[v] for v in order]
        later = [{place[u] for u in self.near[v] if place[u] > i} for i, v in enumerate(order)]
        heavy = []
        for i, clique in enumerate(later):
            heavy.append(weight[i] + sum([weight[j] for j in clique]))
            if clique:
                parent = min(clique)
                later[parent] |= clique
                later[parent].discard(parent)
        most = max(heavy)
        return Score(most, most / WEIGHT_OF_BIT + log2(sum([2.0 ** ((w - most) / WEIGHT_OF_BIT) for w in heavy])))
