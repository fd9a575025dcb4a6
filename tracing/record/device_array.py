"""Interfaces of arrays that are not NumPy arrays.

Owns two of them. A `DeviceArray` is on another device and has a placeholder on the host, with the same shape, dtype,
strides and sharing of memory, whose elements are never read. A `HostArray` wraps memory on the host; traces and calls
use the NumPy array over it. Does not own any device or wrapper.
"""
from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from jitfuse.tracing.record.foreign import is_torch_tensor, tensor_as_array


class DeviceArray:
    """An array on another device; a trace uses its `placeholder`."""

    __slots__ = ()

    @property
    def placeholder(self) -> np.ndarray[Any, Any]:
        """The same object each time; arrays of the same memory have placeholders that overlap."""
        raise NotImplementedError


class HostArray:
    """A wrapper of an array on the host; a trace and a call use its `array`."""

    __slots__ = ()
    is_owner: ClassVar[bool] = False
    """Whether it always is the only array over its memory."""
    is_trained: ClassVar[bool] = False
    """Whether a loss may be differentiated by it."""

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The NumPy array over the same memory: the same object each time, if the wrapper holds one."""
        raise NotImplementedError


def seen(value: Any) -> Any:
    """Return the value that a trace sees: a device array's placeholder, a wrapper's array, any other value itself."""
    return value.placeholder if isinstance(value, DeviceArray) else unwrapped(value)


def unwrapped(value: Any) -> Any:
    """Return a wrapper's array, a torch tensor as an array, any other value itself."""
    if isinstance(value, HostArray):
        return value.array
    return tensor_as_array(value) if is_torch_tensor(value) else value
