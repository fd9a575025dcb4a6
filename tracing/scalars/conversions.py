"""Python's numbers made of traced data: `float(x)`, `int(x)`, `x.item()` as run-time values, without a look.

Owns which of them are made so. What Python numbers are to operators is in `jitfuse.tracing.tensor.weak`. Where one of
them turns out to be needed as it is, Python looks at it then; where that is not possible, the function is traced again
with a look where the number is made (`Splitter.decide`).
"""
from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any, Final

from jitfuse.dtypes import SUPPORTED, is_integer, kind, numpy_dtype
from jitfuse.ir import statuses
from jitfuse.tracing.observe.try_blocks import is_caught
from jitfuse.tracing.record.known_values import UnknownValueError, known_value
from jitfuse.tracing.record.source import is_user_code
from jitfuse.tracing.record.value_reads import may_put_off
from jitfuse.tracing.scalars import arithmetic
from jitfuse.tracing.scalars.branch_values import as_python
from jitfuse.tracing.scalars.mixed_numbers import settled
from jitfuse.tracing.tensor.traced import TracedTensor, fresh


def as_float(*values: Any) -> Any:
    """Return what `float` returns."""
    return _made(float, "float64", values)


def as_int(*values: Any, **options: Any) -> Any:
    """Return what `int` returns."""
    fallible = len(values) == 1 and type(values[0]) is TracedTensor and kind(values[0]._meta.dtype) == "float"
    if options or (fallible and is_caught()):
        return int(*values, **options)
    return _made(int, "int64", values)


def item(value: TracedTensor) -> Any:
    """Return what `x.item()` returns of an array of one element; None where that takes a look."""
    found = kind(value._meta.dtype)
    target = {"bool": "bool", "float": "float64", "int": "int64", "uint": "int64"}.get(found)
    return None if target is None or not goes(value, "item()") else _python_number(value, target)


def type_of(*values: Any, **options: Any) -> Any:
    """Return what `type` returns: the type that a value has in Python."""
    values = tuple(map(settled, values))
    kind = type(values[0]) if len(values) == 1 and not options else None
    if kind is TracedTensor or hasattr(kind, "_original"):  # a generator
        return values[0].__class__
    return type(*values, **options)


def _as_numpys(scalar: type, dtype: str) -> Callable[..., Any]:
    """Return what is called in place of one of NumPy's types: traced values are cast, as NumPy's are."""
    def made(*values: Any, **options: Any) -> Any:
        value = values[0] if len(values) == 1 and not options else None
        if type(value) is not TracedTensor or not _is_cast(value, dtype):
            return scalar(*values, **options)
        return value.call("astype", dtype=dtype) if value.shape else (
            fresh(value._run, value._run.emit("astype", (value._id(),), {"dtype": dtype})))

    return made


def _is_cast(value: TracedTensor, dtype: str) -> bool:
    """Return whether a type of NumPy's makes of a value what a cast does, and says nothing about it."""
    before, after = kind(value._meta.dtype), kind(dtype)
    if value.weak:  # of Python's ints, those that do not fit raise
        return (before, after) in (("float", "float"), ("bool", "float"), ("int", "float")) or dtype in (
            value._meta.dtype, "bool")
    return before != "complex" or after in ("complex", "bool")


CALLED: Final[dict[Any, Callable[..., Any]]] = {
    float: as_float, int: as_int, type: type_of,
    **{scalar: _as_numpys(scalar, dtype) for dtype in SUPPORTED if dtype != "bfloat16"
       and (scalar := numpy_dtype(dtype).type)},
}
"""What user code calls in place of a type; as a value, the type stays what it is."""


def _made(python: type, dtype: str, values: tuple[Any, ...]) -> Any:
    if len(values) != 1 or type(values[0]) is not TracedTensor or not goes(values[0], python.__name__):
        return python(*values)
    return _python_number(values[0], dtype)


def goes(value: TracedTensor, what: str) -> bool:
    """Return whether a number is made of a value without a look; it is noted where."""
    run, dtype = value._run, value._meta.dtype
    if not run.alive or run.breaker is None or value.shape or not may_put_off(run) or dtype == "uint64":
        return False
    if kind(dtype) == "complex" or kind(dtype) not in ("bool", "int", "uint", "float"):
        return False
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and not is_user_code(frame.f_code.co_filename):
        frame = frame.f_back
    place = (what, "" if frame is None else frame.f_code.co_filename, 0 if frame is None else frame.f_lineno)
    if run.breaker.decides(place):
        return False
    try:
        known_value(run.session, value._id())
    except UnknownValueError:
        run.converted_sites.add(place)
        return True
    return False


def _python_number(value: TracedTensor, dtype: str) -> TracedTensor:
    """Return a number as Python's; where 64 bits do not hold an int of a float, plain Python answers the call."""
    run = value._run
    if value.weak and value._meta.dtype == dtype:
        return value
    if is_integer(dtype) and kind(value._meta.dtype) == "float":
        value = fresh(run, arithmetic.fitting(run, value._id(), dtype, statuses.WIDE_INT))
    made: TracedTensor = value.call("astype", dtype=dtype)
    return as_python(made)
