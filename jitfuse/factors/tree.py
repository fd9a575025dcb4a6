"""The tree of buckets: where each factor is multiplied in, and what each node tells its parent.

Owns the shape of one upward and one downward pass. Does not own the order (`jitfuse.factors.orders`), nor the
instructions (`emit.py`). Source: Dechter, "Bucket elimination: a unifying framework for probabilistic inference", 1996.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jitfuse.base.records import Record
from jitfuse.factors.structure import Structure

NO_PARENT: Final = -1


class Node(Record, frozen=True):
    """A place of the tree. All variables are in the order of elimination, first the ones that go first.

    clique     the variables of everything that is multiplied here
    interface  those that stay: the axes of the message to the parent; the root keeps what a query asks for
    factors    the factors that are loaded here
    children   the nodes that send messages here, in the order in which they are made
    parent     where the message goes; `NO_PARENT` for the root
    """

    clique: tuple[int, ...]
    interface: tuple[int, ...]
    factors: tuple[int, ...]
    children: tuple[int, ...]
    parent: int


class Tree(Record, frozen=True):
    """Nodes in an order in which children come before parents; the last one is the root.

    `rank` is the place of each variable in the order of elimination, which is the number of its node; `axes` its place
    among the axes of every tensor.
    """

    nodes: tuple[Node, ...]
    rank: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def root(self) -> int:
        """The number of the last node."""
        return len(self.nodes) - 1


def bucket_tree(structure: Structure, order: Sequence[int], keep: Sequence[int] = ()) -> Tree:
    """Return the tree in which each variable has a node, and the root holds what is left in the end.

    Args:
        structure: variables and scopes.
        order: every variable once, in the order of elimination.
        keep: variables that are never eliminated; the root's message has their axes.
    """
    kept = frozenset(keep)
    eliminated = [v for v in order if v not in kept]
    rank = [0] * len(structure.sizes)
    for place, v in enumerate([*eliminated, *(v for v in order if v in kept)]):
        rank[v] = place
    root = len(eliminated)
    loads: list[list[int]] = [[] for _ in range(root + 1)]
    children: list[list[int]] = [[] for _ in range(root + 1)]
    scopes: list[set[int]] = [set() for _ in range(root + 1)]
    for factor, scope in enumerate(structure.scopes):
        place = min((rank[v] for v in scope), default=root)
        loads[min(place, root)].append(factor)
        scopes[min(place, root)].update(scope)
    parents = [NO_PARENT] * (root + 1)
    for place, v in enumerate(eliminated):
        left = scopes[place] - {v}
        parents[place] = min(min((rank[u] for u in left), default=root), root)
        children[parents[place]].append(place)
        scopes[parents[place]] |= left
        scopes[place].add(v)
    scopes[root] |= kept
    nodes = []
    for place in range(root + 1):
        clique = tuple(sorted(scopes[place], key=rank.__getitem__))
        interface = clique if place == root else clique[1:]
        nodes.append(Node(clique, interface, tuple(loads[place]), tuple(children[place]), parents[place]))
    return Tree(tuple(nodes), tuple(rank), tuple(rank))
