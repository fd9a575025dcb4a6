"""Where marginals are taken from: a few tables of a tree that have all variables.

Does not own the instructions that make them (`emit.py`).
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import prod

from jitfuse.base.records import NamedTuple
from jitfuse.factors.structure import Structure
from jitfuse.factors.tree import Tree


class Marginals(NamedTuple):
    """Where marginals are taken from, each by the number of a node.

    cliques     for nodes the variables that are summed out there whose marginals come from the belief of the clique
    separators  for nodes the variables whose marginals come from what it shares with its parent
    """

    cliques: Mapping[int, Sequence[int]]
    separators: Mapping[int, Sequence[int]]


def cheapest_marginals(structure: Structure, tree: Tree) -> Marginals:
    """Return where the marginal of every variable costs least: the separators that give most for their size.

    Each step takes the one with the fewest elements a new variable; what no separator has is the belief of its clique.
    """
    scopes = {place: node.interface for place, node in enumerate(tree.nodes) if node.interface and node.parent >= 0}
    sizes = {place: prod([structure.sizes[v] for v in scope]) for place, scope in scopes.items()}
    left = {v for scope in scopes.values() for v in scope}
    heap = [(sizes[place] / len(scope), place) for place, scope in scopes.items()]
    heapify(heap)
    found: dict[int, tuple[int, ...]] = {}
    while left:
        cost, place = heappop(heap)
        new = tuple([v for v in scopes[place] if v in left])
        if not new:
            continue
        if sizes[place] / len(new) > cost:
            heappush(heap, (sizes[place] / len(new), place))
            continue
        found[place] = new
        left.difference_update(new)
    covered = {v for scope in found.values() for v in scope}
    alone = {place: [v for v in node.eliminated if v not in covered] for place, node in enumerate(tree.nodes)}
    return Marginals({place: variables for place, variables in alone.items() if variables}, found)
