"""EagerArray: the array that users see outside of a trace, whatever library holds its elements.

It has NumPy's methods (`jitfuse.tracing.numpy_like.array_methods`), NumPy's protocols and the array API standard's, all
over `call`, which the interpreter's tensor classes implement by the op table. Functions of the namespace and Python's
operators try a direct function first: one of a table (`jitfuse.arrays.numpy_table`, `jitfuse.arrays.torch_table`) on
the library's arrays. Indexing and item assignment are NumPy's. Owns the Python protocols (numbers, items, DLPack,
pickling) and the conversion of arguments and results. Does not own any operator.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from types import NoneType
from typing import Any, ClassVar, Final, Self

import numpy as np

from jitfuse.dtypes import WEAK_DTYPE, can_cast, kind, numpy_dtype
from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.tracing.abstract import BINARY, COMPARISONS, UNARY, AbstractTensor
from jitfuse.tracing.numpy_like.array_methods import ArrayMethods
from jitfuse.tracing.record.device_array import HostArray
from jitfuse.tracing.record.dtype_name import DType, DTypeName
from jitfuse.tracing.tensor.function_table import NO_VALUE

Function = Callable[..., Any]
DirectFunction = Callable[[tuple[Any, ...], dict[str, Any]], Any]
"""A direct function takes a call's arguments as a tuple and a dict: unpacking them costs a tenth of a microsecond."""
PASSED: Final = frozenset({int, float, bool, complex, NoneType, str, type, DType, DTypeName, type(NO_VALUE), slice})
"""Types of arguments that are passed on unchanged."""

_WRITING: Final = frozenset({np.copyto, np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask})
"""NumPy's functions that write into an argument: they need an ndarray over its memory."""


_new = object.__new__


class UndecidedError(Exception):
    """Raised for an argument that a direct function does not handle; then the function itself is called."""


def direct(carried_out: Function, taken: Function, given: Function) -> DirectFunction:
    """Return a direct function: an implementation between conversions of its arguments and of its results."""
    def direct_function(args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if not options:
            found = carried_out(*map(taken, args))
        elif "out" in options:
            return NotImplemented
        else:
            found = carried_out(*map(taken, args), **{name: taken(value) for name, value in options.items()})
        return found if found is NotImplemented else given(found)

    return direct_function


def unwrap(value: Any) -> Any:
    """Return eager arrays as NumPy arrays over the same memory, in containers and slices too."""
    if isinstance(value, HostArray):
        return value.array
    kind = type(value)
    if kind is tuple or kind is list:
        return kind([unwrap(v) for v in value])
    if kind is dict:
        return {k: unwrap(v) for k, v in value.items()}
    return value


class EagerArray(HostArray, ArrayMethods):
    """An array that computes at once. `value` is the library's own array; rank 0 may be a NumPy scalar."""

    __slots__ = ()
    __hash__: ClassVar[None]  # type: ignore[assignment]
    value: Any
    kin: ClassVar[type] = AbstractTensor
    """Tensors that operators take, or refuse by an error; others may have a reflected operator."""

    def __init__(self, value: Any) -> None:
        """Hold an array, scalar or number without a copy, as the interpreter's tensor class does."""
        super().__init__(value)  # type: ignore[call-arg]

    def _operand(self, value: Any) -> Any:
        """Return a number, array, nested sequence or tensor as a tensor of this class; Python numbers are weak."""
        raise NotImplementedError

    @classmethod
    def over(cls, value: Any) -> Self:
        """Return an array over an array that the library has just made, unchecked."""
        made = _new(cls)
        made.value = value
        return made

    @staticmethod
    def given(found: Any) -> Any:
        """Return NumPy's arrays and scalars as arrays of this class, in tuples and lists too."""
        raise NotImplementedError

    @classmethod
    def direct_function(cls, name: str, function: Function | None = None) -> DirectFunction | None:
        """Return the direct function of a namespace function, or of an operator (without a function), or None."""
        raise NotImplementedError

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
        return type(self)(np.array(self.array, order="C"))

    def _part(self, name: str) -> Any:
        """Return the real or imaginary part; a view for complex numbers."""
        return type(self)(getattr(self.array, name)) if kind(str(self.dtype)) == "complex" else super()._part(name)

    @property
    def T(self) -> Any:  # noqa: N802
        """All axes reversed."""
        return self.mT if self.ndim == 2 else super().T

    @property
    def mT(self) -> Any:  # noqa: N802
        """The last two axes exchanged."""
        return self.over(self.value.mT) if self.ndim > 1 else super().mT

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None, **attrs: Any) -> Any:
        """Return the elements under another shape: a view where the memory allows it; copy=False never copies."""
        result = super().reshape(*shape, order=order, copy=copy, **attrs)
        if copy is False and result.size and not np.may_share_memory(result.array, self.array):
            raise ArgumentError(f"reshape of {self.shape} to {result.shape} copies here; pass copy=None")
        return result

    def _kept_for(self, other: Any) -> Any:
        """Return the array that an in-place operator computes with: a copy if autograd keeps it."""
        return self

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
        return self.given(self.array[unwrap(index)])

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
        return self.__array_namespace__().floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self.__array_namespace__().floor_divide(other, self)

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
        return self.given(func(*unwrap(args), **unwrap(kwargs)))  # traces do not have these functions either


EagerArray.__hash__ = None


def _in_place(method: str, name: str) -> Function:
    def operator(self: EagerArray, other: Any) -> Any:
        result = getattr(self._kept_for(other), method)(other)
        if result is NotImplemented:
            return NotImplemented
        made, held = result.value, self.value
        same = type(made) is type(held) and type(held) not in WEAK_DTYPE
        if same and made.dtype is held.dtype and made.shape == held.shape:
            self._take(result)
        else:
            self._assign_result(result, name)
        return self

    return operator


for _dunder, _name in BINARY.items():
    setattr(EagerArray, f"__i{_dunder}__", _in_place(f"__{_dunder}__", _name))


def _operator(found: DirectFunction, usual: Function, operands: frozenset[type], reflected: bool) -> Function:
    def operator(self: EagerArray, *others: Any) -> Any:
        if not others or type(others[0]) in operands:
            try:
                result = found((*others, self) if reflected else (self, *others), {})
                if result is not NotImplemented:
                    return result
            except Exception:  # `usual` raises the typed error
                pass
        elif isinstance(others[0], AbstractTensor) and not isinstance(others[0], self.kin):
            return NotImplemented
        return usual(self, *others)

    return operator


def take_operators(cls: type[EagerArray], *operands: type) -> None:
    """Give a class Python's operators by its direct functions, for operands of its own and of some types."""
    among = frozenset({cls, *WEAK_DTYPE, *operands})
    for dunder, name in {**UNARY, **BINARY, **COMPARISONS}.items():
        found = cls.direct_function(name)
        for reflected, method in enumerate((f"__{dunder}__", f"__r{dunder}__")):
            if found is not None and name != "floor_divide" and hasattr(EagerArray, method):
                setattr(cls, method, _operator(found, getattr(EagerArray, method), among, bool(reflected)))
