"""From messages to states: the walk from the root to the leaves that decides one variable after the other.

The messages of an upward pass hold what is needed: where a node's interface is decided, its own variable has a known
table of probabilities. Nothing but messages is kept, no positions of maxima.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.factors.plans import Plan
from jitfuse.factors.semirings import MAX_SUM, Array
from jitfuse.factors.tables import Tables


class Best(NamedTuple):
    """States of all variables, the log of their product, and by how much equal products may differ in theirs."""

    states: list[int]
    value: float
    rounding: float


def most_probable(plan: Plan, tables: Tables) -> tuple[Best, bool]:
    """Return a most probable state of each variable, and whether another one may be as good."""
    logs, sizes = tables.relative_logs()
    states, gap = _decided(plan, logs)
    value = _value(plan, logs, states)
    if value == -math.inf:
        return Best(states, value, 0.0), False
    # no term is positive: whatever comes near the best has partial sums of its size at most
    terms = len(plan.question.structure.scopes) + len(states)
    rounding = 2 * float(np.finfo(np.float64).eps) * (terms * (1 - value) + sizes)
    return Best(states, _value(plan, tables.logs(np.float64), states), rounding), gap <= 2 * rounding


def _value(plan: Plan, logs: Sequence[Array], states: Sequence[int]) -> float:
    """Return the log of the product of the tables at these states."""
    load = plan.loader(logs)
    return math.fsum(load(f)[tuple([states[v] for v in scope])]
                     for f, scope in enumerate(plan.question.structure.scopes))


def _decided(plan: Plan, logs: Sequence[Array]) -> tuple[list[int], float]:
    """Return a best state of each variable, and the least that a decision for another state loses.

    States that differ from these differ first, in the order of decisions, in one variable: they lose as much as that.
    """
    messages, _ = plan.run("messages", MAX_SUM, logs, np.float64)
    states, gap = [0] * len(plan.question.structure.sizes), math.inf
    for own, shape, terms in _nodes(plan, logs, messages):
        total = np.zeros(shape)
        for rest, table in terms:
            total = total + table[(..., *[states[u] for u in rest])]
        best = int(np.argmax(total))
        for v, state in zip(own, np.unravel_index(best, shape)):
            states[v] = int(state)
        others = np.delete(total, best)
        if len(others) and total.flat[best] > -math.inf:
            gap = min(gap, float(total.flat[best] - others.max()))
    return states, gap


def lowest(plan: Plan, tables: Tables, best: Best) -> Best:
    """Return the lowest, in the order of variables, of the states whose product is as good as the best.

    The last factor over each variable alone has ones, and no other has its table: one variable after the other is fixed
    there, at the lowest state with which the others still reach as much. What is not reached alone, by the maxima over
    all other variables, is not tried, nor what the states found last have already.
    """
    logs = [stack.copy() for stack in tables.relative_logs()[0]]
    load, states = plan.loader(logs), best.states
    least = _value(plan, logs, states) - best.rounding
    maxima, _ = plan.run("marginals", MAX_SUM, logs, np.float64)
    own = {scope[0]: factor for factor, scope in enumerate(plan.question.structure.scopes) if len(scope) == 1}
    for v in sorted(own):
        row = load(own[v])
        for state in np.flatnonzero(maxima[v] >= least - best.rounding).tolist():
            row[:] = -math.inf
            row[state] = 0.0
            found = states if state == states[v] else _decided(plan, logs)[0]
            if found is states or _value(plan, logs, found) >= least:
                states = found
                break
    return best._replace(states=states, value=_value(plan, tables.logs(np.float64), states))


def samples(
    plan: Plan, logs: Sequence[Array], messages: Sequence[Array], n: int, draw: Callable[[int], np.ndarray]
) -> list[np.ndarray]:
    """Return n samples of each variable, after an upward pass of the log semiring, of a model that is possible.

    `draw` returns n numbers from 0 to 1 for a variable.
    """
    states: list[np.ndarray] = [np.zeros(n, np.int64) for _ in plan.question.structure.sizes]
    for own, shape, terms in _nodes(plan, logs, messages):
        total = np.zeros((n, *shape))
        for rest, table in terms:
            at = table[(..., *[states[u] for u in rest])]
            total = total + (np.moveaxis(at, -1, 0) if rest else at)
        total = total.reshape(n, math.prod(shape))
        weights = np.exp(total - total.max(axis=1, keepdims=True, initial=-np.inf)).cumsum(axis=1)
        drawn = draw(own[0])[:, None] * weights[:, -1:]
        chosen = np.minimum((weights <= drawn).sum(axis=1), _last_possible(weights))
        for v, found in zip(own, np.unravel_index(chosen, shape)):
            states[v] = found
    return states


def drawn_by(key: Any, n: int) -> Callable[[int], np.ndarray]:
    """Return the function from a number to n numbers from 0 to 1, which are the same each time."""
    from jitfuse.random import fold_in, uniform  # jf.random is imported with the first sample

    return cache(lambda number: np.asarray(uniform((n, 1), key=fold_in(key, number)))[:, 0])


def _last_possible(weights: np.ndarray) -> np.ndarray:
    """Return for each row of cumulated weights the last state with a weight: rounding must not lead past it."""
    last: np.ndarray = (weights < weights[:, -1:]).sum(axis=1)
    return last


def _nodes(
    plan: Plan, logs: Sequence[Array], messages: Sequence[Array]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], list[tuple[tuple[int, ...], Array]]]]:
    """Yield the variables that are decided together, parents first, with their sizes, and the tables that decide them.

    A table's first axes are these variables', its last ones those of the other variables that come with it.
    """
    load, (sizes, scopes) = plan.loader(logs), (plan.question.structure.sizes, plan.question.structure.scopes)
    for node in reversed(plan.tree.nodes[:-1]):
        own = node.eliminated
        given = [(scopes[f], load(f)) for f in node.factors]
        for child in node.children:
            scope = tuple(sorted(plan.tree.nodes[child].interface, key=plan.tree.axes.__getitem__))
            given.append((scope, messages[child]))
        yield own, tuple([sizes[v] for v in own]), [_first(own, scope, np.asarray(table)) for scope, table in given]


def _first(own: tuple[int, ...], scope: tuple[int, ...], table: Array) -> tuple[tuple[int, ...], Array]:
    """Return the other variables of a table, and it with axes for all of `own` in front, of one element if missing."""
    rest = tuple([u for u in scope if u not in own])
    table = table.transpose([scope.index(u) for u in (*(v for v in own if v in scope), *rest)])
    return rest, np.expand_dims(table, tuple([i for i, v in enumerate(own) if v not in scope]))
