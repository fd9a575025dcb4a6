"""Extents that depend on data: Python reads how many elements there are, which is a graph break.

Owns the indices where a mask holds, and arrays whose values are known while tracing. Finding the elements is a step of
the program (`jitfuse.ir.operators.counted`). Does not own NumPy's functions with such results
(`jitfuse.tracing.numpy_like.data_dependent`).
"""
from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitfuse.errors import UnsupportedError
from jitfuse.ir.semantics import counted
from jitfuse.tracing.record import value_reads
from jitfuse.tracing.record.known_values import UnknownValueError, known_value
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor, fresh

Tensor = Any
KEEP: Final = (
    "Keep the shape: np.where(mask, x, 0), or reduce with np.sum(np.where(mask, x, 0)); x[mask] = value does work."
)


def extent(name: str, count: Tensor, way_out: str) -> int:
    """Read an extent that depends on data; raises UnsupportedError where the trace cannot break here.

    `name` is the function that makes the array, and `way_out` the advice in the error.
    """
    run: Any = count._run
    if not value_reads.may_break(run):
        line = run.fixed_source or user_line()
        raise UnsupportedError(f"{name} has a shape that depends on data, at {line}. {way_out}")
    return int(value_reads.read_value(run, count._id(), name, operator.index, extent=True))


def values_of(tensors: Sequence[Tensor]) -> list[np.ndarray[Any, Any]] | None:
    """Return the values of eager arrays, or of traced arrays known while tracing; None for others."""
    if not isinstance(tensors[0], TracedTensor):
        return [t.array for t in tensors]
    try:
        return [np.asarray(known_value(t._run.session, t._id())) for t in tensors]
    except UnknownValueError:
        return None


def made_of(first: Tensor, arrays: Sequence[np.ndarray[Any, Any]]) -> tuple[Tensor, ...]:
    """Return arrays as tensors of the same kind as the first."""
    if isinstance(first, TracedTensor):
        return tuple(lift(first._run, a) for a in arrays)
    return tuple(first.as_tensor(a) for a in arrays)


def nonzero_indices_of(name: str, x: Tensor, way_out: str = KEEP) -> Tensor:
    """Return the indices of elements that are not zero: one row for each axis."""
    values = values_of((x,))
    if values is not None:
        return made_of(x, [counted.nonzero(values[0], size=int(np.count_nonzero(values[0])))])[0]
    assert isinstance(x, TracedTensor)
    known, tensor = x._run.session.nonzero_indices, x._id()
    if tensor not in known:
        size = extent(name, x.call("count_nonzero"), way_out)
        known[tensor] = x.call("nonzero_counted", size=size)._id()
    return fresh(x._run, known[tensor], scalar=False)


def indices_by_axis(name: str, x: Tensor, way_out: str = KEEP) -> tuple[Tensor, ...]:
    """Return the indices of elements that are not zero, one array for each axis."""
    found = nonzero_indices_of(name, x, way_out)
    return tuple(found[k] for k in range(x.ndim))
