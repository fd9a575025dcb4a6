"""Models whose messages would take too much memory: sums over the states of some variables, one slice after the other.

Owns how answers of slices are put together. Does not own which variables these are (`jitfuse.factors.orders.slicing`).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitfuse.errors import ModelError, TooLargeError
from jitfuse.factors.decoding import Best
from jitfuse.factors.given import IMPOSSIBLE, Given
from jitfuse.factors.semirings import Semiring


class Slices:
    """The models of all states of the variables that are conditioned on: their results are summed."""

    def __init__(self, slices: Sequence[Given]) -> None:
        self.slices = slices

    def log_partition(self) -> Any:
        """Return log Z."""
        found = np.logaddexp.reduce([s.log_partition() for s in self.slices])
        return found if np.ndim(found) else float(found)

    def partition(self) -> Any:
        """Return Z."""
        return sum(s.partition() for s in self.slices)

    def largest(self) -> Any:
        """Return the largest product."""
        return np.maximum.reduce([s.largest() for s in self.slices])

    def satisfiable(self) -> Any:
        """Return whether any product is not zero."""
        return any(s.satisfiable() for s in self.slices)

    def count(self) -> int:
        """Return the sum of the products of integers, exactly."""
        return sum(s.count() for s in self.slices)

    def custom(self, semiring: Semiring) -> Any:
        """Return the result of a semiring that a person wrote."""
        found = self.slices[0].custom(semiring)
        for each in self.slices[1:]:
            found = semiring.add(found, each.custom(semiring))
        return found

    def marginals(self) -> list[Any]:
        """Return the marginals of all variables."""
        weighed = self._weighed()
        found = [s.marginals() for s, _ in weighed]
        return [sum(w * table for (_, w), table in zip(weighed, tables)) for tables in zip(*found)]

    def marginal(self, wanted: tuple[int, ...]) -> Any:
        """Return the joint marginal of variables, in this order."""
        return sum(w * s.marginal(wanted) for s, w in self._weighed())

    def _weighed(self) -> list[tuple[Given, float]]:
        """Return the slices that are possible, and the share of each of them, which may be 0 by rounding."""
        logs = np.array([s.log_partition() for s in self.slices])
        if logs.ndim > 1:
            raise TooLargeError("a batch of evidence for a model that is sliced: give one evidence at a time")
        if not np.isfinite(logs).any():
            raise ModelError(IMPOSSIBLE)
        shares = np.exp(logs - logs.max())
        shares /= shares.sum()
        return [(s, float(w)) for s, w, log in zip(self.slices, shares, logs) if log > -np.inf]

    def map(self) -> Best:
        """Return the lowest of the most probable states and the log of its product."""
        found = [s.map() for s in self.slices if s.satisfiable()]
        if not found:
            raise ModelError(IMPOSSIBLE)
        best = max(each.value for each in found)
        return min(each for each in found if each.value >= best - each.rounding)

    def sample(self, n: int, key: Any) -> list[np.ndarray]:
        """Refuse: a sample needs all messages of all slices."""
        raise TooLargeError(f"samples need all messages in memory, and these are {len(self.slices)} slices of them")
