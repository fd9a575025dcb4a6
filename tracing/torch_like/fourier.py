"""torch.fft over traced tensors, as library steps.

Owns its entries in `jitfuse.tracing.torch_like.table`: NumPy's functions with torch's names of parameters.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from jitfuse.tracing import numpy_fft as numpy_fft  # enters them
from jitfuse.tracing.numpy_functions import FUNCTIONS
from jitfuse.tracing.torch_like.promotion import floating, numbers, strong
from jitfuse.tracing.torch_like.table import implements
from jitfuse.tracing.torch_like.tensor import wrap


def _along_one(name: str) -> None:
    @implements(f"fft.{name}")
    def function(input: Any, n: Any = None, dim: Any = -1, norm: Any = None, *, out: Any = None) -> Any:
        return wrap(FUNCTIONS[getattr(np.fft, name)](floating(input), numbers(n), int(numbers(dim)), norm))

    function.__name__ = name


def _along_many(name: str) -> None:
    default = (-2, -1) if name.endswith("2") else None

    @implements(f"fft.{name}")
    def function(input: Any, s: Any = None, dim: Any = default, norm: Any = None, *, out: Any = None) -> Any:
        return wrap(FUNCTIONS[getattr(np.fft, name)](floating(input), numbers(s), numbers(dim), norm))

    function.__name__ = name


def _shift(name: str) -> None:
    @implements(f"fft.{name}")
    def function(input: Any, dim: Any = None) -> Any:
        return wrap(FUNCTIONS[getattr(np.fft, name)](strong(input), numbers(dim)))

    function.__name__ = name


for _name in ("fft", "ifft", "rfft", "irfft"):
    _along_one(_name)
for _name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"):
    _along_many(_name)
for _name in ("fftshift", "ifftshift"):
    _shift(_name)
