"""The best order that a budget of steps finds, kept for the next model of the same structure.

The pipeline: variables of one state are set aside, what is safe is eliminated (`reductions`), each connected part that
is left is ordered by several methods of which the best wins, and the subtrees are sorted for memory
(`cost.postorder`). Where the tables would be too large some variables are conditioned on (`slicing`). Deterministic: no
clock is read.
"""
from __future__ import annotations

from typing import Final

from jitfuse.base.gc_pause import PAUSED
from jitfuse.base.records import NamedTuple, Record
from jitfuse.factors.orders.cost import Cost, buckets, cost_of, postorder
from jitfuse.factors.orders.greedy import WEIGHT_OF_BIT, Graph, Rule, eliminate, weights_for, weights_of
from jitfuse.factors.orders.parts import Part, Score
from jitfuse.factors.orders.reductions import Reduced
from jitfuse.factors.structure import Structure

BUDGET: Final = 1_000_000
"""Steps of a search, unless told: some 0.3 s."""


class Candidate(NamedTuple):
    """What a method found for the largest connected part: log2 of the largest table, log2 of all tables together."""

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
    structure: Structure, *, budget: int = BUDGET, limit_bytes: int | None = None, itemsize: int = 8,
) -> Ordered:
    """Return the best order found for a structure within `budget` steps.

    Example:
        >>> best_order(Structure((2, 2, 2), ((0, 1), (1, 2)))).cost.width
        2
    """
    with PAUSED:
        return _searched(structure, budget)


def _searched(structure: Structure, budget: int) -> Ordered:
    """Return the best order, found anew."""
    weight = weights_of(structure.sizes)
    single = {v for v, size in enumerate(structure.sizes) if size == 1}
    near = structure.neighbours
    if single:
        near = tuple(set() if v in single else around - single for v, around in enumerate(near))
    low = max((sum([weight[v] for v in scope if v not in single]) for scope in structure.scopes), default=0)
    reduced = Reduced(near, weight, low)
    order = [v for v in reduced.first if v not in single]
    found: list[tuple[Candidate, ...]] = []
    parts = [Part.of(reduced.graph, vertices) for vertices in reduced.parts()]
    for part in parts:
        best, candidates = _part_order(part, reduced.low, budget // len(parts))
        order += [part.vertices[v] for v in best]
        found.append(candidates)
    made = buckets(structure, (*order, *sorted(single)))
    final = postorder(structure.sizes, made)
    candidates = max(found, key=lambda each: each[0][1:], default=())
    return Ordered(final, cost_of(structure.sizes, buckets(structure, final)),
                   candidates[0].method if candidates else "exact", candidates)


def _part_order(part: Part, low: int, budget: int) -> tuple[list[int], tuple[Candidate, ...]]:
    """Return the best order of a part, and what each method found."""
    tried: list[tuple[Score, str, list[int]]] = []
    for rule in Rule:
        order = eliminate(Graph(part.near, weights_for(rule, part.weight)), rule)
        tried.append((part.score(order), rule.value, order))
    tried.sort(key=lambda each: each[0])
    candidates = tuple(Candidate(name, score.weight / WEIGHT_OF_BIT, score.total) for score, name, _ in tried)
    return tried[0][2], candidates
