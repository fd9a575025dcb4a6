"""TorchArray: an eager array over a torch tensor. Importing this module imports torch.

Dtypes follow the op table, so that eager code and fused functions agree. A tensor on another device computes there;
uses of its elements on the host (items, NumPy's protocols, fused functions) copy them.
"""
from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import Any, Final

import numpy as np
import torch

from jitfuse.arrays.base import EagerArray
from jitfuse.arrays.wrapping import unwrap
from jitfuse.backends.interpreter.torch_tensor import TorchProgramTensor
from jitfuse.dtypes import WEAK_DTYPE
from jitfuse.errors import ArgumentError
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.record.dtype_name import DTYPES, DTypeName
from jitfuse.tracing.record.foreign import host_array

Function = Callable[..., Any]
Tensor: Final = torch.Tensor


class TorchArray(EagerArray, TorchProgramTensor):  # type: ignore[misc]  # EagerTensor takes no ufuncs
    """An array over a torch tensor."""

    __slots__ = ("over",)
    over: np.ndarray[Any, Any] | None
    """The ndarray over the memory, made when `memory_of` first needs it. Nothing else refers to it."""

    def __init__(self, value: Any) -> None:
        """Hold a new tensor over the memory of one without gradients, because the caller may reshape his own."""
        super().__init__(value)
        self.over = None
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
        if self.weak:
            return np.asarray(self.value)
        return host_array(self.value)

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

    @classmethod
    def direct_function(cls, name: str, function: Function) -> Function | None:
        """Return the direct function of a namespace function: torch's, else NumPy's over the same memory."""
        return direct_by_name(name, function)

    @property
    def T(self) -> Any:  # noqa: N802
        """All axes reversed."""
        value = self.value
        return wrapped(value.permute(tuple(range(value.ndim))[::-1])) if type(value) is Tensor else super().T

    @property
    def mT(self) -> Any:  # noqa: N802
        """The last two axes exchanged."""
        value = self.value
        return wrapped(value.mT) if type(value) is Tensor and value.ndim > 1 else super().mT

    def _take(self, result: Any) -> None:
        made = result.value  # torch informs autograd, and rejects memory with overlapping elements
        self.value.copy_(made if isinstance(made, Tensor) else torch.as_tensor(result.array))

    def __getitem__(self, index: Any) -> Any:
        value = self.value
        if type(value) is Tensor:
            try:
                array = memory_of(self)
            except (TypeError, RuntimeError):  # other device, dtype unknown to NumPy, gradients, conjugated
                return super().__getitem__(index)
            return of_numpy(array[_index(index)])
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        tensor = self.value
        if type(tensor) is Tensor and (type(value) is TorchArray or type(value) in WEAK_DTYPE):
            try:
                array = memory_of(self)
                given = memory_of(value) if type(value) is TorchArray else value
            except (AttributeError, TypeError, RuntimeError):  # as above
                super().__setitem__(index, value)
                return
            array[_index(index)] = given
            return
        super().__setitem__(index, value)


_INDICES: Final = frozenset({int, slice, NoneType, type(...)})


def _index(index: Any) -> Any:
    """Return an index as NumPy takes it."""
    kind = type(index)
    if kind in _INDICES:
        return index
    if kind is TorchArray and index.value.__class__ is Tensor and index.value.device.type == "cpu":
        return memory_of(index)
    return unwrap(index)


from jitfuse.arrays import torch_operators  # noqa: E402, F401  # gives the class its operators
from jitfuse.arrays.torch_dispatch import direct_by_name, memory_of, of_numpy, wrapped  # noqa: E402  # needs the class
