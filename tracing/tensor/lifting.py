"""Values as tensors of a trace: Python and NumPy scalars, arrays, nested lists of numbers and traced values."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitfuse.base.later import Later
from jitfuse.errors import ArgumentError, ShapeError
from jitfuse.tracing.record.device_array import unwrapped
from jitfuse.tracing.record.dtype_name import dtype_name
from jitfuse.tracing.record.foreign import Foreign, bare
from jitfuse.tracing.record.layout import MemoryLayout
from jitfuse.tracing.record.memory import Storage
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.traced import TracedTensor, fresh

mixed_numbers = Later("jitfuse.tracing.tensor.mixed_numbers")

_NUMBERS: Final = frozenset({bool, int, float, complex})


def operand(run: Recorder, value: Any) -> TracedTensor:
    """Return `lift` of an operator's operand; equal Python scalars give the same tensor."""
    if type(value) not in _NUMBERS:
        return lift(run, value)
    tensor = run.literal(value)
    found: TracedTensor | None = run.numbers.get(tensor)
    if found is None:
        meta = run.graph.metas[tensor]
        found = run.numbers[tensor] = TracedTensor(run, Storage(tensor, meta), meta, scalar=True)
    return found


def lift(run: Recorder, value: Any) -> TracedTensor:
    """Return a Python scalar as a weak constant, a NumPy scalar, array or nested list as a strong one."""
    if isinstance(value, TracedTensor):
        return value
    kind = type(value)
    if kind in _NUMBERS:
        return fresh(run, run.literal(value))
    if isinstance(value, np.generic):
        return fresh(run, run.scalar(value, dtype_name(value.dtype, "scalar")))
    value = bare(unwrapped(value))
    if type(value) is TracedTensor:
        return value
    if isinstance(value, np.ndarray):
        made = fresh(run, run.constant(value), scalar=False)
        if not value.flags.c_contiguous:
            made._lazy_layout = MemoryLayout(0, value.strides)
        return made
    if isinstance(value, list | tuple):
        return stack_nested(run, value)
    if isinstance(value, bool | int | float | complex):
        base: Any = next(k for k in (bool, int, float, complex) if isinstance(value, k))
        return fresh(run, run.literal(base(value)))
    raise ArgumentError(f"{kind.__name__} is no array or number, at {user_line()}")


def stack_nested(run: Recorder, value: Sequence[Any]) -> TracedTensor:
    """Return a nested list of numbers and traced values as one array, as np.array does."""
    if not _holds_traced(value):
        return fresh(run, run.constant(np.array(value)), scalar=False)
    known = map(mixed_numbers.settled, value) if run.mixed else value
    parts = [stack_nested(run, v) if isinstance(v, list | tuple) else lift(run, v) for v in known]
    strong = [p.call("astype", dtype=p._meta.dtype) if p.weak else p for p in parts]
    shapes = {p.shape for p in strong}
    if len(shapes) > 1:
        raise ShapeError(f"a nested list has parts of shapes {', '.join(map(str, sorted(shapes)))}, at {user_line()}")
    rows = [p.call("reshape", shape=(1, *p.shape)) for p in strong]
    made: TracedTensor = rows[0].call("concat", *rows[1:], axis=0)
    return made.laid_out(None)  # np.array ignores the items' orders


def _holds_traced(value: Any) -> bool:
    if type(value) is TracedTensor or isinstance(value, Foreign):
        return True
    return isinstance(value, list | tuple) and any(_holds_traced(v) for v in value)
