"""Fourier transforms along one axis or several: library steps, computed by NumPy's pocketfft."""
from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from jitfuse.dtypes import component, kind
from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.ir.operators.op import LIBRARY, REQUIRED, Op, add
from jitfuse.ir.rules import shape_rules
from jitfuse.ir.schema import Meta

_NORMS: Final = ("backward", "ortho", "forward")
_FROM_REAL: Final = frozenset({"rfft", "ihfft", "rfftn"})
"""Transforms of real numbers only; they return the non-negative half of the frequencies."""
_TO_REAL: Final = frozenset({"irfft", "hfft", "irfftn"})
"""Transforms of such halves to real numbers."""


def _dtype(name: str, m: Meta, axes: int = 1) -> str:
    if name in _FROM_REAL and kind(m.dtype) == "complex":
        raise DTypeError(f"{name} takes real numbers, not {m.dtype}; use {name.lstrip('rih')} for complex ones")
    if m.dtype == "bfloat16":
        raise DTypeError(f"{name} does not take bfloat16; cast first with astype")
    return _result_dtype(name, m.dtype, axes)


def _result_dtype(name: str, dtype: str, axes: int) -> str:
    if name in _TO_REAL and dtype == "float16" and axes == 1:
        return "float16"
    whole = "complex64" if dtype in ("float16", "float32", "complex64") else "complex128"
    return component(whole) if name in _TO_REAL else whole


def _extents(name: str, shape: tuple[int, ...], axes: Sequence[int], counts: Sequence[int]) -> tuple[int, ...]:
    """Return the shape after transforming axes to `counts` points each; raises ShapeError for none."""
    if any(n < 1 for n in counts):
        raise ShapeError(f"{name}: {min(counts)} points to transform; there must be at least one")
    result = list(shape)
    for axis, count in zip(axes, counts, strict=True):
        result[axis] = count
    if name in _FROM_REAL and axes:
        result[axes[-1]] = counts[-1] // 2 + 1
    return tuple(result)


def _check_norm(name: str, norm: Any) -> None:
    if norm not in _NORMS:
        raise ArgumentError(f"{name}: norm is one of {', '.join(_NORMS)}, not {norm!r}")


@cache
def _transform(name: str) -> Any:
    return getattr(importlib.import_module("numpy.fft"), name)


@cache
def _result_of(name: str, dtype: Any, axes: int) -> Any:
    """Return NumPy's dtype object of a result, cached: finding it by name takes as long as a short transform."""
    return np.dtype(_result_dtype(name, dtype.name, axes))


def _reference(name: str) -> Callable[..., Any]:
    def function(x: Any, **attrs: Any) -> Any:
        x = np.asarray(x)
        result = _transform(name)(x, **attrs)
        if not x.size:  # NumPy leaves memory uninitialised if there are no points
            result = np.zeros_like(result)
        return result.astype(_result_of(name, x.dtype, len(attrs.get("axes", (0,)))), copy=False)

    function.__name__ = name
    return function


def _along_one(name: str, doc: str) -> None:
    def infer(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        (m,) = metas
        _check_norm(name, attrs["norm"])
        axis = shape_rules.normalize_axis(name, attrs["axis"], m.ndim)
        return Meta(_extents(name, m.shape, [axis], [attrs["n"]]), _dtype(name, m), m.device)

    attrs = {"n": REQUIRED, "axis": -1, "norm": "backward"}
    add(Op(name, 1, LIBRARY, attrs, infer, _reference(name), doc=doc))


def _along_several(name: str, doc: str) -> None:
    def infer(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        (m,) = metas
        _check_norm(name, attrs["norm"])
        axes = [shape_rules.normalize_axis(name, a, m.ndim) for a in attrs["axes"]]
        if len(axes) != len(attrs["s"]):
            raise ShapeError(f"{name}: {len(attrs['s'])} numbers of points for {len(axes)} axes")
        return Meta(_extents(name, m.shape, axes, attrs["s"]), _dtype(name, m, len(axes)), m.device)

    attrs = {"s": REQUIRED, "axes": REQUIRED, "norm": "backward"}
    add(Op(name, 1, LIBRARY, attrs, infer, _reference(name), doc=doc))


_along_one("fft", "The discrete Fourier transform of n points along an axis.")
_along_one("ifft", "The inverse of fft.")
_along_one("rfft", "The non-negative frequencies of n real points along an axis.")
_along_one("irfft", "The inverse of rfft: n real points.")
_along_one("hfft", "n real frequencies of a signal with Hermitian symmetry.")
_along_one("ihfft", "The inverse of hfft.")
_along_several("fftn", "The discrete Fourier transform along axes, of s points each.")
_along_several("ifftn", "The inverse of fftn.")
_along_several("rfftn", "The Fourier transform of real points along axes; half of the last one's frequencies.")
_along_several("irfftn", "The inverse of rfftn: real points.")
