"""NumPyArray: an eager array over an np.ndarray.

Operators, and functions of the namespace, are rows of `jitfuse.arrays.numpy_table` on the ndarray. NumPy's functions,
and the methods that an ndarray has, are NumPy's own. If an operator raises, `call` runs it again and raises the typed
error.
"""
from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitfuse.arrays.base import (
    PASSED,
    DirectFunction,
    EagerArray,
    Function,
    UndecidedError,
    direct,
    take_operators,
    unwrap,
)
from jitfuse.arrays.numpy_table import over_arrays
from jitfuse.backends.interpreter.numpy_tensor import NumPyTensor
from jitfuse.dtypes import SUPPORTED, WEAK_DTYPE, numpy_dtype
from jitfuse.errors import ArgumentError
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numpy_like.array_methods import ArrayMethods
from jitfuse.tracing.record.dtype_name import DTYPES, DTypeName, dtype_name

_NAMES: Final[dict[Any, DTypeName]] = {numpy_dtype(n): DTYPES[n] for n in SUPPORTED if n != "bfloat16"}
_NUMPYS: Final = (np.ndarray, np.generic)
_SEQUENCES: Final = (tuple, list)


class NumPyArray(EagerArray, NumPyTensor):
    """An array over an np.ndarray; rank-0 results hold NumPy's scalars until they are written into."""

    __slots__ = ()
    kin = NumPyTensor

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

    @staticmethod
    def given(found: Any) -> Any:
        """Return NumPy's arrays and scalars as arrays of this class; raises DTypeError for unsupported dtypes."""
        if isinstance(found, _NUMPYS):
            return NumPyArray.over(found) if found.dtype in _NAMES else NumPyArray(found)
        if isinstance(found, _SEQUENCES):
            kind, parts = type(found), map(NumPyArray.given, found)
            return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
        return found

    @classmethod
    def direct_function(cls, name: str, function: Function | None = None) -> DirectFunction | None:
        """Return a row of NumPy's table over ndarrays as a direct function."""
        carried_out = over_arrays(name, function)
        return None if carried_out is None else direct(carried_out, _taken, cls.given)

    def astype(self, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: bool = True,
               copy: bool = True) -> Any:
        """Return the elements cast to a dtype, or the array itself if `copy` is false and nothing changes."""
        name = dtype_name(dtype, "astype")
        if not copy and name == self.dtype:
            return self
        return self.over(self.array.astype(numpy_dtype(name), order, casting, subok, copy))

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """Return the elements under another shape: a view where the memory allows it."""
        return super().reshape(*shape, **options) if options else self.over(self.array.reshape(*shape))

    def __array_ufunc__(  # type: ignore[override]  # EagerTensor takes no ufuncs
        self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any
    ) -> Any:
        carried_out = ufunc if method == "__call__" else getattr(ufunc, method)
        return _delivered(carried_out(*unwrap(inputs), **unwrap(kwargs)), kwargs.get("out"))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _delivered(func(*unwrap(args), **unwrap(kwargs)), kwargs.get("out"))


def _delivered(result: Any, out: Any) -> Any:
    """Return NumPy's result as eager arrays, or `out` itself if it was written into."""
    written = out[0] if isinstance(out, tuple) else out
    return written if isinstance(written, NumPyArray) and not isinstance(result, tuple) else NumPyArray.given(result)


def _taken(value: Any) -> Any:
    """Return an argument as NumPy takes it; raises UndecidedError for one that NumPy alone cannot handle."""
    kind = type(value)
    if issubclass(kind, NumPyArray) and type(value.value) not in WEAK_DTYPE:
        return value.array
    if kind in PASSED or kind is np.ndarray:
        return value
    if kind is tuple or kind is list:
        return kind([_taken(v) for v in value])
    raise UndecidedError


def _own(name: str) -> Function:
    def method(self: NumPyArray, *args: Any, **kwargs: Any) -> Any:
        return _delivered(getattr(self.array, name)(*unwrap(args), **unwrap(kwargs)), kwargs.get("out"))

    method.__name__ = name
    method.__doc__ = f"Return what np.ndarray.{name} returns."
    return method


def _take_from_ndarray() -> None:
    """Replace each method that traced arrays share with np.ndarray by NumPy's own."""
    others = ("to_device", "conj", "conjugate")  # a real array's conjugate is the array itself
    for name, method in vars(ArrayMethods).items():
        taken = name[:1] == "_" or name in others or name in vars(NumPyArray) or name in vars(EagerArray)
        if not taken and callable(method) and callable(getattr(np.ndarray, name, None)):
            setattr(NumPyArray, name, _own(name))


take_operators(NumPyArray, np.ndarray)
_take_from_ndarray()
