"""Fourier transforms of the Python array API standard: `jf.fft.rfft(x)`.

Inside a fused function the transforms are library steps, NumPy's pocketfft, and the rest fuses around them. Owns the
standard's names and parameters; the implementation is in `jitfuse.tracing.numpy_like.fft`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitfuse.array_api import creation
from jitfuse.array_api.dispatch import over_tensors
from jitfuse.array_api.entry_points import entry_point
from jitfuse.errors import ArgumentError
from jitfuse.tracing.numpy_like import fft as numpy_fft
from jitfuse.tracing.record.recorder import active

Tensor = Any

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]


def __dir__() -> list[str]:
    return __all__



def _along_one(name: str) -> Callable[..., Tensor]:
    carried_out = getattr(numpy_fft, name)

    def function(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
        return carried_out(x, n, axis, norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = carried_out.__doc__
    return over_tensors(function)


def _along_several(name: str) -> Callable[..., Tensor]:
    carried_out = getattr(numpy_fft, name)

    def function(x: Tensor, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
        return carried_out(x, s, axes, norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = carried_out.__doc__
    return over_tensors(function)


fft, ifft = _along_one("fft"), _along_one("ifft")
rfft, irfft = _along_one("rfft"), _along_one("irfft")
hfft, ihfft = _along_one("hfft"), _along_one("ihfft")
fftn, ifftn = _along_several("fftn"), _along_several("ifftn")
rfftn, irfftn = _along_several("rfftn"), _along_several("irfftn")


@over_tensors
def fftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """Move frequency zero to the middle."""
    return numpy_fft.fftshift(x, axes)


@over_tensors
def ifftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """Move the middle to the front: the inverse of fftshift."""
    return numpy_fft.ifftshift(x, axes)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: str | None = None) -> Tensor:
    """Return the frequencies of fft's points, `d` apart in time: 0, positive ones, negative ones."""
    half = (n - 1) // 2 + 1
    return _frequencies(n, d, dtype, device, lambda: np.fft.fftfreq(n, d), lambda k: k - (k >= half) * n, n)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: str | None = None) -> Tensor:
    """Return the frequencies of rfft's points, `d` apart in time."""
    return _frequencies(n, d, dtype, device, lambda: np.fft.rfftfreq(n, d), lambda k: k, n // 2 + 1)


def _frequencies(n: int, d: float, dtype: Any, device: str | None, eager: Callable[[], Any],
                 traced: Callable[[Tensor], Tensor], count: int) -> Tensor:
    if n < 1:
        raise ArgumentError(f"the frequencies of {n} points; there must be at least one")
    if active() is None:
        return creation.asarray(eager(), dtype, device=device)
    result = traced(creation.arange(count, dtype="int64", device=device)) * (1.0 / (n * d))
    return result if dtype is None else result.astype(dtype, copy=False)


globals().update({name: entry_point(f"fft.{name}", globals()[name]) for name in __all__})
