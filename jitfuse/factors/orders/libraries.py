"""Orders found by other libraries, where they are installed: candidates beside our own, when they are asked for.

A tree decomposition and a contraction path are both turned into an order of elimination, that makes no larger buckets.
Owns the calls of the libraries. Each has a clock, or takes seconds, so none is asked unless told.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from jitfuse.errors import ArgumentError
from jitfuse.factors.structure import Structure

GOATD_MILLISECONDS: Final = 300
"""What goatd is given; it takes up to twice as long."""


def order_of_decomposition(
    count: int, bags: Sequence[Iterable[int]], edges: Iterable[tuple[int, int]],
) -> tuple[int, ...]:
    """Return an order of variables 0 to `count` - 1 whose buckets are within the bags of a tree decomposition.

    Example:
        >>> order_of_decomposition(3, [(0, 1), (1, 2)], [(0, 1)])
        (2, 1, 0)
    """
    near: list[list[int]] = [[] for _ in bags]
    for a, b in edges:
        near[a].append(b)
        near[b].append(a)
    reached: dict[int, None] = {}
    taken: dict[int, None] = {}
    for root in range(len(bags)):
        stack = [root]
        while stack:
            bag = stack.pop()
            if bag not in reached:
                reached[bag] = None
                taken |= dict.fromkeys(sorted(bags[bag]))
                stack += near[bag]
    taken |= dict.fromkeys(range(count))
    return tuple(reversed(taken))


def order_of_path(structure: Structure, path: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the order in which a contraction path sums variables out: the path of an einsum of all factors.

    Each entry names the tensors that are multiplied, by their places in a list; their product goes to its end.

    Example:
        >>> order_of_path(Structure((2, 2, 2), ((0, 1), (1, 2))), [(0, 1)])
        (0, 1, 2)
    """
    tensors = [set(scope) for scope in structure.scopes]
    held = Counter(v for scope in tensors for v in scope)
    order: dict[int, None] = {}
    for places in path:
        chosen = [tensors.pop(place) for place in sorted(places, reverse=True)]
        product = set().union(*chosen)
        held.subtract(v for scope in chosen for v in scope)
        gone = {v for v in product if not held[v]}
        order |= dict.fromkeys(sorted(gone))
        tensors.append(product - gone)
        held.update(tensors[-1])
    order |= dict.fromkeys(range(len(structure.sizes)))
    return tuple(order)


def _goatd(structure: Structure) -> tuple[int, ...]:
    import goatd

    edges = [(v, u) for v, near in enumerate(structure.neighbours) for u in near if v < u]
    graph = goatd.Graph(len(structure.sizes), edges)
    found = goatd.decompose(graph, order="portfolio", budget_ms=GOATD_MILLISECONDS)
    return order_of_decomposition(len(structure.sizes), found.bags, found.edges)


def _opt_einsum(structure: Structure) -> tuple[int, ...]:
    from opt_einsum.paths import greedy

    sizes = dict(enumerate(structure.sizes))
    path = greedy([frozenset(scope) for scope in structure.scopes], frozenset(), sizes)
    return order_of_path(structure, path)


def _cotengra(structure: Structure) -> tuple[int, ...]:
    import cotengra

    path = cotengra.array_contract_path(structure.scopes, (), dict(enumerate(structure.sizes)), optimize="auto")
    return order_of_path(structure, path)


_LIBRARIES: Final[Mapping[str, Callable[[Structure], tuple[int, ...]]]] = {
    "goatd": _goatd, "opt_einsum": _opt_einsum, "cotengra": _cotengra,
}


def library_order(name: str, structure: Structure) -> tuple[int, ...]:
    """Return the order that a library finds: "goatd", "opt_einsum" or "cotengra".

    Raises:
        ArgumentError: no such library, or it is not installed.
    """
    if name not in _LIBRARIES:
        raise ArgumentError(f"orders are found by {', '.join(_LIBRARIES)}; there is no {name!r}")
    try:
        return _LIBRARIES[name](structure)
    except ImportError:
        raise ArgumentError(f"{name} is not installed: pip install {name}") from None
