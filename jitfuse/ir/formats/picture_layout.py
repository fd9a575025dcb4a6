"""Place the nodes of a picture: layers by dependency, few crossings, straight chains.

The layered method of Sugiyama, Tagawa and Toda (1981): longest-path layers, points on edges that cross layers,
barycentre sweeps for the order within a layer, then positions that follow the neighbours. Knows nothing of programs.
"""
from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Final

from jitfuse.base.records import NamedTuple

SWEEPS: Final = 8
GAP: Final = 24.0
LAYER_GAP: Final = 34.0


class Box(NamedTuple):
    """A node to place: its name, width and height in pixels."""

    name: str
    width: float
    height: float


class PictureLayout(NamedTuple):
    """Centres of nodes, bends of edges from top to bottom, tops of layers, and the total size, in pixels."""

    centres: Mapping[str, tuple[float, float]]
    bends: Mapping[tuple[str, str], Sequence[tuple[float, float]]]
    layers: Sequence[float]
    width: float
    height: float


def lay_out(boxes: Sequence[Box], edges: Sequence[tuple[str, str]]) -> PictureLayout:
    """Place boxes, given so that every edge (from, to) leads to a later one."""
    size = {b.name: b for b in boxes}
    layer = _layers([b.name for b in boxes], edges)
    chains: dict[tuple[str, str], list[str]] = {}
    for a, b in dict.fromkeys(edges):
        points = [f"{a}>{b}@{k}" for k in range(layer[a] + 1, layer[b])]
        for k, point in enumerate(points, layer[a] + 1):
            size[point] = Box(point, 8.0, 8.0)
            layer[point] = k
        chains[a, b] = [a, *points, b]
    links = [pair for chain in chains.values() for pair in itertools.pairwise(chain)]
    rows = _ordered(layer, links)
    x = _positions(rows, links, size)
    tops, y = _heights(rows, size)
    left = min((x[n] - size[n].width / 2 for n in x), default=0.0)
    x = {n: v - left for n, v in x.items()}
    right = max((x[n] + size[n].width / 2 for n in x), default=0.0)
    centres = {b.name: (x[b.name], y[b.name]) for b in boxes}
    bends = {edge: [(x[p], y[p]) for p in chain[1:-1]] for edge, chain in chains.items()}
    return PictureLayout(
        centres, bends, tops, right, (tops[-1] + max(size[n].height for n in rows[-1])) if rows else 0.0
    )


def _layers(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return the longest path to each node; a node without predecessors is placed right above its first reader."""
    before: dict[str, list[str]] = {n: [] for n in names}
    after: dict[str, list[str]] = {n: [] for n in names}
    for a, b in edges:
        before[b].append(a)
        after[a].append(b)
    layer: dict[str, int] = {}
    for n in names:
        layer[n] = max((layer[a] + 1 for a in before[n]), default=0)
    for n in names:
        if not before[n] and after[n]:
            layer[n] = min(layer[b] for b in after[n]) - 1
    return layer


def _ordered(layer: Mapping[str, int], links: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Return the nodes of each layer from left to right, after sweeps down and up by barycentres."""
    rows: list[list[str]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for n, k in layer.items():
        rows[k].append(n)
    above: dict[str, list[str]] = {n: [] for n in layer}
    below: dict[str, list[str]] = {n: [] for n in layer}
    for a, b in links:
        below[a].append(b)
        above[b].append(a)
    for sweep in range(SWEEPS):
        neighbours = above if sweep % 2 == 0 else below
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            position = {n: k for r in rows for k, n in enumerate(r)}
            centre = {
                n: sum(position[m] for m in neighbours[n]) / len(neighbours[n]) if neighbours[n] else float(position[n])
                for n in row
            }
            row.sort(key=lambda n: centre[n])
    return rows


def _positions(
    rows: Sequence[Sequence[str]], links: Sequence[tuple[str, str]], size: Mapping[str, Box]
) -> dict[str, float]:
    """Return centres along x: each node is drawn towards the mean of its neighbours, as far as there is room."""
    near: dict[str, list[str]] = {n: [] for row in rows for n in row}
    for a, b in links:
        near[a].append(b)
        near[b].append(a)
    x: dict[str, float] = {}
    for row in rows:
        at = 0.0
        for n in row:
            x[n] = at + size[n].width / 2
            at += size[n].width + GAP
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            wanted = [sum(x[m] for m in near[n]) / len(near[n]) if near[n] else x[n] for n in row]
            for n, at in zip(row, _without_overlap(row, wanted, size), strict=True):
                x[n] = at
    return x


def _without_overlap(row: Sequence[str], wanted: Sequence[float], size: Mapping[str, Box]) -> list[float]:
    """Return the positions nearest to the wanted ones in which no two boxes overlap: halfway between both packings."""
    def packed(names: Sequence[str], targets: Sequence[float]) -> list[float]:
        found: list[float] = []
        for k, n in enumerate(names):
            least = found[-1] + (size[names[k - 1]].width + size[n].width) / 2 + GAP if k else targets[k]
            found.append(max(targets[k], least))
        return found

    right = packed(row, wanted)
    left = [-v for v in packed(row[::-1], [-w for w in wanted[::-1]])][::-1]
    return [(a + b) / 2 for a, b in zip(left, right, strict=True)]


def _heights(rows: Sequence[Sequence[str]], size: Mapping[str, Box]) -> tuple[list[float], dict[str, float]]:
    tops: list[float] = []
    y: dict[str, float] = {}
    at = 0.0
    for row in rows:
        tall = max(size[n].height for n in row)
        tops.append(at)
        y.update(dict.fromkeys(row, at + tall / 2))
        at += tall + LAYER_GAP
    return tops, y
