"""TorchArray: an eager array over a torch tensor. Importing this module imports torch.

Operators, and functions of the namespace, are rows of `jitfuse.arrays.torch_table` on the tensor; where that has none,
small arrays on the host go through NumPy's table over the same memory. Dtypes follow the op table, so that eager code
and fused functions agree. A tensor on another device computes there; uses of its elements on the host (items, NumPy's
protocols, fused functions) copy them.
"""
from __future__ import annotations

import contextvars
from functools import partial
from typing import Any, Final

import numpy as np
import torch

from jitfuse.arrays.base import PASSED, DirectFunction, EagerArray, Function, UndecidedError, direct, take_operators
from jitfuse.arrays.numpy_table import over_arrays
from jitfuse.arrays.torch_table import over_tensors
from jitfuse.backends.interpreter.torch_tensor import TorchProgramTensor
from jitfuse.dtypes import WEAK_DTYPE
from jitfuse.errors import ArgumentError
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numpy_like import linalg
from jitfuse.tracing.record.dtype_name import DTYPES, DTypeName
from jitfuse.tracing.record.foreign import host_array

Tensor: Final = torch.Tensor
_over_memory_of: Final = torch.Tensor.numpy  # unbound: the look-up on a tensor takes a tenth of the call
_tensor_over: Final = torch.from_numpy
_new: Final = object.__new__
_ndarray: Final = np.ndarray
_SEQUENCES: Final = (tuple, list)
SMALL: Final = 1 << 14
"""Arrays with more elements do not go through NumPy, which is single-threaded."""
_NOT_NUMPYS: Final = frozenset({"mean", "std", "var"})
"""Functions that NumPy computes in other dtypes than torch."""
_quiet = contextvars.copy_context()
"""A context in which NumPy does not warn, like torch. If two threads enter it at once, one takes the slow path."""
_quiet.run(np.seterr, all="ignore")


class TorchArray(EagerArray, TorchProgramTensor):  # type: ignore[misc]  # EagerTensor takes no ufuncs
    """An array over a torch tensor."""

    __slots__ = ()

    def __init__(self, value: Any) -> None:
        """Hold a new tensor over the memory of one without gradients, because the caller may reshape his own."""
        super().__init__(value)
        held = self.value
        if type(held) is Tensor and not held.requires_grad:  # writes are counted together with the caller's
            if held.is_inference():
                with torch.inference_mode():
                    self.value = held.detach()
            else:
                self.value = held.detach()

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The elements as an ndarray over the same memory."""
        return np.asarray(self.value) if self.weak else host_array(self.value)

    @property
    def dtype(self) -> DTypeName:
        """The dtype's name, which user code may treat as np.dtype."""
        return DTYPES[TorchProgramTensor.dtype.fget(self)]  # type: ignore[attr-defined]

    @property
    def device(self) -> str:
        """torch's name of the device."""
        return "cpu" if self.weak else str(self.value.device)

    def _lift(self, value: Any) -> Any:
        if isinstance(value, EagerArray) and not isinstance(value, TorchArray):
            value = value.array
        if isinstance(value, AbstractTensor) and not isinstance(value, TorchProgramTensor):
            raise ArgumentError(f"an array of torch's meets a {type(value).__name__}; make both of one kind")
        return super()._lift(value)

    _operand = _lift

    def _take(self, result: Any) -> None:
        made = result.value  # torch informs autograd, and rejects memory with overlapping elements
        self.value.copy_(made if isinstance(made, Tensor) else torch.as_tensor(result.array))

    def _kept_for(self, other: Any) -> Any:
        kept = isinstance(other, TorchArray) and getattr(other.value, "requires_grad", False) and not self.weak
        return TorchArray.over(self.value.clone()) if kept else self

    @staticmethod
    def given(found: Any) -> Any:
        """Return NumPy's arrays and scalars as arrays of this class, and its named tuples as the namespace's."""
        kind = type(found)
        if kind is _ndarray:
            flags = found.flags
            if not flags.c_contiguous and min(found.strides) < 0:
                found = found.copy()  # torch has no negative strides
            try:
                return TorchArray.over(_tensor_over(found)) if flags.writeable else TorchArray(found)
            except (TypeError, ValueError):  # no dtype of torch's: this raises; or one element, a negative stride
                return TorchArray(found)
        if issubclass(kind, _SEQUENCES):
            parts = map(TorchArray.given, found)
            return getattr(linalg, kind.__name__, kind)(*parts) if hasattr(kind, "_fields") else kind(parts)
        return TorchArray.given(np.array(found)) if issubclass(kind, np.generic) or kind in WEAK_DTYPE else found

    @classmethod
    def direct_function(cls, name: str, function: Function | None = None) -> DirectFunction | None:
        """Return a direct function: a row of torch's table, else one of NumPy's over the same memory."""
        by_numpy, by_torch = None if name in _NOT_NUMPYS else over_arrays(name, function), over_tensors(name)
        otherwise = None if by_numpy is None else direct(partial(_quiet.run, by_numpy), _array, cls.given)
        return otherwise if by_torch is None else _by_torch(by_torch, otherwise)


def _by_torch(by_torch: Function, otherwise: DirectFunction | None) -> DirectFunction:
    first = direct(by_torch, _tensor, _of_tensors)

    def direct_function(args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        try:
            found = first(args, options)
            if found is not NotImplemented:
                return found
        except Exception:  # NumPy may handle it, or the function itself raises
            pass
        return NotImplemented if otherwise is None else otherwise(args, options)

    return direct_function


def _of_tensors(found: Any) -> Any:
    if type(found) is not Tensor:
        parts = map(TorchArray.over, found)
        return type(found)(*parts) if hasattr(found, "_fields") else tuple(parts)
    made = _new(TorchArray)  # as `over` does, in half the time
    made.value = found
    return made


def _tensor(value: Any) -> Any:
    """Return an argument as torch takes it; raises UndecidedError for one that torch alone cannot handle."""
    if type(value) is TorchArray:
        if type(value.value) is Tensor:
            return value.value
    elif type(value) in PASSED:
        return value
    elif type(value) in (tuple, list):
        return type(value)([_tensor(v) for v in value])
    raise UndecidedError


def _array(value: Any) -> Any:
    """Return an argument as NumPy takes it; raises for large arrays, other devices and gradients."""
    if type(value) is TorchArray:
        if isinstance(value.value, Tensor) and value.value.numel() <= SMALL:
            return _over_memory_of(value.value)
    elif type(value) in PASSED:
        return value
    elif type(value) in (tuple, list):
        return type(value)([_array(v) for v in value])
    raise UndecidedError


take_operators(TorchArray)
