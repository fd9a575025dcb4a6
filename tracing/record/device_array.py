"""Arrays that are no NumPy arrays, as the tracer and the call see them.

Owns what two kinds of classes promise. A `DeviceArray` lives on another device and has a stand-in on the host with
the same shape, dtype, strides and sharing of memory, whose elements nobody reads. A `HostArray` wraps memory on the
host, and is the NumPy array over it to everything below. Does not own any device or wrapper.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from jitfuse.tracing.record.foreign import is_torch_tensor, tensor_as_array


class DeviceArray:
    """An array elsewhere; `placeholder` is what a trace takes in its place."""

    __slots__ = ()

    @property
    def placeholder(self) -> np.ndarray[Any, Any]:
        """The same object each time: arrays of the same memory have stand-ins that overlap."""
        raise NotImplementedError


class HostArray:
    """A wrapper of an array on the host; `array` is what a trace and a call take in its place."""

    __slots__ = ()

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The NumPy array over the same memory: the same object each time where the wrapper holds one."""
        raise NotImplementedError


def seen(value: Any) -> Any:
    """Return what a trace sees of a value: the stand-in of a device array, a wrapper's array, any other value."""
    return value.placeholder if isinstance(value, DeviceArray) else unwrapped(value)


def unwrapped(value: Any) -> Any:
    """Return a wrapper's array, a tensor of torch's as an array, any other value itself."""
    if isinstance(value, HostArray):
        return value.array
    return tensor_as_array(value) if is_torch_tensor(value) else value
