"""Dtypes of the namespace: their names, promotion, kinds and limits, and the answers to the standard's inspection.

A dtype of the namespace is a `DType`; an array's dtype is a `DTypeName`, which equals it. Does not own promotion
(`jitfuse.dtypes`).
"""
from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple

import numpy as np

from jitfuse import dtypes
from jitfuse.array_api.dispatch import over_tensors
from jitfuse.errors import ArgumentError, DTypeError
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.record.dtype_name import DType, dtype_name

_STANDARD: Final = tuple(name for name in dtypes.SUPPORTED if name not in ("float16", "bfloat16"))
_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "bool": ("bool",), "signed integer": ("int",), "unsigned integer": ("uint",), "integral": ("int", "uint"),
    "real floating": ("float",), "complex floating": ("complex",), "numeric": ("int", "uint", "float", "complex"),
}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Return whether a dtype equals another, is of a kind such as "integral", or matches one of a tuple of these."""
    name = dtype_name(dtype, "isdtype")
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if type(kind) is str and kind not in dtypes.SUPPORTED:
        if kind not in _KINDS:
            raise ArgumentError(f"isdtype: the kinds are {', '.join(_KINDS)}, not {kind!r}")
        return dtypes.kind(name) in _KINDS[kind]
    return name == dtype_name(kind, "isdtype")


def can_cast(from_: Any, to: Any, /) -> bool:
    """Return whether a dtype, or an array's, may be cast to another without loss."""
    source = from_.dtype if isinstance(from_, AbstractTensor | np.ndarray) else from_
    return dtypes.can_cast(dtype_name(source, "can_cast"), dtype_name(to, "can_cast"), "safe")


def result_type(*arrays_and_dtypes: Any) -> DType:
    """Return the common dtype of arrays, dtypes and Python scalars; raises DTypeError without any."""
    operands = []
    for value in arrays_and_dtypes:
        if type(value) in dtypes.WEAK_DTYPE:
            operands.append((dtypes.weak_dtype(value), True))
        elif isinstance(value, AbstractTensor):
            operands.append((str.__str__(value.dtype), value.weak))
        else:
            dtype = value.dtype if isinstance(value, np.ndarray | np.generic) else value
            operands.append((dtype_name(dtype, "result_type"), False))
    if not operands:
        raise DTypeError("result_type takes at least one array or dtype")
    return DType(dtypes.result_type(tuple(operands))[0])


@over_tensors
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: str | None = None) -> Any:
    """Return x cast to a dtype, or x itself if `copy` is false and nothing changes."""
    made = x.astype(dtype, copy=copy)
    return made if device in (None, made.device) else made.to_device(device)


class FloatLimits(NamedTuple):
    """The result of finfo; for complex dtypes the limits of the parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any


class IntLimits(NamedTuple):
    """The result of iinfo."""

    bits: int
    max: int
    min: int
    dtype: Any


def _of(type: Any, name: str) -> str:
    return dtype_name(type.dtype if isinstance(type, AbstractTensor | np.ndarray | np.generic) else type, name)


def finfo(type: Any, /) -> FloatLimits:
    """Return the limits of a floating-point dtype, or of an array's dtype."""
    return _float_limits(dtypes.component(_of(type, "finfo")))


@functools.cache
def _float_limits(name: str) -> FloatLimits:
    if dtypes.kind(name) != "float":
        raise DTypeError(f"finfo: {name} is no floating-point dtype; use iinfo")
    dtype = dtypes.numpy_dtype(name)
    if name == "bfloat16":
        import ml_dtypes

        library: Any = ml_dtypes
    else:
        library = np
    found = library.finfo(dtype)
    eps, high, low, smallest = (float(v) for v in (found.eps, found.max, found.min, found.smallest_normal))
    return FloatLimits(8 * dtype.itemsize, eps, high, low, smallest, DType(name))


def iinfo(type: Any, /) -> IntLimits:
    """Return the limits of an integer dtype, or of an array's dtype."""
    return _int_limits(_of(type, "iinfo"))


@functools.cache
def _int_limits(name: str) -> IntLimits:
    if not dtypes.is_integer(name):
        raise DTypeError(f"iinfo: {name} is no integer dtype; use finfo")
    low, high = dtypes.integer_range(name)
    return IntLimits(8 * dtypes.itemsize(name), high, low, DType(name))


class NamespaceInfo:
    """The answers of this namespace to the standard's inspection functions."""

    def capabilities(self) -> dict[str, Any]:
        """Return which optional parts of the standard work outside of fused functions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Return the default device of new arrays."""
        return "cpu"

    def devices(self) -> tuple[str, ...]:
        """Return the devices of the standard's functions; for the GPU see docs/gpu.md."""
        return ("cpu",)

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """Return the default dtypes of Python numbers and of indices."""
        return {"real floating": DType("float64"), "complex floating": DType("complex128"),
                "integral": DType("int64"), "indexing": DType("int64")}

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, DType]:
        """Return the standard's dtypes by name, optionally of a kind or a tuple of kinds."""
        return {n: DType(n) for n in _STANDARD if kind is None or isdtype(n, kind)}


def namespace_info() -> NamespaceInfo:
    """Return the namespace's answers to the standard's inspection functions."""
    return NamespaceInfo()
