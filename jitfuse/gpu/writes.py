"""Writes into arrays on the GPU from plain Python: item assignment and the in-place operators.

Each is a fused function that writes into its first argument, so that views of the same memory see it, as in NumPy.
Does not own the effect of a write on memory (`jitfuse.gpu.call`).
"""
from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.errors import ArgumentError
from jitfuse.fuse import fuse
from jitfuse.tracing.record.device_array import DeviceArray
from jitfuse.tracing.record.recorder import active

_STATIC: Final = (operator.ipow, operator.ilshift, operator.irshift)
"""Updates that specialise on a Python number."""


@functools.cache
def _writing(update: Callable[[Any, Any], Any], static: bool) -> Callable[..., Any]:
    """Return the fused function that updates its first argument by the second."""
    def write(target: Any, value: Any) -> None:
        if active() is None:
            raise ArgumentError("this array on the GPU cannot be written here: its elements share memory with one "
                                "another, or JITFUSE_DISABLE is set. Copy it first.")
        update(target, value)

    made: Callable[..., Any] = fuse(
        write, device="gpu", name=update.__name__, static_argnames=("value",) if static else (),
    )
    return made


def _write(update: Callable[[Any, Any], Any], target: Any, value: Any) -> None:
    if isinstance(value, DeviceArray) and value is not target and np.may_share_memory(
        value.placeholder, target.placeholder
    ):
        value = value.call("copy")  # type: ignore[attr-defined]
    _writing(update, update in _STATIC and type(value) in (int, float))(target, value)


def _assign(target: Any, value: Any) -> None:
    target[...] = value


def _in_place(update: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        _write(update, self, other)
        return self

    return method


class Writable:
    """Item assignment and in-place operators of a device array."""

    __slots__ = ()

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write into a basic slice; raises UnsupportedError for other indices, which fused functions support."""
        _write(_assign, self[index], value)  # type: ignore[index]

    __iadd__ = _in_place(operator.iadd)
    __isub__ = _in_place(operator.isub)
    __imul__ = _in_place(operator.imul)
    __itruediv__ = _in_place(operator.itruediv)
    __ifloordiv__ = _in_place(operator.ifloordiv)
    __imod__ = _in_place(operator.imod)
    __ipow__ = _in_place(operator.ipow)
    __iand__ = _in_place(operator.iand)
    __ior__ = _in_place(operator.ior)
    __ixor__ = _in_place(operator.ixor)
    __ilshift__ = _in_place(operator.ilshift)
    __irshift__ = _in_place(operator.irshift)
    __imatmul__ = _in_place(operator.imatmul)
