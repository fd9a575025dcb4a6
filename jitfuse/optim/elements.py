"""What the steps of optimisers are written with: numbers in a parameter's dtype, decay, complex numbers as pairs."""
from __future__ import annotations

from typing import Any

import numpy as np

from jitfuse.dtypes import kind

_np: Any = np  # its type hints omit traced and eager arrays


def like(p: Any, number: Any) -> Any:
    """Return a number of float64 in a parameter's dtype: it is rounded once."""
    return number.astype(str(p.dtype))


def real_view(x: Any) -> Any:
    """Return a complex array as a real one with a last axis of two, as torch's optimisers see it; others as is."""
    return _np.stack([_np.real(x), _np.imag(x)], axis=-1) if kind(str(x.dtype)) == "complex" else x


def complex_view(x: Any, as_in: Any) -> Any:
    """Return what `real_view` makes real as a complex array again, if another one is complex."""
    return x[..., 0] + 1j * x[..., 1] if kind(str(as_in.dtype)) == "complex" else x


def decayed(p: Any, g: Any, by: Any) -> Any:
    """Return the gradient, its sign by `maximize`, with the parameter's share by `weight_decay`."""
    return (-g if by.maximize else g) + by.weight_decay * p
