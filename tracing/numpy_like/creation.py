"""NumPy's functions that make arrays, as user code sees them in a trace: they accept traced values.

NumPy does not dispatch np.zeros, np.array and their like to traced arrays. Owns these functions. Does not own where
user code sees them (`jitfuse.tracing.numpy_like.substitutes`).
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.base.later import Later
from jitfuse.dtypes import is_integer
from jitfuse.errors import ArgumentError, UnsupportedError, UntraceableError
from jitfuse.ir.rules import shape_rules
from jitfuse.ir.rules.shape_rules import reject_bools, whole
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numbers import weak
from jitfuse.tracing.record.dtype_name import dtype_name
from jitfuse.tracing.record.recorder import Recorder, active
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.array_class import array_class
from jitfuse.tracing.tensor.function_table import traced_among
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.mixed_numbers import settled
from jitfuse.tracing.tensor.traced import TracedTensor, fresh

shapes = Later("jitfuse.tracing.numpy_like.shapes")

REPLACEMENTS: Final[list[tuple[Any, Callable[..., Any]]]] = []
"""Pairs of a NumPy function and the function here that replaces it in user code."""


def _in_place_of(*originals: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        REPLACEMENTS.extend((original, function) for original in originals)
        return function

    return register


def run_of_call() -> Recorder:
    """Return the current trace; raises UntraceableError where a function has outlived its own trace."""
    run = active()
    if run is None:
        raise UntraceableError(f"a function that only exists inside a trace is called at {user_line()}, after it")
    return run


def _shape(shape: Any) -> tuple[int, ...]:
    reject_bools(shape)
    if isinstance(shape, list | tuple):
        return tuple(map(whole, shape))
    if isinstance(shape, np.ndarray):  # traced arrays of known values too
        return tuple(int(n) for n in np.asarray(shape))
    return (whole(shape),)


def _order(name: str, order: Any, like: Any = None) -> None:
    if order not in ("C", "F", "K", "A", None) or like is not None:
        raise UnsupportedError(f"np.{name}(order={order!r}, like={like!r}) is not available inside a fused function, "
                               f"at {user_line()}")


@_in_place_of(np.zeros, np.empty)
def zeros(shape: Any, dtype: Any = float, order: str = "C", *, device: Any = None, like: Any = None) -> Any:
    """Return zeros; np.empty's content is zero too."""
    _order("zeros", order, like)
    run = run_of_call()
    attrs = {"shape": _shape(shape), "dtype": dtype_name(float if dtype is None else dtype, "np.zeros")}
    return fresh(run, run.emit("zeros", (), attrs), scalar=False).ordered("zeros", order)


_in_place_of(np.ndarray)(array_class(zeros))


@_in_place_of(np.ones)
def ones(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Any:
    """Return ones."""
    return full(shape, 1, float if dtype is None else dtype, order, device=device, like=like)


@_in_place_of(np.full)
def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None,
         like: Any = None) -> Any:
    """Return an array filled with one value, which may be traced."""
    _order("full", order, like)
    run = run_of_call()
    value = lift(run, settled(fill_value))
    name = value._meta.dtype if dtype is None else dtype_name(dtype, "np.full")
    weak.check_filling(value, name)
    return fresh(run, run.fit(value._id(), _shape(shape), name), scalar=False).ordered("full", order)


@_in_place_of(np.arange)
def arange(*args: Any, start: Any = None, stop: Any = None, step: Any = None, dtype: Any = None, device: Any = None,
           like: Any = None) -> Any:
    """Return start, start + step, ... below stop; the bounds are Python numbers, whose values become guards."""
    _order("arange", "C", like)
    given = [None if v is None else _number(v, "np.arange") for v in (*args[:3],)]
    if len(args) > 3:
        dtype = args[3]
    if len(given) == 1 and stop is None:
        given = [0, given[0]]
    given += [None] * (3 - len(given))
    first, last, by = (g if g is not None else (None if k is None else _number(k, "np.arange"))
                       for g, k in zip(given, (start, stop, step), strict=True))
    if last is None:
        first, last = 0, first
    first, by = (0 if first is None else first), (1 if by is None else by)
    if last is None:
        raise ArgumentError(f"np.arange needs a stop, at {user_line()}")
    ints = all(isinstance(v, int) for v in (first, last, by))
    name = dtype_name(("int64" if ints else "float64") if dtype is None else dtype, "np.arange")
    if by == 0:
        raise ZeroDivisionError("division by zero")
    count = max(0, -((first - last) // by) if ints else math.ceil((last - first) / by))
    run = run_of_call()
    attrs = {"start": first, "step": by, "count": int(count), "dtype": name}
    return fresh(run, run.emit("arange", (), attrs), scalar=False)


def _number(value: Any, name: str) -> int | float:
    if isinstance(value, AbstractTensor):
        value = value._read_value(name)  # type: ignore[attr-defined]
    if isinstance(value, np.ndarray | np.generic):
        value = value.item()
    if not isinstance(value, int | float):
        raise ArgumentError(f"{name} takes numbers, not {type(value).__name__}, at {user_line()}")
    return value


@_in_place_of(np.linspace)
def linspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None,
             axis: int = 0, *, device: Any = None) -> Any:
    """Return num evenly spaced numbers from start to stop, which may be traced; arrays give one row per element."""
    run, count = run_of_call(), int(num.__index__())
    if count < 0:
        raise ArgumentError(f"Number of samples, {count}, must be non-negative, at {user_line()}")
    begin: Any = lift(run, start)
    end: Any = lift(run, stop)
    common = str((begin + end + 0.0).dtype) if not (begin.weak and end.weak) else "float64"
    begin, end = (t.call("astype", dtype=common) for t in (begin, end))
    name = dtype_name(common if dtype is None else dtype, "np.linspace")
    divisor = count - 1 if endpoint else count
    shape = shape_rules.broadcast("linspace", [begin.shape, end.shape])
    span = (end - begin) / float(divisor) if divisor > 0 else end - begin
    positions = arange(count, dtype="int64").astype(common).reshape((count, *(1,) * len(shape)))
    result = positions * span + begin
    if endpoint and count > 1:
        result[-1] = end
    if is_integer(name):
        result = result.call("floor")
    result = result.astype(name, copy=False)
    if axis:
        result = shapes.moveaxis(result, 0, axis)
    return (result, span if divisor > 0 else fresh(run, run.scalar(math.nan, "float64"))) if retstep else result


@_in_place_of(np.eye)
def eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = float, order: str = "C", *, device: Any = None,
        like: Any = None) -> Any:
    """Return ones on the k-th diagonal."""
    _order("eye", order, like)
    reject_bools((N, M))
    rows, columns = whole(N), whole(N if M is None else M)
    on = (arange(rows) + whole(k)).reshape((rows, 1)) == arange(columns)
    return on.astype(dtype_name(float if dtype is None else dtype, "np.eye"), copy=False).ordered("eye", order)


@_in_place_of(np.identity)
def identity(n: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """Return the identity matrix."""
    return eye(n, dtype=float if dtype is None else dtype, like=like)


def _check_items(run: Recorder, values: Any, dtype: str) -> None:
    """Raise for Python numbers in a sequence that a dtype does not hold."""
    for value in values:
        if isinstance(value, list | tuple):
            _check_items(run, value, dtype)
        elif isinstance(value, TracedTensor) and value.weak:
            weak.check_assigned(run, value._id(), dtype)


@_in_place_of(np.array)
def array(object: Any, dtype: Any = None, *, copy: Any = True, order: str = "K", subok: bool = False, ndmin: int = 0,
          like: Any = None, ndmax: int = 0) -> Any:
    """Return an array of nested lists, numbers and traced values."""
    _order("array", order, like)
    run = run_of_call()
    if isinstance(object, list | tuple) and traced_among(*object) is None and dtype is not None:
        value = lift(run, np.array(object, dtype_name(dtype, "np.array")))
    elif isinstance(object, list | tuple | np.ndarray | np.generic | bool | int | float | complex | AbstractTensor):
        value = lift(run, settled(object))
    else:
        value = lift(run, np.array(object))
    name = value._meta.dtype if dtype is None else dtype_name(dtype, "np.array")
    if isinstance(object, list | tuple) and dtype is not None:
        _check_items(run, object, name)
    if value.weak and name != value.dtype:
        value = fresh(run, weak.check_assigned(run, value._id(), name))
    result = value.astype(name, order or "K", copy=bool(copy)) if value.weak or name != value.dtype or copy else value
    if result is value and ((order == "C" and not value.is_contiguous) or (order == "F" and not value.T.is_contiguous)):
        result = value.copy(order)
    result = result.as_copy() if result.ndim == 0 else result
    return result.reshape((1,) * (ndmin - result.ndim) + result.shape) if result.ndim < ndmin else result


@_in_place_of(np.asarray, np.asanyarray)
def asarray(a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None,
            like: Any = None) -> Any:
    """Return traced arrays as they are, and everything else as an array."""
    is_array = isinstance(a, AbstractTensor) and not a.weak and not a._scalar  # type: ignore[attr-defined]
    if is_array and not copy:
        a = a.astype(dtype_name(dtype), order or "K", copy=False) if dtype is not None else a
        moved = (order == "C" and not a.is_contiguous) or (order == "F" and not a.T.is_contiguous)
        return a.copy(order) if moved else a
    return array(a, dtype, copy=bool(copy), order=order or "K", like=like)


@_in_place_of(np.ascontiguousarray)
def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """Return an array of rank 1 or more in C order."""
    return array(a, dtype, copy=False, order="C", ndmin=1, like=like)


@_in_place_of(np.asfortranarray)
def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """Return an array of rank 1 or more in Fortran order."""
    return array(a, dtype, copy=False, order="F", ndmin=1, like=like)


def _like(name: str) -> Callable[..., Any]:
    def like(a: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(shapes, name)(a if isinstance(a, AbstractTensor) else array(a), *args, **kwargs)

    return like


_in_place_of(np.zeros_like, np.empty_like)(_like("zeros_like"))
_in_place_of(np.ones_like)(_like("ones_like"))
_in_place_of(np.full_like)(_like("full_like"))
