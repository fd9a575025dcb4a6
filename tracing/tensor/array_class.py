"""Proxies of classes: calling one in a trace makes a tracing-aware object.

All other uses (isinstance, issubclass, methods and attributes) go to the original class. The proxy of np.ndarray
creates an array that takes traced values.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitfuse.errors import UnsupportedError
from jitfuse.tracing.record.source import user_line


class _ClassProxy(type):
    original: type
    create: Callable[..., Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.create(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.original)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.original)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.original, name)

    def __eq__(cls, other: object) -> bool:
        return cls.original is original(other)

    def __hash__(cls) -> int:
        return hash(cls.original)

    def __repr__(cls) -> str:
        return repr(cls.original)


def original(value: Any) -> Any:
    """Return the class of a class proxy; other values as they are."""
    return value.original if type(value) is _ClassProxy else value


def class_proxy(original: type, create: Callable[..., Any]) -> type:
    """Return a proxy of a class; a call of it calls `create`."""
    return _ClassProxy(original.__name__, (), {"original": original, "create": staticmethod(create)})


def array_class(create: Callable[..., Any]) -> type:
    """Return a proxy of np.ndarray; `create(shape, dtype, order)` makes its arrays."""
    def made(shape: Any, dtype: Any = float, buffer: Any = None, offset: int = 0, strides: Any = None,
             order: Any = None) -> Any:
        if buffer is not None or strides is not None:
            raise UnsupportedError(f"np.ndarray(buffer=, strides=) is not available inside a fused function, at "
                                   f"{user_line()}. Pass the array as an argument.")
        return create(shape, dtype, order or "C")

    return class_proxy(np.ndarray, made)
