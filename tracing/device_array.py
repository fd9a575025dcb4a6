"""Arrays that live on another device, as the tracer sees them.

Owns `DeviceArray`, what such a class promises: a stand-in on the host with the same shape, dtype, strides and
sharing of memory, whose elements nobody reads. Does not own any device.
"""
from __future__ import annotations

from typing import Any

import numpy as np


class DeviceArray:
    """An array elsewhere; `stand_in` is what a trace takes in its place."""

    __slots__ = ()

    @property
    def stand_in(self) -> np.ndarray[Any, Any]:
        """The same object each time: arrays of the same memory have stand-ins that overlap."""
        raise NotImplementedError


def seen(value: Any) -> Any:
    """Return what a trace sees of a value: the stand-in of a device array, any other value itself."""
    return value.stand_in if isinstance(value, DeviceArray) else value
