"""From messages to states: the walk from the root to the leaves that decides one variable after the other.

The messages of an upward pass hold what is needed: where a node's interface is decided, its own variable has a known
table of probabilities. Nothing but messages is kept, no positions of maxima.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jitfuse.factors.plans import Plan
from jitfuse.factors.semirings import Array


def most_probable(plan: Plan, logs: Sequence[Array], messages: Sequence[Array]) -> list[int]:
    """Return the best state of each variable, the lowest of equal ones, after a pass of the max-sum semiring."""
    states = [0] * len(plan.question.structure.sizes)
    for v, terms in _nodes(plan, logs, messages):
        total = sum((table[(slice(None), *[states[u] for u in scope[1:]])] for scope, table in terms), 0.0)
        states[v] = int(np.argmax(total)) if np.ndim(total) else 0
    return states


def samples(
    plan: Plan, logs: Sequence[Array], messages: Sequence[Array], n: int, key: Any
) -> list[np.ndarray]:
    """Return n samples of each variable, after an upward pass of the log semiring, of a model that is possible."""
    from jitfuse.random import fold_in, uniform  # jf.random is imported with the first sample

    sizes = plan.question.structure.sizes
    states: list[np.ndarray] = [np.zeros(n, np.int64) for _ in sizes]
    for v, terms in _nodes(plan, logs, messages):
        total = np.zeros((n, sizes[v]))
        for scope, table in terms:
            total = total + np.moveaxis(table, 0, -1)[tuple([states[u] for u in scope[1:]])]
        weights = np.exp(total - total.max(axis=1, keepdims=True, initial=-np.inf)).cumsum(axis=1)
        drawn = np.asarray(uniform((n, 1), key=fold_in(key, v))) * weights[:, -1:]
        states[v] = np.minimum((weights <= drawn).sum(axis=1), _last_possible(weights))
    return states


def _last_possible(weights: np.ndarray) -> np.ndarray:
    """Return for each row of cumulated weights the last state with a weight: rounding must not lead past it."""
    last: np.ndarray = (weights < weights[:, -1:]).sum(axis=1)
    return last


def _nodes(
    plan: Plan, logs: Sequence[Array], messages: Sequence[Array]
) -> Iterator[tuple[int, list[tuple[tuple[int, ...], Array]]]]:
    """Yield each variable, parents first, with the scopes and tables that it is decided by; it comes first in each."""
    load, scopes = plan.loader(logs), plan.question.structure.scopes
    for node in reversed(plan.tree.nodes[:-1]):
        v = node.clique[0]
        terms = [_first(v, scopes[f], np.asarray(load(f).alone(len(scopes[f])))) for f in node.factors]
        for child in node.children:
            scope = sorted(plan.tree.nodes[child].interface, key=plan.tree.axes.__getitem__)
            terms.append(_first(v, scope, np.asarray(messages[child])))
        yield v, terms


def _first(v: int, scope: Sequence[int], table: np.ndarray) -> tuple[tuple[int, ...], np.ndarray]:
    """Return a scope and its table with a variable in front."""
    place = scope.index(v)
    return (v, *scope[:place], *scope[place + 1 :]), np.moveaxis(table, place, 0)
