"""The tree of buckets: where each factor is multiplied in, and what each node tells its parent.

Owns the shape of one upward and one downward pass. Does not own the order and its buckets (`jitfuse.factors.orders`),
nor the instructions (`emit.py`). Source: Dechter, "Bucket elimination: a unifying framework for probabilistic
inference", 1996.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jitfuse.base.records import Record
from jitfuse.factors.orders.cost import buckets
from jitfuse.factors.structure import Structure

NO_PARENT: Final = -1


class Node(Record, frozen=True):
    """A place of the tree. All variables are in the order of elimination, first the ones that go first.

    clique     the variables of everything that is multiplied here: first those that are summed out here
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

    @property
    def eliminated(self) -> tuple[int, ...]:
        """The variables that are summed out here: one in a tree of buckets, one or several in a junction tree."""
        return self.clique[: len(self.clique) - len(self.interface)]


class Tree(Record, frozen=True):
    """Nodes in an order in which children come before parents; the last one is the root.

    `rank` is the place of each variable in the order of elimination; `axes` its place among the axes of every tensor.
    """

    nodes: tuple[Node, ...]
    rank: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def root(self) -> int:
        """The number of the last node."""
        return len(self.nodes) - 1


def bucket_tree(structure: Structure, order: Sequence[int], keep: Sequence[int] = ()) -> Tree:
    """Return the tree in which each bucket of the order is a node, and the root holds what is left in the end.

    Args:
        structure: variables and scopes.
        order: every variable once, in the order of elimination.
        keep: variables that are never eliminated; the root's message has their axes.
    """
    kept = frozenset(keep)
    ordered = [*(v for v in order if v not in kept), *(v for v in order if v in kept)]
    rank = {v: place for place, v in enumerate(ordered)}
    root = len(ordered) - len(kept)
    made = buckets(structure, ordered)
    nodes = []
    above: list[int] = []
    for place, bucket in enumerate(made[:root]):
        rest = tuple(sorted([v for v in bucket.scope if v != bucket.variable], key=rank.__getitem__))
        parent = root if bucket.parent is None else min(rank[bucket.parent], root)
        if parent == root:
            above.append(place)
        nodes.append(Node((bucket.variable, *rest), rest, bucket.factors, tuple([rank[c] for c in bucket.children]),
                          parent))
    axes = tuple(ordered[root:])
    numbers = [factor for factor, scope in enumerate(structure.scopes) if not scope]
    last = (*(factor for bucket in made[root:] for factor in bucket.factors), *numbers)
    nodes.append(Node(axes, axes, tuple(sorted(last)), tuple(above), NO_PARENT))
    places = tuple([rank[v] for v in range(len(rank))])
    return Tree(tuple(nodes), places, places)
