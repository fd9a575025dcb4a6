"""Semirings: what product and sum mean in a program, and what zero and one are.

A carrier is an array of one dtype. Functions take NumPy arrays, traced arrays and torch tensors.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.base.records import Record

Array = Any
Reduce = Callable[[Array, tuple[int, ...]], Array]


class Semiring(Record, frozen=True, eq=False):
    """Two functions of arrays and their neutral elements.

    Args:
        name: how messages call it.
        add: (a, b) -> a + b of the semiring, element by element; associative and commutative.
        multiply: (a, b) -> a * b of the semiring, element by element; also distributes over `add`.
        zero: what `add` leaves as it is, and what makes every product zero.
        one: what `multiply` leaves as it is.
        reduce: (array, axes) -> the sum over axes; None: by `add`, in the order of the index.
        carrier: the native code for it (`jitfuse.ir.semirings.words.CARRIERS`), if there is any.

    Example:
        >>> cheapest = jf.factors.Semiring("min_sum", np.minimum, np.add, np.inf, 0.0)
        >>> g = jf.factors.FactorGraph({"a": 2}, [(("a",), [3.0, 2.0])])
        >>> float(g.partition(cheapest))
        2.0
    """

    name: str
    add: Callable[[Array, Array], Array]
    multiply: Callable[[Array, Array], Array]
    zero: Any
    one: Any
    reduce: Reduce | None = None
    carrier: str | None = None

    def sum(self, array: Array, axes: tuple[int, ...]) -> Array:
        """Return the semiring's sum over axes, which go away."""
        if not axes:
            return array
        if self.reduce is not None:
            return self.reduce(array, axes)
        for axis in sorted(axes, reverse=True):
            parts = [array[(slice(None),) * axis + (i,)] for i in range(array.shape[axis])]
            array = parts[0]
            for part in parts[1:]:
                array = self.add(array, part)
        return array


def _sum(array: Array, axes: tuple[int, ...]) -> Array:
    return array.sum(axes)


def _largest(array: Array, axes: tuple[int, ...]) -> Array:
    return array.max(axes)


def _logsumexp(array: Array, axes: tuple[int, ...]) -> Array:
    """Return log(sum(exp(array))): shifted by the largest element of each sum, so that no sum loses all it has.

    A sum of nothing but -inf is -inf; one with inf is inf.
    """
    largest = array.max(axes, keepdims=True)
    shift = np.where(np.isfinite(largest), largest, largest.dtype.type(0))
    return np.log(np.exp(array - shift).sum(axes)) + shift.reshape(tuple(
        [n for i, n in enumerate(array.shape) if i not in axes]))


PROBABILITY: Final = Semiring("probability", np.add, np.multiply, 0.0, 1.0, _sum, "sum_product")
LOG: Final = Semiring("log", np.logaddexp, np.add, -np.inf, 0.0, _logsumexp, "log")
MAX: Final = Semiring("max", np.maximum, np.multiply, 0.0, 1.0, _largest, "max_product")
MAX_SUM: Final = Semiring("max_sum", np.maximum, np.add, -np.inf, 0.0, _largest, "max_sum")
RESIDUES: Final = Semiring("residues", np.add, np.multiply, 0.0, 1.0, _sum, "modular")
"""Integers modulo a prime, which native code gets beside the tables."""
