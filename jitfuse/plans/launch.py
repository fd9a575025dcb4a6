"""Launches: a kernel form with everything that belongs to one shape.

Owns the kernel arguments after the operands' addresses (`jitfuse.ir.kernels.launch_arguments`). Does not own forms.
"""
from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import is_narrow, itemsize, numpy_dtype
from jitfuse.ir.kernels.blocking import block_counts
from jitfuse.ir.kernels.form import KernelForm

STREAM_BYTES: Final = 1 << 24
"""A launch that moves at least this much stores past the caches."""


class Check(NamedTuple):
    """An index that a kernel checks: its axis, the extent, the user's line."""

    axis: int
    extent: int
    source: str | None


class Launch(NamedTuple):
    """One kernel over one shape: the form, the buffers with byte offsets, and the kernel arguments after the addresses.

    `checks` says what the kernel's `bounded` instructions index, by their numbers. `batched`: it runs at the same time
    as the launch before it, which has the same form (`jitfuse.plans.order`).
    """

    form: KernelForm
    buffers: tuple[tuple[Any, int], ...]
    words: tuple[int, ...]
    sizes: tuple[int, ...]
    bytes_moved: int
    checks: tuple[Check, ...] = ()
    batched: bool = False

    @property
    def empty(self) -> bool:
        """Whether there is no grid point: nothing is computed, and no kernel is needed."""
        return 0 in self.sizes[: len(self.form.grid)]


def make_launch(
    form: KernelForm, buffers: Sequence[tuple[Any, int]], strides: Sequence[Sequence[int]],
    sizes: tuple[int, ...], params: Sequence[tuple[str, Any]], checks: Sequence[Check] = (),
) -> Launch:
    """Return the launch of a form; `strides` has one row of byte strides for each operand, one for each axis."""
    moved = bytes_moved(form, sizes)
    words = form.words.shape(strides, sizes) + [bits(dtype, value) for dtype, value in params]
    if form.contracted:
        words += block_counts(form, sizes)
    words.append(int(moved >= STREAM_BYTES))
    return Launch(form, tuple(buffers), tuple(words), sizes, moved, tuple(checks))


def bytes_moved(form: KernelForm, sizes: Sequence[int]) -> int:
    """Return the bytes that a launch over these extents reads and writes, each once."""
    total = 0
    for o in form.operands:
        total += itemsize(o.dtype) * o.cell * math.prod(n for n, c in zip(sizes, o.strides, strict=False) if c != "0")
    return total


def bits(dtype: str, value: Any) -> int:
    """Return a scalar as a signed 64-bit kernel argument, with its bits in the low bytes."""
    if dtype == "float64":
        raw = struct.pack("<d", value)
    elif dtype == "float32":
        raw = _float32(value)
    elif is_narrow(dtype):
        raw = np.asarray(value).astype(numpy_dtype(dtype)).tobytes()
        return int.from_bytes(raw, "little")
    else:
        word = int(value) & 0xFFFFFFFFFFFFFFFF
        return word - (1 << 64) if word >= 1 << 63 else word
    return int.from_bytes(raw, "little", signed=True)


def _float32(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))
