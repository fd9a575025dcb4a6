"""References of the operators that hold programs: loops and branches.

The programs come as callables from operands to a tuple of results, over NumPy arrays or torch tensors. Results need
to stay valid only until the call after the next one. Does not own the rows (`jitfuse.ir.operators.control`), nor how
programs are run.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from jitfuse.dtypes import numpy_dtype

Array = Any


class Body(Protocol):
    """A program that is called with operands and returns its results, whose shapes and dtypes it knows."""

    @property
    def results(self) -> Sequence[tuple[tuple[int, ...], str]]:
        """Shape and dtype of each result."""

    def __call__(self, *operands: Array) -> tuple[Array, ...]:
        """Return the results for these operands."""


def cond(pred: Array, *operands: Array, on_true: Body, on_false: Body) -> tuple[Array, ...]:
    """Return the results of one of two programs over all operands, chosen by `pred`."""
    return (on_true if bool(pred) else on_false)(pred, *operands)


def while_loop(*operands: Array, condition: Body, body: Body, carries: int) -> tuple[Array, ...]:
    """Return the carried values once the condition is false."""
    carried, captured = operands[:carries], operands[carries:]
    while bool(condition(*carried, *captured)[0]):
        carried = body(*carried, *captured)
    return carried


def fori_loop(low: Array, high: Array, *operands: Array, body: Body, carries: int) -> tuple[Array, ...]:
    """Return the carried values after running the body for low, low + 1, ... below high."""
    carried, captured = operands[:carries], operands[carries:]
    for i in range(int(low), int(high)):
        carried = body(np.int64(i), *carried, *captured)
    return carried


def scan(
    *operands: Array, body: Body, carries: int, scanned: int, length: int, reverse: bool
) -> tuple[Array, ...]:
    """Return the carried values after running the body over slices of arrays, then its other results, stacked."""
    carried, arrays = operands[:carries], operands[carries : carries + scanned]
    captured = operands[carries + scanned :]
    stacks: list[Array] = []
    for k in iteration_order(length, reverse):
        results = body(*carried, *[x[k] for x in arrays], *captured)
        carried = results[:carries]
        if not stacks:
            stacks = [_stack(length, *made) for made in zip(body.results[carries:], results[carries:], strict=True)]
        for stack, made in zip(stacks, results[carries:], strict=True):
            stack[k] = made
    if not length:
        stacks = [np.empty((0, *shape), numpy_dtype(dtype)) for shape, dtype in body.results[carries:]]
    return (*carried, *stacks)


def iteration_order(length: int, reverse: bool) -> Iterator[int]:
    """Return the positions along the scanned axis in iteration order."""
    return iter(range(length - 1, -1, -1) if reverse else range(length))


def _stack(length: int, meta: tuple[tuple[int, ...], str], first: Array) -> Array:
    """Return memory for `length` results, on the device of the first one."""
    shape, dtype = meta
    if hasattr(first, "new_empty"):  # a torch tensor
        return first.new_empty((length, *shape))
    return np.empty((length, *shape), numpy_dtype(dtype))


def given(*operands: Array, rule: Body, results: int, captured: int) -> tuple[Array, ...]:
    """Return the first operands: results with derivatives of their own."""
    return operands[:results]
