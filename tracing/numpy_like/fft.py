"""np.fft over traced arrays: transforms as library steps, shifts as rolls.

Owns their entries in the table of `jitfuse.tracing.tensor.function_table`, each with NumPy's name and parameters, and
the number of points of a transform. Imported when one of them is first used.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitfuse.errors import ArgumentError, ShapeError
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.numpy_like import arrangements
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import Tensor, extents, implements, lifted, reject_options, strong


def _points(name: str, n: Any, extent: int) -> int:
    """Return the number of points to transform: `n`, or the extent of the axis."""
    if n is not None:
        shape_rules.reject_bools(n)
        return shape_rules.whole(n)
    return 2 * (extent - 1) if name in ("irfft", "hfft", "irfftn") else extent


def _along_one(name: str, doc: str) -> Callable[..., Tensor]:
    @implements(f"fft.{name}")
    def function(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Tensor:
        reject_options(f"fft.{name}", {"out": out}, "Assign the result.")
        x = strong(lifted(a)[0])
        along = shape_rules.normalize_axis(name, axis, x.ndim)
        return x.call(name, n=_points(name, n, x.shape[along]), axis=along, norm=norm or "backward")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _along_several(name: str, doc: str, default: Any = None) -> Callable[..., Tensor]:
    base = name.replace("2", "n")

    @implements(f"fft.{name}")
    def function(a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None) -> Tensor:
        reject_options(f"fft.{name}", {"out": out}, "Assign the result.")
        x = strong(lifted(a)[0])
        if axes is None:
            count = x.ndim if s is None else len(s)
            if count > x.ndim:
                raise ShapeError(f"np.fft.{name}: {count} axes of an array of {x.ndim}, at {user_line()}")
            axes = range(x.ndim - count, x.ndim)
        along = tuple(shape_rules.normalize_axis(name, k, x.ndim) for k in axes)
        counts = _counts(base, x.shape, s, along)
        return x.call(base, s=counts, axes=along, norm=norm or "backward")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _counts(name: str, shape: tuple[int, ...], s: Any, axes: Sequence[int]) -> tuple[int, ...]:
    given = [None] * len(axes) if s is None else [None if k == -1 else k for k in s]
    if len(given) != len(axes):
        raise ArgumentError(f"np.fft.{name}: {len(given)} extents for {len(axes)} axes, at {user_line()}")
    return tuple(
        _points(name if k == len(axes) - 1 else "fftn", n, shape[axis])
        for k, (n, axis) in enumerate(zip(given, axes, strict=True))
    )


fft = _along_one("fft", "Return the discrete Fourier transform along an axis.")
ifft = _along_one("ifft", "Return the inverse transform along an axis.")
rfft = _along_one("rfft", "Return the non-negative frequencies of real points along an axis.")
irfft = _along_one("irfft", "Return the real points of non-negative frequencies along an axis.")
hfft = _along_one("hfft", "Return the real frequencies of a signal with Hermitian symmetry.")
ihfft = _along_one("ihfft", "Return the inverse of hfft.")
fftn = _along_several("fftn", "Return the discrete Fourier transform along axes.")
ifftn = _along_several("ifftn", "Return the inverse transform along axes.")
rfftn = _along_several("rfftn", "Return the transform of real points along axes.")
irfftn = _along_several("irfftn", "Return the real points of a transform along axes.")
fft2 = _along_several("fft2", "Return the discrete Fourier transform along two axes.", (-2, -1))
ifft2 = _along_several("ifft2", "Return the inverse transform along two axes.", (-2, -1))
rfft2 = _along_several("rfft2", "Return the transform of real points along two axes.", (-2, -1))
irfft2 = _along_several("irfft2", "Return the real points of a transform along two axes.", (-2, -1))


def _shift(x: Any, axes: Any, sign: int) -> Tensor:
    a = strong(lifted(x)[0])
    given = list(axes) if isinstance(axes, np.ndarray) else axes  # rank 0 raises, as in NumPy
    along = tuple(range(a.ndim)) if given is None else extents(given)
    halves = tuple(sign * (a.shape[k] // 2) for k in along)
    return arrangements.roll(a, halves, along) if along else a.as_copy()


@implements("fft.fftshift")
def fftshift(x: Any, axes: Any = None) -> Tensor:
    """Move frequency zero to the middle."""
    return _shift(x, axes, 1)


@implements("fft.ifftshift")
def ifftshift(x: Any, axes: Any = None) -> Tensor:
    """Undo fftshift."""
    return _shift(x, axes, -1)
