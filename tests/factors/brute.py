"""The answers of factor graphs by enumeration of all states, in plain NumPy and Python integers; nothing of jitfuse.

A weight is a sum of logarithms in extended precision, so that products of 1e-300 and 1e300 neither vanish nor overflow,
and -inf stands for zero. Counts are Python integers.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Variable = Hashable
Scope = tuple[Variable, ...]
Evidence = Mapping[Variable, Any]
"""For a variable its state, or an array of weights, one for each state."""
LARGEST = 2**20
"""So many states at most are enumerated."""


@dataclass(frozen=True)
class Model:
    """A factor graph as data: what `FactorGraph` takes, and evidence for the queries.

    A table is an array-like, or a function of one index array for each occurrence in the scope.
    """

    sizes: dict[Variable, int]
    factors: list[tuple[Scope, Any]]
    log: bool = False
    evidence: dict[Variable, Any] = field(default_factory=dict)
    positional: bool = False
    """Whether the sizes are given as a sequence; the variables are 0, 1, ... then."""

    @property
    def states(self) -> int:
        return int(np.prod([1, *self.sizes.values()], dtype=object))

    def given_sizes(self) -> dict[Variable, int] | list[int]:
        return list(self.sizes.values()) if self.positional else self.sizes


def grid_of(model: Model) -> dict[Variable, np.ndarray]:
    """Return for each variable its states, along an axis of its own."""
    assert model.states <= LARGEST, f"{model.states} states are too many to enumerate"
    meshes = np.ogrid[tuple(slice(size) for size in model.sizes.values())] if model.sizes else ()
    return dict(zip(model.sizes, meshes, strict=True))


def values_of(table: Any, indices: Sequence[np.ndarray], dtype: type | None = None) -> np.ndarray:
    """Return the values of a factor at states; a variable that is twice in the scope takes the diagonal."""
    return np.asarray(table(*indices) if callable(table) else np.asarray(table, dtype)[tuple(indices)])


def logs(values: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(values.astype(np.longdouble))


def is_soft(given: Any) -> bool:
    return np.ndim(given) == 1


def masks(model: Model, evidence: Evidence) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the states and the weights of each observed variable, along its axis; weights are never logarithms."""
    grid = grid_of(model)
    return [(grid[variable], np.asarray(given)[grid[variable]] if is_soft(given) else grid[variable] == given)
            for variable, given in evidence.items()]


def log_weights(model: Model, evidence: Evidence) -> np.ndarray:
    """Return the logarithm of the product of all factors, for each state; axes are the variables in order."""
    grid, total = grid_of(model), np.zeros(tuple(model.sizes.values()), np.longdouble)
    for scope, table in model.factors:
        values = values_of(table, [grid[variable] for variable in scope])
        total = total + (values.astype(np.longdouble) if model.log else logs(values))
    for _, weights in masks(model, evidence):
        total = total + logs(weights)
    return total


def log_sum(weights: np.ndarray, kept: Sequence[int] = ()) -> np.ndarray:
    """Return log(sum(exp)) over all axes but those that are kept, in their order in the array."""
    axes = tuple(axis for axis in range(weights.ndim) if axis not in kept)
    largest = np.max(weights, axis=axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isneginf(largest), 0, largest)
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(weights - shift), axis=axes)) + np.squeeze(shift, axes)


def joint(model: Model, weights: np.ndarray, variables: Sequence[Variable]) -> np.ndarray:
    """Return the joint distribution of different variables, axes in the order asked for."""
    names = list(model.sizes)
    axes = [names.index(variable) for variable in variables]
    summed = log_sum(weights, axes)
    return np.exp(summed - log_sum(weights)).transpose([sorted(axes).index(axis) for axis in axes])


def weight_of(model: Model, evidence: Evidence, assignment: Mapping[Variable, int]) -> np.longdouble:
    """Return the log weight of one assignment."""
    assert assignment.keys() == model.sizes.keys()
    total = np.longdouble(0)
    for scope, table in model.factors:
        values = values_of(table, [np.asarray(assignment[variable]) for variable in scope])
        total += values.astype(np.longdouble) if model.log else logs(values)
    for variable, given in evidence.items():
        state = assignment[variable]
        total += logs(np.asarray(given[state] if is_soft(given) else float(state == given)))
    return total


def count(model: Model, evidence: Evidence) -> int:
    """Return the sum over states of the product of integer tables, as a Python integer."""
    grid, total = grid_of(model), np.ones(tuple(model.sizes.values()), object)
    exact: Callable[[Any], Any] = np.frompyfunc(int, 1, 1)
    for scope, table in model.factors:
        total = total * exact(values_of(table, [grid[variable] for variable in scope]))
    for _, weights in masks(model, evidence):
        total = total * exact(weights)
    return int(np.sum(total))


def entropy(model: Model, weights: np.ndarray, variables: Sequence[Variable]) -> float:
    """Return the entropy of a joint distribution in nats."""
    chances = joint(model, weights, variables)
    return -float(np.sum(chances * np.log(np.where(chances > 0, chances, 1))))


def conditional_entropy(
    model: Model, weights: np.ndarray, variables: Sequence[Variable], given: Sequence[Variable]
) -> float:
    """Return H(variables | given) in nats; no variable is in both."""
    return entropy(model, weights, [*variables, *given]) - entropy(model, weights, given)
