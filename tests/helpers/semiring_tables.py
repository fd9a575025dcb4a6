"""Tables of records for `semiring_sums`, written record by record."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitfuse.ir.semirings import words as w
from jitfuse.ir.semirings.loops import Operand, sum_of_products

FIRST, SECOND = w.STACKS, w.STACKS + 1


def record(extents: Sequence[int], out: tuple[Any, ...], a: tuple[Any, ...], b: tuple[Any, ...]) -> np.ndarray:
    """Return a record over axes of these extents; each tensor is (memory, first, strides)."""
    made = sum_of_products(Operand(*out), Operand(*a), Operand(*b), extents, 1 << 12)
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
