"""Models whose messages would take too much memory: sums over the states of some variables, one slice after the other.

All slices are one program, run for each state of its modes (`nesting.py`). Owns how their answers are put together.
Does not own which variables these are (`jitfuse.factors.orders.slicing`).
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from jitfuse.base.lazy import cached_property
from jitfuse.errors import ModelError
from jitfuse.factors.counting import count
from jitfuse.factors.decoding import Best
from jitfuse.factors.given import IMPOSSIBLE, Given
from jitfuse.factors.native import run_nested
from jitfuse.factors.nesting import Modes
from jitfuse.factors.plans import Plan
from jitfuse.factors.queries import QUERIES
from jitfuse.factors.semirings import LOG, MAX_SUM, Array, Semiring
from jitfuse.factors.tables import Factor, Tables

MOST_AT_ONCE: Final = 1024
NUMBERS_AT_ONCE: Final = 1 << 19
"""Slices, and numbers of their tables and results, that are held together before they are summed."""


class Slices:
    """The sum of a model over all states of variables.

    Args:
        given: the model.
        modes: the variables that are conditioned on.
    """

    def __init__(self, given: Given, modes: Sequence[int]) -> None:
        self.given, self.modes = given, tuple(modes)
        self._sizes = tuple([given.sizes[v] for v in self.modes])
        self._count = prod(self._sizes)

    # ------------------------------------------------------------------ slices
    def _at(self, number: int) -> Given:
        """Return one slice as a model with evidence."""
        return self.given.observing(dict(zip(self.modes, map(int, np.unravel_index(number, self._sizes)))))

    def _every(self) -> list[Given]:
        return [self._at(number) for number in range(self._count)]

    @cached_property
    def _shared(self) -> tuple[tuple[int, ...], Tables, list[tuple[tuple[int, ...], Factor]], Modes]:
        """The sizes of variables in a slice, the tables that all slices share, the others with the axes of modes in
        front, of which there are as many as modes of theirs, and the numbers of the modes of each factor.
        """
        number = {v: k for k, v in enumerate(self.modes)}
        sizes = tuple([1 if v in number else size for v, size in enumerate(self.given.sizes)])
        same, others = [], []
        for scope, table in self.given.tables.factors:
            chosen = [axis for axis, v in enumerate(scope) if v in number]
            rest = [axis for axis in range(len(scope)) if axis not in chosen]
            if chosen:
                factor = Factor(tuple([scope[axis] for axis in rest]), table.transpose(*chosen, *rest))
                others.append((tuple([number[scope[axis]] for axis in chosen]), factor))
            else:
                same.append(Factor(scope, table))
        modes = (*(() for _ in same), *(own for own, _ in others))
        return sizes, Tables(sizes, same, self.given.tables.log), others, modes

    def _parts(self, numbers: np.ndarray, result: int = 0) -> Iterator[tuple[np.ndarray, Given, slice]]:
        """Yield the states of some slices, the slices as one model with a batch axis, and which of `numbers` they are.

        `result`: how many numbers the result of each has, if these are more than all variables have states.
        """
        sizes, same, others, modes = self._shared
        each = sum(self.given.sizes) + sum([prod(f.table.shape[len(own) :]) for own, f in others]) + result
        together = max(1, min(MOST_AT_ONCE, NUMBERS_AT_ONCE // each))
        for start in range(0, len(numbers), together):
            part = slice(start, start + together)
            states = np.stack(np.unravel_index(numbers[part], self._sizes), axis=-1)
            chosen = [Factor(f.scope, f.table[tuple(states[:, own].T)]) for own, f in others]
            tables = Tables(sizes, chosen, same.log, same)
            runner = partial(_run_selected, modes, self._sizes, states)
            yield states, self.given.with_tables(tables, sizes, runner), part

    def _alone(self) -> list[Slices]:
        """Return the same for each evidence of a batch."""
        tables = self.given.tables
        return [Slices(self.given.with_tables(Tables(self.given.sizes, [
            Factor(scope, table[k] if table.ndim > len(scope) else table) for scope, table in tables.factors
        ], tables.log), self.given.sizes), self.modes) for k in range(tables.batch[0])]

    def _each(self, ask: Callable[[Given], Array]) -> np.ndarray:
        """Return the answer of each slice."""
        return np.concatenate([ask(part) for _, part, _ in self._parts(np.arange(self._count))])

    def _combined(self, ask: Callable[[Given], Array], add: Callable[[Array], Array]) -> Any:
        """Return what `add` makes of the answers of all slices, which are along the first axis."""
        if self.given.tables.traced:
            return add(np.stack([ask(each) for each in self._every()]))
        if self.given.tables.batch:
            return np.stack([one._combined(ask, add) for one in self._alone()])
        return add(self._each(ask)).item()

    # ------------------------------------------------------------------ the partition function
    def log_partition(self) -> Any:
        """Return log Z."""
        with np.errstate(divide="ignore"):
            return self._combined(Given.log_partition, lambda found: LOG.sum(found, (0,)))

    def partition(self) -> Any:
        """Return Z."""
        return self._combined(Given.partition, lambda found: found.sum(axis=0))

    def largest(self) -> Any:
        """Return the largest product."""
        return self._combined(Given.largest, lambda found: found.max(axis=0))

    def satisfiable(self) -> Any:
        """Return whether any product is not zero."""
        return self._combined(Given.satisfiable, lambda found: found.any(axis=0))

    def count(self) -> int:
        """Return the sum of the products of integers, exactly."""
        self.given.require_integers()
        return sum(count(part.plan(), part.tables, part.run_native)
                   for _, part, _ in self._parts(np.arange(self._count)))

    def custom(self, semiring: Semiring) -> Any:
        """Return the result of a semiring that a person wrote."""
        found, *others = [each.custom(semiring) for each in self._every()]
        for each in others:
            found = semiring.add(found, each)
        return found

    # ------------------------------------------------------------------ marginals
    def marginals(self) -> list[Any]:
        """Return the marginals of all variables."""
        if self.given.tables.traced:
            return self._traced_mean(Given.marginals, 1)
        if self.given.tables.batch:
            return [np.stack(tables) for tables in zip(*[one.marginals() for one in self._alone()])]
        numbers, shares = self._shares()
        found: list[Any] = [np.zeros(size) for size in self.given.model.sizes]
        for states, part, place in self._parts(numbers):
            weights = shares[place]
            for v, table in enumerate(part.marginals()):
                if v in self.modes:
                    found[v] += np.bincount(states[:, self.modes.index(v)], weights, len(found[v]))
                elif v in self.given.evidence.states:
                    found[v] = table
                else:
                    found[v] += weights @ table
        observed = self.given.evidence.states
        return [table if v in observed else table.astype(self.given.dtype) for v, table in enumerate(found)]

    def marginal(self, wanted: tuple[int, ...]) -> Any:
        """Return the joint marginal of variables, in this order."""
        self.given.require_small(wanted)
        if self.given.tables.traced:
            return self._traced_mean(lambda each: [each.marginal(wanted)], len(wanted))[0]
        if self.given.tables.batch:
            return np.stack([one.marginal(wanted) for one in self._alone()])
        numbers, shares = self._shares()
        chosen, rest = ([v for v in wanted if (v in self.modes) == yes] for yes in (True, False))
        outer, inner = ([self.given.model.sizes[v] for v in some] for some in (chosen, rest))
        found = np.zeros((prod(outer), prod(inner)))
        for states, part, place in self._parts(numbers, prod(inner)):
            table = shares[place, None] * part.marginal(tuple(rest)).reshape(-1, prod(inner))
            rows = np.zeros(len(states), np.int64)
            for v, size in zip(chosen, outer):
                rows = rows * size + states[:, self.modes.index(v)]
            np.add.at(found, rows, table)
        axes = [[*chosen, *rest].index(v) for v in wanted]
        return found.reshape((*outer, *inner)).transpose(axes)

    def _shares(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of the slices that have a share of Z which is not 0, and these shares."""
        return _shares(self._each(Given.log_partition))

    def _traced_mean(self, ask: Callable[[Given], Sequence[Array]], axes: int) -> list[Any]:
        """Return the mean of traced tables of all slices, of so many axes behind those of a batch."""
        slices = self._every()
        logs = np.stack([each.log_partition() for each in slices])
        weights = np.exp(logs - logs.max(axis=0))
        weights = (weights / weights.sum(axis=0)).reshape(weights.shape + (1,) * axes)
        return [sum([np.where(w > 0, w * table, 0.0) for w, table in zip(weights, tables)])
                for tables in zip(*[ask(each) for each in slices])]

    # ------------------------------------------------------------------ states
    def map(self) -> Best:
        """Return the lowest of the most probable states and the log of its product."""
        self.given.require_values("map")
        values = self._each(partial(Given.of_logs, semiring=MAX_SUM))
        if not np.isfinite(values).any():
            raise ModelError(IMPOSSIBLE)
        near = np.isfinite(values) & (values >= values.max() - self._rounding)
        found = [self._at(number).map() for number in np.flatnonzero(near).tolist()]
        best = max(each.value for each in found)
        return min(each for each in found if each.value >= best - each.rounding)

    @property
    def _rounding(self) -> float:
        """By how much sums of logs of two slices whose best products are equal may differ, at most."""
        tables = self.given.tables
        size = sum([float(np.abs(log[np.isfinite(log)]).max(initial=0)) for log in map(
            tables.log_of, tables.factors)])
        return 16 * float(np.finfo(np.float64).eps) * (len(tables.factors) + len(self.given.sizes)) * (1 + size)

    def sample(self, n: int, draw: Callable[[int], np.ndarray]) -> list[np.ndarray]:
        """Return n samples of all variables: of each the slice is drawn by its share of Z, then the states in it.

        `draw` returns n numbers from 0 to 1 for a number: that of a variable, or the one behind all of them.
        """
        self.given.require_values("sample")
        numbers, shares = _shares(self._each(partial(Given.of_logs, semiring=LOG)))
        bounds = shares.cumsum()
        chosen = np.searchsorted(bounds, draw(len(self.given.sizes)) * bounds[-1], side="right")
        chosen = np.minimum(chosen, np.searchsorted(bounds, bounds[-1]))
        found = [np.zeros(n, np.int64) for _ in self.given.sizes]
        for which in np.unique(chosen).tolist():
            own = np.flatnonzero(chosen == which)
            states = self._at(int(numbers[which])).sample(len(own), partial(_some, draw, own))
            for v, drawn in enumerate(states):
                found[v][own] = drawn
        return found


def _shares(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which of the terms of a sum are not 0 by rounding, and the share of each; their logs are given."""
    if not np.isfinite(logs).any():
        raise ModelError(IMPOSSIBLE)
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    numbers = np.flatnonzero(shares)
    return numbers, shares[numbers]


def _some(draw: Callable[[int], np.ndarray], own: np.ndarray, number: int) -> np.ndarray:
    """Return some of the numbers that are drawn for a number."""
    some: np.ndarray = draw(number)[own]
    return some


def _run_selected(
    modes: Modes, sizes: tuple[int, ...], states: np.ndarray, plan: Plan, query: str, semiring: Semiring,
    stacks: Sequence[np.ndarray], dtype: Any, *, modulus: int = 0,
) -> tuple[Any, float]:
    """Return what `Plan.run` returns of a model at many states of its modes, with a batch axis for these.

    Args:
        modes: those of each factor.
        sizes: number of states of each mode.
        states: int[batch, modes].
        plan, query, semiring, stacks, dtype, modulus: those of `Plan.run`.
    """
    ready = [np.ascontiguousarray(stack, dtype) for stack in stacks]
    nested, selected = plan.nested(query, modes, sizes), plan.batched(stacks)
    slots, least = run_nested(nested, semiring, ready, selected, states, dtype, modulus=modulus)
    return QUERIES[query].read(plan, slots), least
