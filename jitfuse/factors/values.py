"""Which numbers tables may hold. Does not own the tables (`tables.py`)."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitfuse.errors import ModelError
from jitfuse.tracing.abstract import AbstractTensor

Table = Any


def check_values(name: str, table: Table, log: bool) -> None:
    """Raise ModelError for a table with NaN, or with a negative or infinite probability; `name` says whose it is."""
    if isinstance(table, AbstractTensor):
        return
    if table.dtype.kind == "f" and table.size and table.max() < np.inf and (log or table.min() >= 0):
        return  # of NaN neither is true
    if table.dtype == object and not all(isinstance(value, int) and value >= 0 for value in table.ravel().tolist()):
        raise ModelError(f"{name} holds Python objects: these may be integers from 0 on, for counting")
    if table.dtype.kind == "f" and np.isnan(table).any():
        raise ModelError(f"{name} has NaN at {_first(np.isnan(table))}")
    if log:
        if table.dtype.kind == "f" and (table == np.inf).any():
            raise ModelError(f"{name} has log value inf at {_first(table == np.inf)}")
        return
    if (table < 0).any():
        raise ModelError(
            f"{name} has a negative value at {_first(table < 0)}. A graph of log values has `log=True`")
    if table.dtype.kind == "f" and np.isinf(table).any():
        raise ModelError(f"{name} has inf at {_first(np.isinf(table))}")


def _first(where: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(where)), where.shape))


def log2_of_integers(table: Table) -> float:
    """Return log2 of a table's largest integer; -inf of zeros alone.

    Raises:
        ModelError: a value is no integer.
    """
    values = [int(v) for v in table.ravel().tolist()] if table.dtype == object else None
    if values is None:
        if table.dtype.kind == "f" and (table != np.floor(table)).any():
            raise ModelError(f"counting needs integers, not {float(table[table != np.floor(table)][0])}")
        values = [int(table.max(initial=0))]
    return math.log2(max(values)) if values and max(values) > 0 else -math.inf
