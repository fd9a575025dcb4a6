"""Whether products of probabilities may leave the range of floats: what has to be true of messages so that none does.

Tables have 1 as their largest element, normalized messages one from 1/2 to 1. A product of some of them and of one
over the scales of messages stays in range if no factor is too far from 1, but for zeros. How far tables and sums are is
known; how far messages and their scales are native code finds.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from jitfuse.factors.tree import NO_PARENT, Tree

LIMITS: Final = {np.dtype(np.float64): 700.0, np.dtype(np.float32): 86.0}
"""Logs of the largest numbers that neither overflow nor have a reciprocal with fewer bits."""


_LN2: Final = math.log(2)
"""How far from 0 the logs of the largest elements of normalized messages may lie in any case."""


def allowed_spread(
    tree: Tree, sizes: Sequence[int], normalized: frozenset[int], spreads: Sequence[float], *, downward: bool,
    limit: float,
) -> float:
    """Return how far from 0 the logs of normalized messages and of their scales may lie; negative where tables and sums
    alone may leave the range.

    Args:
        tree: the tree.
        sizes: of all variables.
        normalized: nodes whose messages, to and from them, are normalized.
        spreads: for each factor the log of its largest value over its smallest one that is not 0.
        downward: also for the messages from the root and the beliefs.
        limit: one of `LIMITS`.
    """
    nodes, logs = tree.nodes, [math.log(size) for size in sizes]
    cliques = [sum([logs[v] for v in node.clique]) for node in nodes]
    interfaces = [sum([logs[v] for v in node.interface]) for node in nodes]
    # of the product at each node: how many normalized messages it has, and how far all else may be from 0
    counts, apart = [0] * len(nodes), [sum([spreads[f] for f in node.factors]) for node in nodes]
    for place, node in enumerate(nodes):
        for child in node.children:
            normal = child in normalized
            counts[place] += 1 if normal else counts[child]
            apart[place] += 0.0 if normal else apart[child] + cliques[child] - interfaces[child]
    products = list(zip(counts, apart, cliques))
    if downward:
        for place in reversed(range(len(nodes))):
            parent = nodes[place].parent
            if parent != NO_PARENT and place not in normalized:
                # a message from above is bounded by the belief there: the node's own message is in that too
                counts[place] += counts[parent]
                apart[place] += apart[parent] + cliques[parent] - interfaces[place]
            elif parent != NO_PARENT:
                counts[place] += 1
        products += zip(counts, apart, cliques)
    allowed = min([(limit - log - sums) / count if count else (math.inf if log + sums <= limit else -1.0)
                   for count, log, sums in products])
    return allowed if allowed >= _LN2 else -1.0
