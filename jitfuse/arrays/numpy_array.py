"""NumPyArray: an eager array over an np.ndarray.

Operators run the op table's NumPy reference on the array. Those of one or two operands without attributes, which for
most rows is a ufunc, call it with nothing in between; whatever it raises, and every other case, goes through `call`,
which finds the typed error. That and the plain cases of reductions is all that is fast here.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.arrays.base import EagerArray
from jitfuse.backends.interpreter.numpy_tensor import NumPyTensor
from jitfuse.dtypes import SUPPORTED, WEAK_DTYPE, numpy_dtype
from jitfuse.errors import ArgumentError
from jitfuse.ir import ops
from jitfuse.tracing.abstract import BINARY, COMPARISONS, UNARY, AbstractTensor
from jitfuse.tracing.array_methods import ArrayMethods
from jitfuse.tracing.dtype_name import DTYPES, DTypeName

_NAMES: Final[dict[Any, DTypeName]] = {numpy_dtype(n): DTYPES[n] for n in SUPPORTED if n != "bfloat16"}
_new = object.__new__


class NumPyArray(EagerArray, NumPyTensor):  # type: ignore[misc]  # EagerTensor takes no ufuncs
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


def _wrapped(value: Any) -> NumPyArray:
    made: NumPyArray = _new(NumPyArray)
    made.value = value
    return made


_SCALARS: Final = frozenset({int, float, bool, complex})
_ERRORS: Final = (TypeError, ValueError, OverflowError, IndexError)


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


def _reduction(name: str, function: Callable[..., Any], general: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: NumPyArray, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
               **options: Any) -> Any:
        if dtype is not None or out is not None or options or not self.value.ndim:
            named = {"dtype": dtype, "out": out, **options}
            return general(self, axis, keepdims=keepdims, **{k: v for k, v in named.items() if v is not None})
        try:
            return _wrapped(function(self.value, axis=axis, keepdims=keepdims))
        except _ERRORS:
            return general(self, axis, keepdims=keepdims)

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
    for name in ("sum", "prod", "min", "max", "any", "all", "mean"):
        op = ops.get(name)
        assert op is not None
        setattr(NumPyArray, name, _reduction(name, op.numpy, getattr(EagerArray, name)))


_take_from_table()
