"""The best order that a budget of steps finds, kept for the next model of the same structure.

The pipeline: variables of one state are set aside, what is safe is eliminated (`reductions`), each connected part that
is left is ordered by several methods (`sweeps`, `greedy`) of which the best is made better (`improve`), and the
subtrees are sorted for memory (`cost.postorder`). Where the messages would be too large some variables are conditioned
on (`slicing`). Deterministic: no clock is read.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from math import inf, prod
from typing import Any, Final

from jitfuse.base.gc_pause import PAUSED
from jitfuse.base.records import NamedTuple, Record
from jitfuse.factors.orders.cost import Cost, buckets, cost, postorder
from jitfuse.factors.orders.greedy import BY_FILL, WEIGHT_OF_BIT, WEIGHTED, Graph, Rule, eliminated, weights_of
from jitfuse.factors.orders.improve import improved
from jitfuse.factors.orders.libraries import library_order
from jitfuse.factors.orders.parts import Part, Score, weighed
from jitfuse.factors.orders.reductions import Reduced
from jitfuse.factors.orders.slicing import MOST_OPERATIONS, conditioned, sliced_variables
from jitfuse.factors.orders.stored import kept
from jitfuse.factors.orders.sweeps import sweeps
from jitfuse.factors.structure import Structure

BUDGET: Final = 200_000
"""Steps of the improvement of a part, unless told: at most half a second."""
_WORTH: Final = 12
"""A search may take as many steps as the tables have elements, divided by two to this power."""
_STARTS: Final = 6
_DENSE: Final = 1_000_000
"""Pairs of neighbours of a vertex, over all vertices, of a part in which little can be gained and all takes long."""
_HOPELESS: Final = 72.0
"""log2 of the elements of all tables together from which on neither the rules by fill nor the improvement are tried:
of 416 public models every one that was solved had 40 or less before the improvement."""
_DOUBTFUL: Final = 40.0
"""The same from which on the improvement takes fewer steps: it has to gain more the more there is."""
_SLOW: Final = frozenset({rule.value for rule in BY_FILL})
_EXACT: Final = "safe eliminations"


Method = tuple[str, Iterator[tuple[int, set[int]]]]
"""A method's name, and the vertices of a part in its order, each with the others of its bucket."""


class Candidate(NamedTuple):
    """What a method found for the largest connected part: log2 of the largest table and of all tables together.

    The latter is infinite where the method was given up, because that table was larger than the best before.
    """

    method: str
    states: float
    total: float


class Ordered(Record, frozen=True):
    """An order of elimination and how it was found.

    order       every variable once
    cost        what it costs; of one of the slices if there are some
    found_by    the method that ordered the largest connected part
    candidates  what each method found for that part, best first
    sliced      variables that are conditioned on: all the rest is done for each of their states, `slices` times
    """

    order: tuple[int, ...]
    cost: Cost
    found_by: str
    candidates: tuple[Candidate, ...] = ()
    sliced: tuple[int, ...] = ()
    slices: int = 1


def best_order(
    structure: Structure, *, budget: int = BUDGET, limit_bytes: int | None = None, keep: bool = False,
    most_operations: int = MOST_OPERATIONS, libraries: tuple[str, ...] = (),
) -> Ordered:
    """Return the best order found for a structure within `budget` steps for each connected part.

    With `limit_bytes`, the messages take no more: variables are conditioned on until that is so. `keep` counts all
    messages, not only those that are needed at once. `libraries` are asked for orders too: "goatd", "opt_einsum",
    "cotengra". goatd goes by the clock, so another machine may find another order.

    Raises:
        TooLargeError: even so it takes more than `most_operations`.
        ArgumentError: no such library, or it is not installed.

    Example:
        >>> best_order(Structure((2, 2, 2), ((0, 1), (1, 2)))).cost.width
        2
    """
    with PAUSED:
        found = kept(structure, (budget, *libraries), lambda: _search(structure, budget, libraries))
        order = tuple(found["order"])
        candidates = tuple([Candidate(*each) for each in found["candidates"]])
        method = candidates[0].method if candidates else _EXACT
        if limit_bytes is None:
            return Ordered(order, cost(structure, order), method, candidates)
        sliced, one = sliced_variables(
            structure, order, limit_bytes, keep=keep, most_operations=most_operations,
            found_by=method,
        )
        return Ordered(order, one, method, candidates, sliced, prod([structure.sizes[v] for v in sliced]))


def _search(structure: Structure, budget: int, libraries: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the best order of a structure, and the candidates for its largest part."""
    weight = weights_of(structure.sizes)
    single = {v for v, size in enumerate(structure.sizes) if size == 1}
    near = structure.neighbours
    if single:
        near = tuple(set() if v in single else around - single for v, around in enumerate(near))
    low = max((sum([weight[v] for v in scope if v not in single]) for scope in structure.scopes), default=0)
    reduced = Reduced(near, weight, low)
    order = list(reduced.first)
    several = conditioned(structure, single) if single and libraries else structure
    others = [(name, _places(library_order(name, several))) for name in libraries]
    known: dict[tuple[Any, ...], tuple[list[int], list[Candidate]]] = {}
    for vertices in reduced.parts():
        part = Part.of(reduced.graph, vertices)
        alike = tuple(map(frozenset, part.near)), tuple(part.weight)
        if alike not in known:
            given = [(name, part.eliminated(part.sorted_by(place))) for name, place in others]
            known[alike] = _part_order(part, budget, given)
        order += [vertices[v] for v in known[alike][0]]
    candidates = max([found for _, found in known.values()], key=lambda each: each[0][1:], default=[])
    return {"order": postorder(structure.sizes, buckets(structure, order)), "candidates": candidates}


def _places(order: tuple[int, ...]) -> dict[int, int]:
    return {v: i for i, v in enumerate(order)}


def _part_order(part: Part, budget: int, given: list[Method]) -> tuple[list[int], list[Candidate]]:
    """Return the best order of a part, and what each method found: our own, and those given."""
    best: tuple[Score, list[int]] | None = None
    candidates = []
    for method, elimination in chain(given, _methods(part)):
        if method in _SLOW and best is not None and best[0].total >= _HOPELESS:
            continue
        found, score = weighed(elimination, part.weight, inf if best is None else best[0].weight)
        candidates.append(Candidate(method, score.weight / WEIGHT_OF_BIT, score.total))
        if best is None or score < best[0]:
            best = score, [v for v, _ in found]
    assert best is not None
    score, order = best
    if not _is_dense(part) and score.total < _HOPELESS:
        hope = min(1.0, (_HOPELESS - score.total) / (_HOPELESS - _DOUBTFUL))
        order = improved(part, order, budget=int(min(hope * budget, 2.0 ** min(score.total - _WORTH, 60.0))))
        score = part.score(order)
        candidates.append(Candidate("improved", score.weight / WEIGHT_OF_BIT, score.total))
    return order, sorted(candidates, key=lambda each: each[1:])


def _is_dense(part: Part) -> bool:
    return sum([len(around) ** 2 for around in part.near]) > _DENSE


def _methods(part: Part) -> Iterator[Method]:
    """Yield our own methods."""
    dense = _is_dense(part)
    for method, order in sweeps(part, 1 if dense else _STARTS):
        yield method, part.eliminated(order)
    alike = len({*part.weight}) == 1
    for rule in (Rule.WEIGHTED_MIN_WIDTH, Rule.MIN_WIDTH, Rule.WEIGHTED_MIN_FILL, Rule.MIN_FILL):
        if not (alike and rule in WEIGHTED) and not (dense and rule in BY_FILL):
            weight = part.weight if rule in WEIGHTED else [1] * len(part.weight)
            yield rule.value, eliminated(Graph(part.near, weight), rule, range(len(weight)))
