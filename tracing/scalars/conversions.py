"""Run-time numbers made of traced data: `float(x)`, `int(x)` and `x.item()` without a read of the value.

Owns which conversions become run-time numbers. Such a number is read only where Python needs its value; if it cannot
be read there, the function is traced again with a read at the conversion (`GraphBreaker.decide`). Does not own Python
numbers as operands (`jitfuse.tracing.numbers.weak`).
"""
from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any, Final

from jitfuse.dtypes import SUPPORTED, is_integer, kind, numpy_dtype
from jitfuse.ir import statuses
from jitfuse.tracing.numbers import arithmetic
from jitfuse.tracing.record.foreign import Foreign
from jitfuse.tracing.record.known_values import UnknownValueError, known_value
from jitfuse.tracing.record.source import is_user_code
from jitfuse.tracing.record.try_blocks import is_caught
from jitfuse.tracing.record.value_reads import may_put_off
from jitfuse.tracing.scalars.branch_values import as_python
from jitfuse.tracing.tensor.mixed_numbers import settled
from jitfuse.tracing.tensor.traced import TracedTensor, fresh


def as_float(*values: Any) -> Any:
    """Replace `float`."""
    return _made(float, "float64", values)


def as_int(*values: Any, **options: Any) -> Any:
    """Replace `int`."""
    fallible = len(values) == 1 and type(values[0]) is TracedTensor and kind(values[0]._meta.dtype) == "float"
    if options or (fallible and is_caught()):
        return int(*values, **options)
    return _made(int, "int64", values)


def item(value: TracedTensor) -> Any:
    """Return `x.item()` of an array of one element as a run-time number; None where it must be read."""
    found = kind(value._meta.dtype)
    target = {"bool": "bool", "float": "float64", "int": "int64", "uint": "int64"}.get(found)
    return None if target is None or not goes(value, "item()") else _python_number(value, target)


def type_of(*values: Any, **options: Any) -> Any:
    """Replace `type`: return the type that a value has in plain Python."""
    values = tuple(map(settled, values))
    kind = type(values[0]) if len(values) == 1 and not options else None
    if kind is TracedTensor or hasattr(kind, "_original") or isinstance(values[0], Foreign):  # or a generator
        return values[0].__class__
    return type(*values, **options)


def _as_numpys(scalar: type, dtype: str) -> Callable[..., Any]:
    """Return the replacement of a NumPy scalar type: it casts traced values as NumPy casts its own."""
    def made(*values: Any, **options: Any) -> Any:
        value = values[0] if len(values) == 1 and not options else None
        if type(value) is not TracedTensor or not _is_cast(value, dtype):
            return scalar(*values, **options)
        return value.call("astype", dtype=dtype) if value.shape else (
            fresh(value._run, value._run.emit("astype", (value._id(),), {"dtype": dtype})))

    return made


def _is_cast(value: TracedTensor, dtype: str) -> bool:
    """Return whether a call of a NumPy scalar type is a cast of the value, without warnings or errors."""
    before, after = kind(value._meta.dtype), kind(dtype)
    if value.weak:  # Python ints that do not fit raise
        return (before, after) in (("float", "float"), ("bool", "float"), ("int", "float")) or dtype in (
            value._meta.dtype, "bool")
    return before != "complex" or after in ("complex", "bool")


CALLED: Final[dict[Any, Callable[..., Any]]] = {
    float: as_float, int: as_int, type: type_of,
    **{scalar: _as_numpys(scalar, dtype) for dtype in SUPPORTED if dtype != "bfloat16"
       and (scalar := numpy_dtype(dtype).type)},
}
"""The functions that user code calls in place of a type; as a value, the type is not replaced."""


def _made(python: type, dtype: str, values: tuple[Any, ...]) -> Any:
    if len(values) != 1 or type(values[0]) is not TracedTensor or not goes(values[0], python.__name__):
        return python(*values)
    return _python_number(values[0], dtype)


def goes(value: TracedTensor, what: str) -> bool:
    """Return whether a conversion gives a run-time number, without a read; its site is recorded."""
    run, dtype = value._run, value._meta.dtype
    if not run.alive or run.breaker is None or value.shape or not may_put_off(run) or dtype == "uint64":
        return False
    if kind(dtype) == "complex" or kind(dtype) not in ("bool", "int", "uint", "float"):
        return False
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and not is_user_code(frame.f_code.co_filename):
        frame = frame.f_back
    site = (what, "" if frame is None else frame.f_code.co_filename, 0 if frame is None else frame.f_lineno)
    if run.breaker.decides(site):
        return False
    try:
        known_value(run.session, value._id())
    except UnknownValueError:
        run.converted_sites.add(site)
        return True
    return False


def _python_number(value: TracedTensor, dtype: str) -> TracedTensor:
    """Return a number as a Python number; a call where a float's int does not fit 64 bits falls back to plain Python.
    """
    run = value._run
    if value.weak and value._meta.dtype == dtype:
        return value
    if is_integer(dtype) and kind(value._meta.dtype) == "float":
        value = fresh(run, arithmetic.fitting(run, value._id(), dtype, statuses.WIDE_INT))
    made: TracedTensor = value.call("astype", dtype=dtype)
    return as_python(made)
