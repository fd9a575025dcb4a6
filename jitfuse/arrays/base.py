"""EagerArray: the array that users see outside of a trace, whatever library holds its elements.

It has NumPy's methods (`jitfuse.tracing.numpy_like.array_methods`), NumPy's protocols and the array API standard's, all
over `call`, which the interpreter's tensor classes implement by the op table. Indexing and item assignment are the
library's own. Owns the Python protocols (numbers, items, DLPack, pickling). Does not own any operator.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final

import numpy as np

from jitfuse.array_api import functions
from jitfuse.arrays.wrapping import unwrap, wrap
from jitfuse.dtypes import can_cast, kind, numpy_dtype
from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.tracing.abstract import BINARY
from jitfuse.tracing.numpy_like.array_methods import ArrayMethods
from jitfuse.tracing.record.device_array import HostArray

_WRITING: Final = frozenset({np.copyto, np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask})
"""NumPy's functions that write into an argument: they need an ndarray over its memory."""


class EagerArray(HostArray, ArrayMethods):
    """An array that computes at once. `value` is the library's own array; rank 0 may be a NumPy scalar."""

    __slots__ = ()
    __hash__: ClassVar[None]  # type: ignore[assignment]
    value: Any

    def _operand(self, value: Any) -> Any:
        """Return a number, array, nested sequence or tensor as a tensor of this class; Python numbers are weak."""
        raise NotImplementedError

    @classmethod
    def direct_function(cls, name: str, function: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return the direct function of a namespace function (`jitfuse.array_api.entry_points`), or None.

        It takes the positional arguments as a tuple, and the keyword arguments as a dict.
        """
        return None

    def as_tensor(self, value: Any) -> Any:
        """Return any array argument of NumPy functions as a tensor of this class."""
        return self._operand(np.asarray(unwrap(value)) if isinstance(value, list | tuple) else value)

    # ------------------------------------------------------------------ memory
    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are contiguous in C order."""
        return bool(self.array.flags.c_contiguous)

    def as_copy(self, scalar: bool = False) -> Any:
        """Return the same value in memory of its own."""
        return wrap(np.array(self.array, order="C"), self)

    def _part(self, name: str) -> Any:
        """Return the real or imaginary part; a view for complex numbers."""
        return wrap(getattr(self.array, name), self) if kind(str(self.dtype)) == "complex" else super()._part(name)

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None, **attrs: Any) -> Any:
        """Return the elements under another shape: a view where the memory allows it; copy=False never copies."""
        result = super().reshape(*shape, order=order, copy=copy, **attrs)
        if copy is False and result.size and not np.may_share_memory(result.array, self.array):
            raise ArgumentError(f"reshape of {self.shape} to {result.shape} copies here; pass copy=None")
        return result

    def _assign_result(self, result: Any, name: str) -> None:
        """Write an operator's result as `x += y` and `out=x` do: same shape, same-kind cast."""
        if result.shape != self.shape:
            raise ShapeError(f"{name}: a result of shape {result.shape} does not fit the output of shape {self.shape}")
        if not can_cast(str(result.dtype), str(self.dtype)):
            raise DTypeError(f"cannot cast {name}'s result from {result.dtype} to {self.dtype} with casting rule "
                             f"'same_kind'. Write x = x.astype({result.dtype}) first, or cast the right-hand side.")
        self._take(result)

    def _take(self, result: Any) -> None:
        """Write the elements of an array of the same shape, cast to this dtype."""
        self.array[...] = result.array

    def _check_assigned(self, value: Any) -> Any:
        """Return a value to be written into this array; raises for a Python number that its dtype does not hold."""
        if value.weak:
            np.array(value.value, numpy_dtype(str(self.dtype)))
        return value

    # ------------------------------------------------------------------ items
    def __getitem__(self, index: Any) -> Any:
        return wrap(self.array[unwrap(index)], self)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[unwrap(index)] = unwrap(value)

    def put(self, indices: Any, values: Any, mode: Any = "raise") -> None:
        """Write values at positions of the flattened array."""
        np.put(self.array, unwrap(indices), unwrap(values), mode)

    def item(self, *index: Any) -> Any:
        """Return one element as a Python scalar."""
        return self.array.item(*index)

    def tolist(self) -> Any:
        """Return the elements as nested lists."""
        return self.array.tolist()

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[k] for k in range(self.shape[0]))

    # ------------------------------------------------------------------ Python
    def __complex__(self) -> complex:
        return complex(self.value)

    def __index__(self) -> int:
        return self.array.__index__()

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.item(), digits)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    def __str__(self) -> str:
        return str(self.array)

    def __reduce__(self) -> Any:
        return type(self), (self.value,)

    # ------------------------------------------------------------------ differences from NumPy's operators
    def __floordiv__(self, other: Any) -> Any:
        return functions.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return functions.floor_divide(other, self)

    # ------------------------------------------------------------------ protocols
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.array, dtype, copy=copy)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: bool | None = None) -> Any:
        given = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
        return self.array.__dlpack__(stream=stream, **{k: v for k, v in given.items() if v is not None})

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from jitfuse.tracing.numpy_like import protocol as numpy_protocol

        if method == "at":
            return ufunc.at(*unwrap(inputs), **unwrap(kwargs))
        return numpy_protocol.array_ufunc(self, ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from jitfuse.tracing.numpy_like import protocol as numpy_protocol

        carried_out = numpy_protocol.implementation_of(func)
        if carried_out is not None and func not in _WRITING:
            return carried_out(*args, **kwargs)
        return wrap(func(*unwrap(args), **unwrap(kwargs)), self)  # traces do not have these functions either


EagerArray.__hash__ = None


def _inplace(method: str, name: str) -> Callable[[Any, Any], Any]:
    def operator(self: EagerArray, other: Any) -> Any:
        result = getattr(self, method)(other)
        if result is NotImplemented:
            return NotImplemented
        self._assign_result(result, name)
        return self

    return operator


for _dunder, _name in BINARY.items():
    setattr(EagerArray, f"__i{_dunder}__", _inplace(f"__{_dunder}__", _name))
