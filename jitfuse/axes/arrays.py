"""Which library computes with some arrays, and their layouts."""
from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitfuse.axes.faults import Fault, Place
from jitfuse.axes.layouts import Layout, contiguous
from jitfuse.axes.libraries import Library, NumPyLibrary, torch_library
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.record.device_array import HostArray
from jitfuse.tracing.record.foreign import Foreign

NUMPY: Final = NumPyLibrary()
WRAPPED: Final = NumPyLibrary(lazy=True)
TRACED: Final = NumPyLibrary(lazy=True, proves=False)


def library_of(arrays: Sequence[Any]) -> Library:
    """Return the profile of the arrays' library.

    Raises:
        Fault: a value is no array, or arrays are of two libraries.
    """
    kinds = [_kind(x, k) for k, x in enumerate(arrays)]
    torch = [kind == "torch" for kind in kinds]
    if any(torch) != all(torch):
        raise Fault("mixed_libraries", "some arrays are torch tensors and some are not", help=(
            "Convert them first: torch.from_numpy(x), or x.numpy()."), place=Place("left", torch.index(not torch[0])))
    if any(torch):
        return torch_library(lazy=any(isinstance(x, Foreign) for x in arrays))
    return TRACED if "traced" in kinds else WRAPPED if "wrapped" in kinds else NUMPY


def is_torch(x: Any) -> bool:
    """Tell whether an array is torch's, a traced one too."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _kind(x: Any, number: int) -> str:
    if type(x) is np.ndarray:
        return "numpy"
    if is_torch(x):
        return "torch"
    if isinstance(x, AbstractTensor):
        return "wrapped" if isinstance(x, HostArray) else "traced"
    named = f"{type(x).__module__}.{type(x).__qualname__}"
    raise Fault("unsupported_array", f"argument {number + 1} is a {named}", place=Place("left", number), help=(
        "NumPy arrays, torch tensors and jitfuse arrays are taken; np.asarray(x) makes an array."))


def layout_of(x: Any) -> Layout:
    """Return an array's shape and strides, in bytes for NumPy's: proofs compare strides with each other alone.

    Where torch traces, its sizes are objects of its own, that become integers here: plans hold for one shape.
    """
    if type(x) is np.ndarray:
        return Layout(x.shape, x.strides)
    if isinstance(x, HostArray):
        return layout_of(x.array)
    shape = tuple(map(int, x.shape))
    if isinstance(x, AbstractTensor | Foreign):
        return contiguous(shape)
    return Layout(shape, tuple(map(int, x.stride())))
