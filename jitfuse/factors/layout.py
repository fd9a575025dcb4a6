"""The order of the axes of all tensors of a tree: one order of the variables, so that no tensor is ever transposed.

A sum of products runs along the last axes that the large tensor and the result share. It is fast where the variable
that is summed, and those that are new, come before many elements of these. Owns which orders are tried and how they are
scored. Does not own the loops of a record (`jitfuse.ir.semirings.loops`).
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from jitfuse.factors.tree import Tree

SMALL: Final = 1 << 10
"""Elements of the largest table up to which any order will do."""
_ROW_NS, _START_NS, _ELEMENT_NS = 0.125, 1.6, 0.6
"""What an element takes in a row, what a row takes besides, and what an element takes on its own."""


def laid_out(tree: Tree, sizes: Sequence[int]) -> Tree:
    """Return the tree with the order of axes that has the smallest estimate of time."""
    count = len(sizes)
    large = _large(tree, sizes)
    if not large:
        return tree
    colours = _colours(tree)
    orders = (tree.rank, tuple(range(count)), colours, *(tuple([-p for p in order]) for order in (
        tree.rank, range(count), colours)))
    return Tree(tree.nodes, tree.rank, min(orders, key=lambda places: _nanoseconds(large, places, sizes)))


def _large(tree: Tree, sizes: Sequence[int]) -> list[tuple[int, list[int], list[int]]]:
    """Return for each node with a large table its elements, the variables that the largest message or the result lacks,
    and all others.
    """
    found = []
    for node in tree.nodes[:-1]:
        elements = math.prod([sizes[v] for v in node.clique])
        if elements <= SMALL:
            continue
        messages = [tree.nodes[c].interface for c in node.children]
        largest = max(messages, key=lambda scope: math.prod([sizes[v] for v in scope]), default=node.interface)
        shared = set(largest).intersection(node.interface)
        found.append((elements, [v for v in node.clique if v not in shared], [v for v in node.clique if v in shared]))
    return found


def _colours(tree: Tree) -> tuple[int, ...]:
    """Return for each variable the smallest number that no other variable of a table it is in has.

    A variable that comes into a table takes the number, so the place, of one that went. Source: Gavril, "Algorithms for
    minimum coloring, maximum clique, minimum covering by cliques, and maximum independent set of a chordal graph",
    1972.
    """
    colours = [0] * len(tree.rank)
    for number, v in enumerate(tree.nodes[-1].interface):
        colours[v] = number
    for node in reversed(tree.nodes[:-1]):
        taken = {colours[u] for u in node.interface}
        for v in reversed(node.eliminated):
            colours[v] = next(c for c in range(len(taken) + 1) if c not in taken)
            taken.add(colours[v])
    return tuple(colours)


def _nanoseconds(
    large: Sequence[tuple[int, Sequence[int], Sequence[int]]], places: Sequence[int], sizes: Sequence[int]
) -> float:
    """Return an estimate of the time that the upward pass takes."""
    total = 0.0
    for elements, apart, shared in large:
        last = max([places[v] for v in apart])
        row = math.prod([sizes[v] for v in shared if places[v] > last])
        total += elements * min(_ELEMENT_NS, _ROW_NS + _START_NS / row)
    return total
