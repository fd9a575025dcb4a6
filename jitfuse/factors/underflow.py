"""Whether products of probabilities may underflow: what has to be true of the messages so that none does.

Tables and normalized messages have 1 as their largest element. A product of some of them underflows nowhere if the
smallest elements that are not 0 are large enough. Of tables these are known; of messages native code finds them.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.factors.tree import NO_PARENT, Tree

LIMITS: Final = {np.dtype(np.float64): 690.0, np.dtype(np.float32): 80.0}
"""Logs of one over the smallest products that lose no bit."""


class Product(NamedTuple):
    """A bound for the elements of a product that are not 0: how many normalized messages it has, and for all else the
    log of one over the smallest.
    """

    messages: int
    log: float

    def __add__(self, other: object) -> Product:
        assert isinstance(other, Product)
        return Product(self.messages + other.messages, self.log + other.log)


NORMALIZED: Final = Product(1, 0.0)


def allowed_spread(
    tree: Tree, normalized: frozenset[int], spreads: Sequence[float], *, downward: bool, limit: float
) -> float:
    """Return how far below 0 the logs of normalized messages may lie; negative where tables alone may underflow.

    Args:
        tree: the tree.
        normalized: nodes whose messages, to and from them, are normalized.
        spreads: for each factor the log of its largest value over its smallest one that is not 0.
        downward: also for the messages from the root and the beliefs.
        limit: one of `LIMITS`.
    """
    own = [Product(0, sum([spreads[f] for f in node.factors])) for node in tree.nodes]
    products = []
    up: list[Product] = []
    for place, node in enumerate(tree.nodes):
        whole = sum([up[c] for c in node.children], own[place])
        products.append(whole)
        up.append(NORMALIZED if place in normalized else whole)
    if downward:
        down = [Product(0, 0.0)] * len(tree.nodes)
        for place in reversed(range(len(tree.nodes))):
            node = tree.nodes[place]
            if node.parent == NO_PARENT:
                around = own[place]
            else:
                around = own[place] + (NORMALIZED if place in normalized else down[place])
            whole = sum([up[c] for c in node.children], around)
            products.append(whole)
            for child in node.children:
                down[child] = whole  # the child's own message is in it too: so it bounds the belief of both
    return min([(limit - p.log) / p.messages if p.messages else (np.inf if p.log <= limit else -1.0) for p in products])
