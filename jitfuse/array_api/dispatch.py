"""Dispatch of a namespace function on the kind of its arrays, and conversion of results for NumPy arrays.

A function is written over AbstractTensors. Called with NumPy arrays, it runs on eager arrays over them and returns
NumPy arrays. Does not own any function.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np

from jitfuse.errors import ArgumentError
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.record.recorder import active
from jitfuse.tracing.tensor.function_table import traced_among

F = TypeVar("F", bound=Callable[..., Any])
_ARRAYS: Final = frozenset({"where", "zeros_like", "ones_like", "full_like", "empty_like"})
"""Functions that return arrays of rank 0 as arrays, as NumPy's do."""
_AS_GIVEN: Final = frozenset({"astype", "reshape"})
"""Functions that return arrays of rank 0 for arrays, and scalars for NumPy scalars."""


def over_tensors(function: F) -> F:
    """Let a function over AbstractTensors also take NumPy arrays and nested lists, and then return NumPy arrays."""

    name = function.__name__

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], AbstractTensor):
            return function(*args, **kwargs)
        if traced_among(*args, *kwargs.values()) is not None:
            return function(*args, **kwargs)
        from jitfuse.arrays.base import unwrap
        from jitfuse.arrays.wrapping import plain

        made = function(*map(_taken, args), **{k: _taken(v) for k, v in kwargs.items()})
        is_array = name in _ARRAYS or (name in _AS_GIVEN and bool(args) and isinstance(args[0], np.ndarray))
        return unwrap(made) if is_array else plain(made)

    return call  # type: ignore[return-value]


def _taken(value: Any) -> Any:
    from jitfuse.arrays.wrapping import wrap

    return wrap(np.asarray(value)) if isinstance(value, np.ndarray | np.generic | list) else value


def tensor(value: Any) -> Any:
    """Return a number as a tensor (traced in a trace, else eager), and a tensor itself."""
    if isinstance(value, AbstractTensor):
        return value
    run = active()
    if run is not None:
        from jitfuse.tracing.tensor.lifting import lift

        return lift(run, value)
    from jitfuse.arrays.wrapping import wrap

    return wrap(np.asarray(value))


def require_device(name: str, device: str | None) -> None:
    """Raise ArgumentError for a device other than the trace's own."""
    if device not in (None, "cpu"):
        raise ArgumentError(
            f"{name}(device={device!r}) inside a fused function: a call runs on one device, jf.fuse(device=)"
        )
