"""Tables of records for `semiring_sums`, written record by record."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitfuse.ir.semirings import words as w
from jitfuse.ir.semirings.loops import Operand, record_of

FIRST, SECOND = w.STACKS, w.STACKS + 1


def record(extents: Sequence[int], out: tuple[Any, ...], a: tuple[Any, ...], b: tuple[Any, ...]) -> np.ndarray:
    """Return a record over axes of these extents; each tensor is (memory, first, strides)."""
    made = record_of(Operand(*out), Operand(*a), Operand(*b), extents)
    assert made is not None
    return made


def attributes(carrier: str, records: Sequence[np.ndarray], workspace: int, size: int) -> dict[str, Any]:
    """Return the attributes of a step."""
    code = b"".join([each.astype("<i8").tobytes() for each in records])
    return {"carrier": carrier, "records": code, "workspace": workspace, "size": size}


def products(carrier: str, size: int) -> dict[str, Any]:
    """Return the step of the products of two operands, element by element."""
    row = (1,)
    whole = [record([size], (w.RESULT, 0, row), (FIRST, 0, row), (SECOND, 0, row))] if size else []
    return attributes(carrier, whole, 0, size)


def walks(carrier: str, states: int) -> dict[str, Any]:
    """Return the step of two moves from a vector, of a matrix and a vector: what lies between is in the result too."""
    n = states
    matrix, before = (FIRST, 0, (n, 1)), (0, 1)
    return attributes(carrier, [
        record([n, n], (w.RESULT, 0, (1, 0)), matrix, (SECOND, 0, before)),
        record([n, n], (w.WORKSPACE, 0, (1, 0)), matrix, (w.RESULT, 0, before)),
        record([n], (w.RESULT, n, (0,)), (w.WORKSPACE, 0, (1,)), (SECOND, 0, (1,))),
    ], n, n + 1)


def random_table(rng: np.random.Generator, carrier: str, operands: Sequence[int]) -> dict[str, Any]:
    """Return a step of random records over operands of these sizes: its workspace is written again and again."""
    slots, slot = 3, 1 << 8
    sources = {(w.STACKS + k, 0): size for k, size in enumerate(operands)}
    records, size = [], 0
    for k in range(int(rng.integers(1, 12))):
        extents = rng.integers(1, 5, size=4).tolist()
        out, *factors = (rng.random(4) < part for part in (0.5, 0.7, 0.6))
        extents = [n if out[i] or factors[0][i] or factors[1][i] else 1 for i, n in enumerate(extents)]
        into = (w.WORKSPACE, k % slots * slot) if rng.random() < 0.6 else (w.RESULT, size)
        tensors = [_tensor(rng, list(sources.items()), extents, axes, into) for axes in factors]
        made = (*into, _strides(extents, out.tolist(), list(range(4))))
        records.append(record(extents, made, tensors[0], tensors[1]))
        count = int(np.prod([n for n, kept in zip(extents, out) if kept]))
        sources[into] = count
        size += count if into[0] == w.RESULT else 0
    if not size:
        records.append(record([1], (w.RESULT, 0, (0,)), (FIRST, 0, (0,)), (w.ONE, 0, (0,))))
    return attributes(carrier, records, slots * slot, max(size, 1))


def _tensor(
    rng: np.random.Generator, sources: Sequence[Any], extents: Sequence[int], axes: np.ndarray, out: tuple[int, int]
) -> tuple[int, int, tuple[int, ...]]:
    """Return a tensor with some of the axes in any order, in a source that is large enough; one where there is none."""
    count = int(np.prod([n for n, own in zip(extents, axes) if own]))
    fitting = [source for source, size in sources if size >= count and source != out]
    if not fitting or rng.random() < 0.1:
        return (w.ONE, 0, (0,) * len(extents))
    memory, first = fitting[int(rng.integers(len(fitting)))]
    return memory, first, _strides(extents, axes.tolist(), rng.permutation(len(extents)).tolist())


def _strides(extents: Sequence[int], own: Sequence[bool], order: Sequence[int]) -> tuple[int, ...]:
    """Return strides of a block with some of the axes, in this order; 0 for the others."""
    strides, step = [0] * len(extents), 1
    for axis in reversed(order):
        if own[axis]:
            strides[axis], step = step, step * extents[axis]
    return tuple(strides)
