"""One connected part of a graph, and what an order of it costs in a search."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf, log2

from jitfuse.base.records import NamedTuple, Record
from jitfuse.factors.orders.greedy import WEIGHT_OF_BIT, Graph


class Score(NamedTuple):
    """What an order of a part costs, the smaller the better: the weight of the largest bucket, log2 of all elements."""

    weight: int
    total: float


def score_of(heavy: Sequence[int]) -> Score:
    """Return the score of buckets of these weights."""
    most = max(heavy)
    return Score(most, most / WEIGHT_OF_BIT + log2(sum([2.0 ** ((w - most) / WEIGHT_OF_BIT) for w in heavy])))


def weighed(
    buckets: Iterable[tuple[int, set[int]]], weight: Sequence[int], limit: float = inf
) -> tuple[list[tuple[int, set[int]]], Score]:
    """Return buckets and their score; fewer, and an infinite total, once one weighs more than `limit`."""
    found, heavy = [], []
    for v, later in buckets:
        found.append((v, later))
        heavy.append(weight[v] + sum([weight[u] for u in later]))
        if heavy[-1] > limit:
            return found, Score(heavy[-1], inf)
    return found, score_of(heavy)


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

    def sorted_by(self, place: Mapping[int, int]) -> list[int]:
        """Return the order of the whole graph's vertices, of which `place` has the places, that these have."""
        return sorted(range(len(self.vertices)), key=lambda i: place[self.vertices[i]])

    def eliminated(self, order: Iterable[int]) -> Iterator[tuple[int, set[int]]]:
        """Eliminate the vertices in this order, and yield each with the others of its bucket."""
        place = {v: i for i, v in enumerate(order)}
        later = [{u for u in around if place[u] > place[v]} for v, around in enumerate(self.near)]
        for v in place:
            yield v, later[v]
            if later[v]:
                parent = min(later[v], key=place.__getitem__)
                later[parent] |= later[v]
                later[parent].discard(parent)

    def score(self, order: Iterable[int]) -> Score:
        """Return what an order costs."""
        return weighed(self.eliminated(order), self.weight)[1]
