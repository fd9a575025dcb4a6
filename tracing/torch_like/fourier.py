"""torch.fft over traced tensors, as library steps.

Owns its entries in `jitfuse.tracing.torch_like.table`: NumPy's functions with torch's parameter names.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from jitfuse.errors import DTypeError, ShapeError, UnsupportedError
from jitfuse.tracing.numpy_like import arrangements
from jitfuse.tracing.numpy_like import fft as fft  # registers them
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import FUNCTIONS
from jitfuse.tracing.torch_like.promotion import floating, numbers, strong
from jitfuse.tracing.torch_like.table import FUNCTIONS as FUNCTIONS_OF_TORCH
from jitfuse.tracing.torch_like.table import implements
from jitfuse.tracing.torch_like.tensor import wrap


def _along_one(name: str) -> None:
    @implements(f"fft.{name}")
    def function(input: Any, n: Any = None, dim: Any = -1, norm: Any = None) -> Any:
        return wrap(FUNCTIONS[getattr(np.fft, name)](floating(input), numbers(n), int(numbers(dim)), norm))


def _along_many(name: str) -> None:
    default = (-2, -1) if name.endswith("2") else None

    @implements(f"fft.{name}")
    def function(input: Any, s: Any = None, dim: Any = default, norm: Any = None) -> Any:
        return wrap(FUNCTIONS[getattr(np.fft, name)](floating(input), numbers(s), numbers(dim), norm))


@implements("stft")
def stft(input: Any, n_fft: Any, hop_length: Any = None, win_length: Any = None, window: Any = None,
         center: bool = True, pad_mode: str = "reflect", normalized: bool = False, onesided: Any = None,
         return_complex: Any = None, align_to_window: Any = None) -> Any:
    """Return the spectra of overlapping frames of signals; frames are the last axis of the result."""
    x, size = strong(input), int(numbers(n_fft))
    if str(x.dtype) not in ("float32", "float64"):
        raise DTypeError(f"stft: expected a tensor of float32 or float64, got {x.dtype}, at {user_line()}")
    if not return_complex or onesided is False or align_to_window or x.ndim not in (1, 2):
        raise UnsupportedError(f"stft of {x.shape} without return_complex=True, with onesided=False, or with "
                               f"align_to_window is not available, at {user_line()}")
    hop = size // 4 if hop_length is None else int(numbers(hop_length))
    width = size if win_length is None else int(numbers(win_length))
    signals = x if x.ndim == 2 else x.reshape((1, x.shape[0]))
    if center:
        signals = FUNCTIONS_OF_TORCH["pad"](wrap(signals), (size // 2, size // 2), pad_mode).tensor
    if hop < 1 or not 0 < width <= size <= signals.shape[1]:
        raise ShapeError(f"stft: frames of {size} with hop {hop} and a window of {width} do not fit signals of "
                         f"{x.shape}, at {user_line()}")
    parts = signals.call("windows", sizes=(size,), steps=(hop,), dilations=(1,)).swapaxes(-1, -2)
    left = (size - width) // 2
    if window is not None:
        weights = strong(window)
        if weights.shape != (width,) or weights.dtype != x.dtype:
            raise ShapeError(f"stft: a window of {weights.dtype} {weights.shape} for {x.dtype} and {width}, at "
                             f"{user_line()}")
        parts = parts * arrangements.pad(weights, (left, size - width - left))
    elif width < size:
        parts = parts * ((np.arange(size) >= left) & (np.arange(size) < left + width)).astype(str(x.dtype))
    made = FUNCTIONS[np.fft.rfft](parts, size, -1, "ortho" if normalized else None).swapaxes(-1, -2)
    return wrap(made if x.ndim == 2 else made[0])


for _name in ("fft", "ifft", "rfft", "irfft"):
    _along_one(_name)
for _name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"):
    _along_many(_name)
