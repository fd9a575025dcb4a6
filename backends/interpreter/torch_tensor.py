"""TorchProgramTensor: AbstractTensor's methods computed at once by torch. Importing this module imports torch.

Operands are promoted by the op table, so that a program gives the same dtypes over any framework. Values are NumPy's,
also for integer division by zero, shifts past the width and casts out of range. Random numbers come
from the reference, and are the same everywhere. Composite operators are computed by their decompositions, the others
by `jitfuse.backends.interpreter.torch_functions`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from jitfuse.backends.interpreter import torch_functions
from jitfuse.backends.interpreter.eager import EagerTensor
from jitfuse.dtypes import SUPPORTED, WEAK_DTYPE, is_integer, weak_dtype
from jitfuse.errors import ArgumentError, DTypeError, OutOfRangeError
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta
from jitfuse.ir.rules import dtype_rules, meta_rules
from jitfuse.tracing.record.foreign import host_array

TORCH_DTYPES = {name: getattr(torch, name) for name in SUPPORTED}
NAMES = {dtype: name for name, dtype in TORCH_DTYPES.items()}


class TorchProgramTensor(EagerTensor):
    """A torch.Tensor or a Python scalar (weak), in one of the supported dtypes, on any device."""

    __slots__ = ()

    def __init__(self, value: Any) -> None:
        """Hold the value without a copy; NumPy values are converted, and share memory where torch can."""
        if type(value) not in WEAK_DTYPE:
            if isinstance(value, np.ndarray | np.generic):
                value = torch_functions.from_numpy(value)
            if not isinstance(value, torch.Tensor):
                raise ArgumentError(f"{type(value).__name__} is no tensor, float, int or bool")
            if value.dtype not in NAMES:
                raise DTypeError(f"dtype {value.dtype} is not supported; use one of {', '.join(SUPPORTED)}")
        self.value = value

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents as plain ints."""
        return () if self.weak else tuple(self.value.shape)

    @property
    def dtype(self) -> str:
        """The dtype's name."""
        return weak_dtype(self.value) if self.weak else NAMES[self.value.dtype]

    @property
    def device(self) -> str:
        """torch's name of the device."""
        return "cpu" if self.weak else str(self.value.device)

    def storage(self) -> object:
        """Return the address of the tensor's storage; None for a Python scalar."""
        return None if self.weak else self.value.untyped_storage().data_ptr()

    def fresh(self, taken: set[object]) -> Any:
        """Return the value, copied if broadcast or its memory is in `taken`; otherwise add its memory to `taken`."""
        if self.weak:
            return self.value
        if self.storage() in taken or (0 in self.value.stride() and self.value.numel() > 1):
            return self.value.clone(memory_format=torch.contiguous_format)
        taken.add(self.storage())
        return self.value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.value if self.weak else host_array(self.value), dtype, copy=copy)

    def _lift(self, value: Any) -> TorchProgramTensor:
        if isinstance(value, type(self)):
            return value
        return type(self)(value.value if isinstance(value, EagerTensor) else value)

    def _loop(self, op: ops.Op, inputs: Sequence[TorchProgramTensor]) -> dtype_rules.DtypeRule:
        assert op.loop is not None
        loop = op.loop(op.name, [i.meta for i in inputs])
        for i, dtype in zip(inputs, loop.inputs):
            if i.weak and op.name != "where":  # `where` wraps, as NumPy's does
                reject_wrapping(i.value, TORCH_DTYPES[dtype])
        return loop

    def _apply(self, op: ops.Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        if op.kind == ops.CONTROL:
            return tuple(map(type(self), op.numpy(*[i.value for i in inputs], **attrs)))
        if op.is_of_many:
            device = inputs[0].value.device
            arrays = [host_array(i.value) for i in inputs]
            return tuple(type(self)(torch_functions.from_numpy(a).to(device)) for a in op.numpy(*arrays, **attrs))
        typed = self._failure(op, inputs, attrs)
        if typed is not None:
            raise typed
        if op.decompose is not None:
            return op.decompose(*inputs, **attrs)
        device = next((i.value.device for i in (*inputs, self) if not i.weak), torch.device("cpu"))
        result = self._compute(op, inputs, attrs, device)
        return result if isinstance(result, TorchProgramTensor) else type(self)(result)

    def _compute(self, op: ops.Op, inputs: tuple[Any, ...], attrs: dict[str, Any], device: Any) -> Any:
        if op.kind == ops.MODE:
            return inputs[0] if attrs["training"] else inputs[1]
        if op.kind in (ops.CREATION, ops.RANDOM):
            return torch_functions.by_reference(op, [i.value for i in inputs], attrs, device)
        if op.kind == ops.LIBRARY:
            dtypes = self._loop(op, inputs).inputs if op.loop is not None else [i.dtype for i in inputs]
            operands = [_as(i, dtype, device) for i, dtype in zip(inputs, dtypes, strict=True)]
            made = torch_functions.by_reference(op, operands, attrs, device)
            weak = not made.ndim and op.loop is None and op.result_meta([i.meta for i in inputs], attrs).weak
            return made.item() if weak else made
        if op.name == "concat":
            dtype = meta_rules.concat_meta("concat", [Meta((0,), i.dtype) for i in inputs], 0).dtype
            return torch_functions.call(op.name, [_as(i, dtype, device) for i in inputs], attrs)
        if op.loop is None:
            return torch_functions.call(op.name, [_as(i, i.dtype, device) for i in inputs], attrs)
        loop = self._loop(op, inputs)
        operands = [_as(i, dtype, device) for i, dtype in zip(inputs, loop.inputs, strict=True)]
        result = torch_functions.call(op.name, operands, attrs)
        return result.item() if loop.weak else result


def reject_wrapping(value: Any, dtype: Any) -> None:
    """Raise OutOfRangeError for a Python int out of a dtype's range: torch converts -1 to the largest uint8."""
    if type(value) is int and is_integer(NAMES[dtype]):
        limits = torch.iinfo(dtype)
        if not limits.min <= value <= limits.max:
            raise OutOfRangeError(f"Python integer {value} out of bounds for {NAMES[dtype]}. "
                                  "Make it a float, or cast the array with astype(np.int64) first.")


def _as(tensor: TorchProgramTensor, dtype: str, device: Any) -> Any:
    """Return the tensor's value as a torch.Tensor of the dtype; scalars go to the device."""
    if tensor.weak:
        value = tensor.value
        if type(value) is int and is_integer(dtype):
            value = np.asarray(value).astype(dtype).item()  # wraps, as NumPy's `where`, the only user
        return torch.tensor(value, dtype=TORCH_DTYPES[dtype], device=device)
    return torch_functions.cast(tensor.value, TORCH_DTYPES[dtype])
