"""Orders that sweep over a graph from one end to the other, as a front that takes in few vertices at a time.

On grids and other graphs like a plane they are the best there are, where greedy rules are a third too wide. They start
from vertices far from one another, as orders of small bandwidth and wavefront do [Cuthill, McKee 1969; King 1970].
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from jitfuse.factors.orders.parts import Part


def sweeps(part: Part, starts: int) -> Iterator[tuple[str, list[int]]]:
    """Yield two orders from each of some starts, by distance and by the front, with their names."""
    count = len(part.near)
    nearest = [count] * count
    last, _ = _from(part.near, 0)
    for _ in range(min(starts, count)):
        order, distance = _from(part.near, last[-1])
        yield "sweep by distance", order
        yield "sweep by front", _by_front(part, order[0])
        nearest = [min(a, b) for a, b in zip(nearest, distance)]
        last = sorted(range(count), key=nearest.__getitem__)


def _from(near: Sequence[set[int]], start: int) -> tuple[list[int], list[int]]:
    """Return the vertices by their distance from a start, those of few neighbours first, and the distances."""
    distance = [-1] * len(near)
    distance[start] = 0
    order = [start]
    for v in order:
        for u in sorted(near[v], key=lambda u: (len(near[u]), u)):
            if distance[u] < 0:
                distance[u] = distance[v] + 1
                order.append(u)
    return order, distance


def _by_front(part: Part, start: int) -> list[int]:
    """Return an order in which the vertex of the front goes next that brings the least weight into it.

    The front are the vertices that are seen: neighbours of those that went. Of several, that seen first goes.
    """
    near, weight = part.near, part.weight
    brings = [sum([weight[u] for u in around]) - weight[v] for v, around in enumerate(near)]
    seen = {start: 0}
    for u in near[start]:
        brings[u] -= weight[start]
    front = [(brings[start], 0, start)]
    gone = [False] * len(near)
    order: list[int] = []
    while front:
        _, _, v = heappop(front)
        if gone[v]:
            continue
        gone[v] = True
        order.append(v)
        for u in sorted(near[v].difference(seen)):
            seen[u] = len(seen) + 1
            for t in near[u]:
                brings[t] -= weight[u]
                if t in seen and not gone[t]:
                    heappush(front, (brings[t], seen[t], t))
            heappush(front, (brings[u], seen[u], u))
    return order
