"""Whether products of probabilities may underflow: what has to be true of the messages so that none does.

Tables and normalized messages have 1 as their largest element. A product of some of them underflows nowhere if the
smallest elements that are not 0 are large enough. Of tables these are known; of messages native code finds them.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.factors.tree import NO_PARENT, Tree

LIMITS: Final = {np.dtype(np.float64): 690.0, np.dtype(np.float32): 80.0}
"""Logs of one over the smallest products that lose no bit."""


class Bounds(NamedTuple):
    """What the elements of a product are bounded by, if they are not 0.

    messages  how many normalized messages are in it
    below     the log of one over the smallest product of all else
    above     the log of the largest sum of products
    """

    messages: int
    below: float
    above: float


NOTHING: Final = Bounds(0, 0.0, 0.0)
NORMALIZED: Final = Bounds(1, 0.0, 0.0)


def allowed_spread(
    tree: Tree, sizes: Sequence[int], normalized: frozenset[int], spreads: Sequence[float], *, downward: bool,
    limit: float,
) -> float:
    """Return how far below 0 the logs of normalized messages may lie; negative where tables alone may leave the range.

    Args:
        tree: the tree.
        sizes: of all variables.
        normalized: nodes whose messages, to and from them, are normalized.
        spreads: for each factor the log of its largest value over its smallest one that is not 0.
        downward: also for the messages from the root and the beliefs.
        limit: one of `LIMITS`.
    """
    nodes, logs = tree.nodes, [math.log(size) for size in sizes]
    up: list[Bounds] = []
    products: list[Bounds] = []
    for place, node in enumerate(nodes):
        messages, below, above = 0, 0.0, 0.0
        for child in node.children:
            messages, below, above = messages + up[child][0], below + up[child][1], above + up[child][2]
        for factor in node.factors:
            below += spreads[factor]
        products.append(Bounds(messages, below, above))
        up.append(NORMALIZED if place in normalized or node.parent == NO_PARENT else Bounds(
            messages, below, above + logs[node.clique[0]]))
    if downward:
        down = [NOTHING] * len(nodes)
        for place in reversed(range(len(nodes))):
            node, own = nodes[place], products[place]
            told = NORMALIZED if place in normalized else down[place]
            belief = Bounds(own.messages + told.messages, own.below + told.below, own.above + told.above)
            products.append(belief)
            whole = sum([logs[v] for v in node.clique])
            for child in node.children:  # bounded by the belief: the child's own message is in it too
                kept = sum([logs[v] for v in nodes[child].interface])
                down[child] = Bounds(belief.messages, belief.below, belief.above + whole - kept)
    if any(p.above > limit or p.below > limit for p in products):
        return -1.0
    return min([(limit - p.below) / p.messages for p in products if p.messages], default=math.inf)
