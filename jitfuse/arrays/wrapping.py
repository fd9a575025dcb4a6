"""Conversions to eager arrays and back: the classes for values of any library.

Owns the choice of the class for a value. Items of containers are converted too, for results of several arrays.
"""
from __future__ import annotations

import sys
from typing import Any

import numpy as np

from jitfuse.arrays.base import EagerArray, unwrap
from jitfuse.arrays.numpy_array import NumPyArray
from jitfuse.dtypes import numpy_dtype
from jitfuse.errors import ArgumentError
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.record.device_array import HostArray


def array_class(value: Any) -> type[EagerArray] | None:
    """Return the eager class for a value, or None for a value that is no array or is on another device."""
    if isinstance(value, np.ndarray | np.generic):
        return NumPyArray
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        from jitfuse.arrays.torch_array import TorchArray

        return TorchArray
    return None


def wrap(value: Any) -> Any:
    """Return arrays and NumPy scalars as eager arrays."""
    if isinstance(value, tuple | list):
        parts = [wrap(v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    found = array_class(value)
    return value if found is None else found(value)


def plain(value: Any) -> Any:
    """Return a result as NumPy code expects it: an array, or a NumPy scalar for rank 0."""
    if isinstance(value, HostArray):
        array = value.array
        return array if array.ndim else array[()]
    if isinstance(value, tuple | list):
        parts = [plain(v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def asarray(obj: Any, dtype: str | None, copy: bool | None) -> Any:
    """Return an array, number or nested sequence as an eager array; raises ValueError where copy=False must copy."""
    if isinstance(obj, EagerArray):
        if dtype is not None and dtype != obj.dtype:
            if copy is False:
                raise ValueError("a cast copies; pass copy=None")
            return obj.astype(dtype)
        return obj.as_copy() if copy else obj
    cls = array_class(obj)
    if cls is not None and cls is not NumPyArray:
        return asarray(cls(obj), dtype, copy)
    if isinstance(obj, AbstractTensor):
        raise ArgumentError(f"a {type(obj).__name__} is no array on the host; move it with jf.asarray(x, device='cpu')")
    return wrap(np.asarray(unwrap(obj), None if dtype is None else numpy_dtype(dtype), copy=copy))
