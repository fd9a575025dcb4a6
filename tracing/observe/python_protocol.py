"""Python's protocols on traced values: conversion to numbers, truth and text, iteration, and isinstance.

Owns which operation reads the value. Does not own values known while tracing (`jitfuse.tracing.record.known_values`),
nor the graph breaks of other reads (`jitfuse.tracing.record.value_reads`).
"""
from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse import dtypes
from jitfuse.base.later import Later
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.record.known_values import UnknownValueError, known_truth, known_value, value_read_error
from jitfuse.tracing.record.source import is_user_code

if TYPE_CHECKING:
    from jitfuse.ir.program import Meta
    from jitfuse.tracing.record.memory import Storage
    from jitfuse.tracing.record.recorder import Recorder

conversions = Later("jitfuse.tracing.scalars.conversions")
mixed_numbers = Later("jitfuse.tracing.tensor.mixed_numbers")
value_reads = Later("jitfuse.tracing.record.value_reads")
printing = Later("jitfuse.tracing.observe.printing")
arithmetic = Later("jitfuse.tracing.numbers.arithmetic")

_TAKES_NUMBERS: Final = (bool, int, float, complex, operator.index)
_SAME: Final = ("bool()", "float()", "complex()", "np.asarray()", "tolist()")
"""Reads with the same result for a Python number and a NumPy scalar."""
PYTHON_TYPE: Final = {"bool": bool, "int64": int, "uint64": int, "float64": float, "complex128": complex}


class PythonReads(AbstractTensor):
    """Python's reads of a traced value, which a subclass holds."""

    __slots__ = ()

    _run: Recorder
    _storage: Storage
    _meta: Meta
    _scalar: bool

    def _id(self) -> int:
        """Return the id of the tensor that this holds now; raises LeakedTracerError after the trace."""
        raise NotImplementedError

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError

    def _read_value(self, what: str, convert: Callable[[Any], Any] = lambda value: value) -> Any:
        """Return `convert` of the value; a value that is not known is a graph break, or raises TracedValueError."""
        if self._run.mixed and what not in _SAME:
            known = mixed_numbers.settled(self)
            if known is not self:
                return known._read_value(what, convert)
        tensor = self._id()
        try:
            value = known_truth(self._run, tensor) if convert is bool else known_value(self._run.session, tensor)
        except UnknownValueError:
            if self._meta.size != 1:
                convert(np.empty(self.shape, dtypes.numpy_dtype(self._meta.dtype)))  # raises where NumPy does
            elif self._meta.weak and convert not in _TAKES_NUMBERS:
                python = PYTHON_TYPE[self._meta.dtype]  # the user's code must get a Python number
                return value_reads.read_value(self._run, tensor, what, lambda value: convert(python(value)))
            elif convert is bool and self._meta.dtype != "bool" and value_reads.may_break(self._run):
                tensor = self.call("astype", dtype="bool")._id()  # native code reads it, and it has two answers
            return value_reads.read_value(self._run, tensor, what, convert)
        return convert(value)

    def __bool__(self) -> bool:
        return bool(self._read_value("bool()", bool))

    def __int__(self) -> int:
        return int(self._read_value("int()", int))

    def __float__(self) -> float:
        return float(self._read_value("float()", float))

    def __complex__(self) -> complex:
        return complex(self._read_value("complex()", complex))

    def __index__(self) -> int:
        if self._run.mixed:
            known = mixed_numbers.settled(self)
            if known is not self:
                return int(known.__index__())
        if not self._meta.weak and not dtypes.is_integer(self._meta.dtype):
            operator.index(np.empty(self.shape, dtypes.numpy_dtype(self._meta.dtype))[()])  # raises
        return int(self._read_value("int()", operator.index))

    def __hash__(self) -> int:
        if not self._meta.weak and not self._scalar:
            raise TypeError("unhashable type: 'numpy.ndarray'")
        return hash(self._read_value("hash()"))

    def __round__(self, digits: int | None = None) -> Any:
        if not self._meta.weak and not self._scalar:
            raise TypeError("type numpy.ndarray doesn't define __round__ method")
        return round(self._read_value("round()"), digits)

    def __floor__(self) -> int:
        return math.floor(self._number())

    def __ceil__(self) -> int:
        return math.ceil(self._number())

    def __trunc__(self) -> int:
        if not self._meta.weak and self._meta.dtype != "float64":  # a NumPy float64 is a Python float
            raise TypeError(f"type numpy.{self._meta.dtype} doesn't define __trunc__ method")
        return math.trunc(self._number())

    def __divmod__(self, other: Any) -> Any:
        return _divmod(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return _divmod(other, self)

    def _number(self) -> int | float:
        """Return the value that `math` rounds: a Python int as it is, because a float may not hold it."""
        return int(self) if self._meta.weak and dtypes.is_integer(self._meta.dtype) else float(self)

    def __format__(self, spec: str) -> str:
        if not self._is_shown():
            return format(self._description(), spec)
        if self._run.mixed:
            known = mixed_numbers.settled(self)
            if known is not self:
                return format(known, spec)
        if not self._meta.weak or arithmetic.is_of_data(self._run.session, self._id()):
            text = printing.placeholder(self._run, self, spec, sys._getframe(1))
            if text is not None:
                return text
        return format(self._read_value("format()"), spec)

    def __str__(self) -> str:
        return str(self._read_value("str()") if self._is_shown() else self._description())

    def _is_shown(self) -> bool:
        """Return whether texts show the value: if it is a Python number, or a graph break is possible."""
        return self._meta.weak or (self._run.alive and value_reads.may_break(self._run))

    def __repr__(self) -> str:
        """Return NumPy's `repr` for the user's code, and a description of the tensor for jitfuse's."""
        asked = is_user_code(sys._getframe(1).f_code.co_filename) and self._is_shown()
        if not asked:
            return self._description()
        if self._run.mixed:
            known = mixed_numbers.settled(self)
            if known is not self:
                return repr(known._read_value("repr()"))
        value = self._read_value("repr()")
        return repr(value if self._scalar or self._meta.weak else np.asarray(value))

    def _description(self) -> str:
        return f"<traced {self._meta}: {self._run.graph.describe(self._storage.value)}>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self._read_value("np.asarray()"), dtype)

    def item(self, *index: Any) -> Any:
        """Return the value as a Python scalar: a run-time number if possible, else a read."""
        if index or self._meta.size != 1:
            zeros = np.zeros(self.shape, bool)  # raises where NumPy does
            zeros.item(*index)
            at = index[0] if len(index) == 1 else index
            chosen = self[at] if isinstance(at, tuple) else self.call("reshape", shape=(-1,))[at]
            return chosen.item()
        made = conversions.item(self)  # type: ignore[arg-type]
        return self._read_value("item()", _item) if made is None else made

    def tolist(self) -> Any:
        """Return the values as nested lists; this reads them."""
        return np.asarray(self._read_value("tolist()")).tolist()

    def known(self) -> Any:
        """Return the value if it depends on constants, Python scalars and small tables; else raise TracedValueError."""
        try:
            return known_value(self._run.session, self._id())
        except UnknownValueError:
            raise value_read_error(self._run.graph.describe(self._id()), "the use of its value") from None

    def __len__(self) -> int:
        if not self.shape:
            raise value_read_error(self._run.graph.describe(self._id()), "len()")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise value_read_error(self._run.graph.describe(self._id()), "iter()")
        return map(self.__getitem__, range(self.shape[0]))  # lazily: later iterations see earlier writes

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Answer isinstance as in plain Python: float for a Python float, np.ndarray for an array."""
        if self.weak:
            return PYTHON_TYPE[self._meta.dtype]
        if self._run.mixed and is_user_code(sys._getframe(1).f_code.co_filename):
            known = mixed_numbers.settled(self)
            if known is not self:
                return known.__class__  # type: ignore[no-any-return]
        return dtypes.numpy_dtype(self._meta.dtype).type if self._scalar else np.ndarray


def _divmod(a: Any, b: Any) -> Any:
    try:
        return a // b, a % b
    except ZeroDivisionError as error:
        if str(error).startswith("float"):
            divmod(1.0, 0.0)  # raises with divmod's own message
        raise


def _item(value: Any) -> Any:
    return np.asarray(value).item()
