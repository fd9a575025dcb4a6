"""Checks and conversions of an exported function's arguments: functions that are copied into it, over NumPy alone."""
from __future__ import annotations

from typing import Any

import numpy as np


def check_array(value: Any, name: str, shape: tuple[int, ...], dtype: str) -> None:
    """Raise TypeError or ValueError where an argument is not the array that the function was made for."""
    if not isinstance(value, np.ndarray) or value.dtype.name != dtype:
        found = getattr(value, "dtype", type(value).__name__)
        raise TypeError(f"{name} is a NumPy array of dtype {dtype}, not {found}")
    if value.shape != shape:
        raise ValueError(f"{name} has the shape {shape}, not {value.shape}")


def as_scalar(value: Any, name: str, dtype: str) -> Any:
    """Return an argument of rank 0 as a NumPy scalar; raises TypeError or ValueError for any other."""
    if type(value) in (bool, int, float, complex):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray | np.generic) or value.dtype.name != dtype:
        found = getattr(value, "dtype", type(value).__name__)
        raise TypeError(f"{name} is a number of dtype {dtype}, not {found}")
    if value.shape:
        raise ValueError(f"{name} is a single number, not an array of shape {value.shape}")
    return np.asarray(value)[()]


def as_number(value: Any, name: str, kind: Any) -> Any:
    """Return an argument as a Python number of a type; raises TypeError for a number that is not one of its kind."""
    value = value.item() if isinstance(value, np.ndarray | np.generic) and not value.shape else value
    wider = {float: (int,), complex: (int, float)}.get(kind, ())
    if type(value) is not kind and type(value) not in wider:
        raise TypeError(f"{name} is of type {kind.__name__}, not {type(value).__name__}")
    return kind(value)


def check_value(value: Any, name: str, expected: Any) -> None:
    """Raise ValueError where a number that decided what the function does has another value."""
    if value != expected and not (value != value and expected != expected):
        raise ValueError(f"{name} was {expected!r} when the function was made, which depends on it; not {value!r}")


def check_strides(value: Any, name: str, strides: tuple[int, ...]) -> None:
    """Raise ValueError where an array that the function returns a view of has another layout."""
    if value.strides != strides:
        raise ValueError(f"{name} has the strides {strides}, not {value.strides}")


def window(value: Any, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """Return the view of an array that begins `offset` bytes after its first element."""
    interface = dict(value.__array_interface__)
    where = (interface["data"][0] + offset, not value.flags.writeable)
    interface.update(data=where, shape=shape, strides=strides, base=value)
    holder = type("Window", (), {"__array_interface__": interface})()
    return np.asarray(holder).view(value.dtype)
