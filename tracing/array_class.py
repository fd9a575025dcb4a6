"""np.ndarray as user code in a trace sees it: called, it creates an array that takes traced values.

Everything else that a class is asked (isinstance, issubclass, its methods and attributes) is np.ndarray's own.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitfuse.errors import UnsupportedError
from jitfuse.tracing.source import user_line


class _ArrayClass(type):
    create: Callable[..., Any]

    def __call__(cls, shape: Any, dtype: Any = float, buffer: Any = None, offset: int = 0, strides: Any = None,
                 order: Any = None) -> Any:
        if buffer is not None or strides is not None:
            raise UnsupportedError(f"np.ndarray(buffer=, strides=) is not available inside a fused function, at "
                                   f"{user_line()}. Pass the array as an argument.")
        return cls.create(shape, dtype, order or "C")

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, np.ndarray)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, np.ndarray)

    def __getattr__(cls, name: str) -> Any:
        return getattr(np.ndarray, name)


def array_class(create: Callable[..., Any]) -> type:
    """Return what stands in for np.ndarray; `create(shape, dtype, order)` makes its arrays."""
    return _ArrayClass("ndarray", (), {"create": staticmethod(create)})
