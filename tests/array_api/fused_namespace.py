"""The namespace with each of its functions in `jf.fuse`, for the array API's own test suite.

Functions of dtypes alone stay as they are, and so do the ways into the namespace: `asarray` of Python's numbers and
`from_dlpack`. Creation functions, which have no argument that says what kind of array is wanted, give eager arrays.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import optree

import jitfuse as jf
from jitfuse.array_api import namespace
from jitfuse.arrays.wrapping import wrap
from jitfuse.tracing.abstract import AbstractTensor

PLAIN = ("isdtype", "finfo", "iinfo", "result_type", "can_cast", "broadcast_shapes", "from_dlpack",
         "__array_namespace_info__")
CREATION = ("zeros", "ones", "empty", "full", "arange", "linspace", "eye", "fftfreq", "rfftfreq")


def _fused(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    fused: Callable[..., Any] = jf.fuse(function)
    if name == "asarray":
        def asarray(obj: Any, /, **options: Any) -> Any:
            return fused(obj, **options) if isinstance(obj, AbstractTensor) else function(obj, **options)

        return functools.wraps(function)(asarray)
    if name in CREATION:
        return functools.wraps(function)(lambda *args, **options: optree.tree_map(wrap, fused(*args, **options)))
    return fused


def _all(functions: dict[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    return {name: function if name in PLAIN else _fused(name, function) for name, function in functions.items()}


globals().update(_all(namespace.FUNCTIONS))
globals().update(namespace.CONSTANTS)
linalg = SimpleNamespace(**_all({name: getattr(jf.linalg, name) for name in jf.linalg.__all__ if name.islower()}))
fft = SimpleNamespace(**_all({name: getattr(jf.fft, name) for name in jf.fft.__all__}))
__array_api_version__ = jf.__array_api_version__
