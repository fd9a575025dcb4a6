"""What loops and branches compute: the references of the operators that hold programs.

The programs come as callables from operands to a tuple of results, over NumPy arrays or torch tensors. Does not own
the rows (`jitfuse.ir.operators.control`), nor how programs are run.
"""
from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from jitfuse.dtypes import numpy_dtype

Array = Any


class Body(Protocol):
    """A program that is called with operands and returns its results, of which it knows shape and dtype."""

    @property
    def results(self) -> Sequence[tuple[tuple[int, ...], str]]:
        """Shape and dtype of each result."""

    def __call__(self, *operands: Array) -> tuple[Array, ...]:
        """Return the results for these operands."""


def cond(pred: Array, *operands: Array, on_true: Body, on_false: Body) -> tuple[Array, ...]:
    """Return what one of two programs makes of all operands, chosen by the first."""
    return (on_true if bool(pred) else on_false)(pred, *operands)


def while_loop(*operands: Array, condition: Body, body: Body, carries: int) -> tuple[Array, ...]:
    """Return the carried values once the condition no longer holds."""
    carried, captured = operands[:carries], operands[carries:]
    while bool(condition(*carried, *captured)[0]):
        carried = body(*carried, *captured)
    return carried


def fori_loop(low: Array, high: Array, *operands: Array, body: Body, carries: int) -> tuple[Array, ...]:
    """Return the carried values after the body has run for low, low + 1, ... below high."""
    carried, captured = operands[:carries], operands[carries:]
    for i in range(int(low), int(high)):
        carried = body(np.int64(i), *carried, *captured)
    return carried


def scan(
    *operands: Array, body: Body, carries: int, scanned: int, length: int, reverse: bool
) -> tuple[Array, ...]:
    """Return the carried values after the body has run over the parts of arrays, then its other results, stacked."""
    carried, arrays = operands[:carries], operands[carries : carries + scanned]
    captured = operands[carries + scanned :]
    made: list[tuple[Array, ...]] = []
    for k in places(length, reverse):
        results = body(*carried, *(x[k] for x in arrays), *captured)
        carried = results[:carries]
        made.append(results[carries:])
    if reverse:
        made.reverse()
    if made:
        return (*carried, *(_stacked(parts) for parts in zip(*made, strict=True)))
    return (*carried, *(np.empty((0, *shape), numpy_dtype(dtype)) for shape, dtype in body.results[carries:]))


def places(length: int, reverse: bool) -> Iterator[int]:
    """Return the places along the scanned axis in the order of the iterations."""
    return iter(range(length - 1, -1, -1) if reverse else range(length))


def _stacked(parts: tuple[Array, ...]) -> Array:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(parts[0], torch.Tensor):
        return torch.stack(parts)
    return np.stack(parts)
