"""Whether products of probabilities may leave the range of floats: what has to be true of messages so that none does.

Tables have 1 as their largest element, normalized messages a number from 1 to 2. A product of some of them and of one
over the scales of messages stays in range if no factor is too far from 1, but for zeros. How far tables and sums are is
known; how far messages and their scales are native code finds.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.factors.tree import NO_PARENT, Tree

LIMITS: Final = {np.dtype(np.float64): 700.0, np.dtype(np.float32): 86.0}
"""Logs of the largest numbers that neither overflow nor have a reciprocal with fewer bits."""


class Product(NamedTuple):
    """A bound for the elements of a product that are not 0: how many normalized messages it has, and for all else how
    far the log may be from 0.
    """

    messages: int
    log: float

    def __add__(self, other: object) -> Product:
        assert isinstance(other, Product)
        return Product(self.messages + other.messages, self.log + other.log)


_LN2: Final = math.log(2)
"""How far above 0 the logs of normalized messages lie in any case."""
NORMALIZED: Final = Product(1, 0.0)


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
    own = [Product(0, sum([spreads[f] for f in node.factors])) for node in tree.nodes]
    cliques, interfaces = ([sum([math.log(sizes[v]) for v in scope]) for scope in scopes] for scopes in (
        [node.clique for node in tree.nodes], [node.interface for node in tree.nodes]))
    products = []
    up: list[Product] = []
    for place, node in enumerate(tree.nodes):
        whole = sum([up[c] for c in node.children], own[place])
        products.append(whole + Product(0, cliques[place]))
        up.append(NORMALIZED if place in normalized else whole + Product(0, cliques[place] - interfaces[place]))
    if downward:
        down = [Product(0, 0.0)] * len(tree.nodes)
        for place in reversed(range(len(tree.nodes))):
            node = tree.nodes[place]
            if node.parent == NO_PARENT:
                around = own[place]
            else:
                around = own[place] + (NORMALIZED if place in normalized else down[place])
            whole = sum([up[c] for c in node.children], around)
            products.append(whole + Product(0, cliques[place]))
            for child in node.children:  # the child's own message is in it too: so it bounds the belief of both
                down[child] = whole + Product(0, cliques[place] - interfaces[child])
    allowed = min([(limit - p.log) / p.messages if p.messages else (np.inf if p.log <= limit else -1.0)
                   for p in products])
    return allowed if allowed >= _LN2 else -1.0
