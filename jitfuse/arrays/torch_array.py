"""TorchArray: an eager array over a torch tensor. Importing this module imports torch.

Promotes by the op table, so that eager code and fused functions agree. A tensor on another device computes there;
what needs its elements on the host (items, NumPy's protocols, fused functions) copies them.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from jitfuse.arrays.base import EagerArray
from jitfuse.backends.interpreter import torch_functions
from jitfuse.backends.interpreter.torch_tensor import TorchProgramTensor
from jitfuse.errors import ArgumentError
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.dtype_name import DTYPES, DTypeName


class TorchArray(EagerArray, TorchProgramTensor):  # type: ignore[misc]  # EagerTensor takes no ufuncs
    """An array over a torch tensor."""

    __slots__ = ()

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The elements as an ndarray over the same memory."""
        if self.weak:
            return np.asarray(self.value)
        return torch_functions.to_numpy(self.value)  # type: ignore[no-any-return]

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
