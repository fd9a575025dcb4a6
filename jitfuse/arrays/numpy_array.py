"""NumPyArray: an eager array over an np.ndarray.

Operators run the op table's NumPy reference on the array; those of one or two operands without attributes, which for
most rows is a ufunc, with nothing in between. NumPy's functions, and the methods that an ndarray has, are NumPy's own.
Whatever an operator raises goes through `call`, which finds the typed error.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.arrays.base import EagerArray
from jitfuse.arrays.making import unwrap
from jitfuse.backends.interpreter.numpy_tensor import NumPyTensor
from jitfuse.dtypes import SUPPORTED, WEAK_DTYPE, numpy_dtype
from jitfuse.errors import ArgumentError
from jitfuse.ir import ops
from jitfuse.tracing.abstract import BINARY, COMPARISONS, UNARY, AbstractTensor
from jitfuse.tracing.array_methods import ArrayMethods
from jitfuse.tracing.dtype_name import DTYPES, DTypeName, dtype_name

_NAMES: Final[dict[Any, DTypeName]] = {numpy_dtype(n): DTYPES[n] for n in SUPPORTED if n != "bfloat16"}
_new = object.__new__


class NumPyArray(EagerArray, NumPyTensor):
    """An array over an np.ndarray; rank-0 results hold NumPy's scalars until they are written into."""

    __slots__ = ()

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The ndarray."""
        if type(self.value) is not np.ndarray:
            self.value = np.asarray(self.value)
        return self.value

    @property
    def dtype(self) -> DTypeName:
        """The dtype's name, which user code may treat as np.dtype."""
        found = None if type(self.value) in WEAK_DTYPE else _NAMES.get(self.value.dtype)
        return found or DTYPES[NumPyTensor.dtype.fget(self)]  # type: ignore[attr-defined]

    def _lift(self, value: Any) -> Any:
        if isinstance(value, AbstractTensor) and not isinstance(value, NumPyTensor):
            raise ArgumentError(
                f"an array of NumPy's meets a {type(value).__name__}; make both of one kind with jf.asarray"
            )
        return super()._lift(value)

    _operand = _lift

    def astype(self, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: bool = True,
               copy: bool = True) -> Any:
        """Return the elements cast to a dtype; the array itself where `copy` is false and nothing changes."""
        name = dtype_name(dtype, "astype")
        if not copy and name == self.dtype:
            return self
        return _wrapped(self.array.astype(numpy_dtype(name), order, casting, subok, copy))

    def floor_divided(self, other: Any) -> Any:
        """Return the quotient rounded down, or NotImplemented for operands at which that may not be NumPy's.

        It is not where a float is infinite (`jitfuse.standard.functions.floor_divide`): the sum of the squares of an
        operand tells, which costs less than a look at each element. It is infinite or NaN for NaN and large numbers,
        too.
        """
        value = other.value if type(other) is NumPyArray else other
        if not all(type(v) in _SCALARS or getattr(v, "dtype", None) in _SUMMED for v in (self.value, value)):
            return NotImplemented
        if type(self.value) in _SCALARS or not (_is_bounded(self.value) and _is_bounded(value)):
            return NotImplemented
        try:
            return _wrapped(np.floor_divide(self.value, value))
        except _ERRORS:
            return NotImplemented

    def __floordiv__(self, other: Any) -> Any:
        found = self.floor_divided(other)
        return super().__floordiv__(other) if found is NotImplemented else found

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """Return the elements under another shape: a view where the memory allows it."""
        if not options or (len(options) == 1 and options.get("copy", True) is None):
            return _wrapped(self.array.reshape(*shape))
        return super().reshape(*shape, **options)

    def __array_ufunc__(  # type: ignore[override]  # EagerTensor takes no ufuncs
        self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any
    ) -> Any:
        carried_out = ufunc if method == "__call__" else getattr(ufunc, method)
        return _delivered(carried_out(*unwrap(inputs), **unwrap(kwargs)), kwargs.get("out"))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _delivered(func(*unwrap(args), **unwrap(kwargs)), kwargs.get("out"))


def _wrapped(value: Any) -> NumPyArray:
    made: NumPyArray = _new(NumPyArray)
    made.value = value
    return made


def _delivered(result: Any, out: Any = None) -> Any:
    """Return what NumPy has made as eager arrays; `out` itself where it was written into."""
    if out is not None and not isinstance(result, tuple):
        given = out[0] if isinstance(out, tuple) else out
        if isinstance(given, NumPyArray):
            return given
    if isinstance(result, np.ndarray | np.generic):
        return NumPyArray(result)
    if isinstance(result, tuple | list):
        parts = [_delivered(part) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return result


_SCALARS: Final = frozenset({int, float, bool, complex})
_ERRORS: Final = (TypeError, ValueError, OverflowError, IndexError)
_SUMMED: Final = frozenset({np.dtype("float64"), np.dtype("float32"), np.dtype("int64"), np.dtype("int32")})
"""Dtypes whose products BLAS or plain integers add up: without warnings."""


def _is_bounded(value: Any) -> bool:
    """Return whether an operand has no infinite element, for sure."""
    if type(value) in _SCALARS:
        return type(value) is not complex and math.isfinite(value)
    return value.dtype.kind == "i" or math.isfinite(np.vdot(value, value))


def placed(array: Any) -> NumPyArray:
    """Return an array that NumPy has just made as an eager one; raises DTypeError where programs lack its dtype."""
    return _wrapped(array) if array.dtype in _NAMES else NumPyArray(array)


def _unary(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: NumPyArray) -> Any:
        if type(self.value) in _SCALARS:
            return self.call(name)
        try:
            return _wrapped(function(self.value))
        except _ERRORS:
            return self.call(name)

    return method


def _binary(name: str, function: Callable[..., Any], reflected: bool, named: bool) -> Callable[..., Any]:
    """Return the method or, where `named` is false, Python's operator, which leaves strange operands to the other."""
    def method(self: NumPyArray, other: Any) -> Any:
        kind = type(other)
        value = other.value if kind is NumPyArray else other
        if (kind is NumPyArray or kind in _SCALARS or kind is np.ndarray) and type(self.value) not in _SCALARS:
            try:
                return _wrapped(function(value, self.value) if reflected else function(self.value, value))
            except _ERRORS:
                pass  # the long way says what is wrong
        if not named and isinstance(other, AbstractTensor) and not isinstance(other, NumPyTensor):
            return NotImplemented
        try:
            right = self._lift(other)
        except ArgumentError:
            if named:
                raise
            return NotImplemented
        return right.call(name, self) if reflected else self.call(name, right)

    return method


def _own(name: str) -> Callable[..., Any]:
    def method(self: NumPyArray, *args: Any, **kwargs: Any) -> Any:
        return _delivered(getattr(self.array, name)(*unwrap(args), **unwrap(kwargs)), kwargs.get("out"))

    method.__name__ = name
    method.__doc__ = f"Return what np.ndarray.{name} returns."
    return method


def _take_from_table() -> None:
    rows = {op.name: op for op in ops.table() if op.kind == ops.ELEMENTWISE and not op.attrs}
    python = {f"__{d}__": n for d, n in {**BINARY, **COMPARISONS, **UNARY}.items()}
    reflected = {f"__r{d}__": n for d, n in BINARY.items()}
    for method, name in (*python.items(), *reflected.items(), *((n, n) for n in rows)):
        op = rows.get(name)
        if op is None or any(method in vars(c) for c in (EagerArray, ArrayMethods)):
            continue
        if op.arity == 1:
            setattr(NumPyArray, method, _unary(name, op.numpy))
        elif op.arity == 2:
            setattr(NumPyArray, method, _binary(name, op.numpy, method in reflected, method == name))


def _take_from_ndarray() -> None:
    """Give every method of an ndarray's that traced arrays have as NumPy's own."""
    for name, method in vars(ArrayMethods).items():
        taken = name[:1] == "_" or name == "to_device" or name in vars(NumPyArray) or name in vars(EagerArray)
        if not taken and callable(method) and callable(getattr(np.ndarray, name, None)):
            setattr(NumPyArray, name, _own(name))


_take_from_table()
_take_from_ndarray()
