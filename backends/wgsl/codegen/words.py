"""The kernel arguments of a shader: one uniform buffer of 32-bit words.

The first four words are (0, 0, elements of a row, grid points); the zeros are those of `library.fences`. Then come
the kernel arguments of the form (`jitfuse.ir.kernels.form`), each as its low and high half. An address is replaced by
the byte offset into the operand's buffer or, for inline operands, by the value. Last come the `host_values`.
"""
from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Final

from jitfuse.backends.wgsl.codegen.types import REGISTER
from jitfuse.ir.kernels.form import KernelForm

HEADER: Final = 4


def pack(form: KernelForm, sizes: Sequence[int], words: Sequence[int]) -> bytes:
    """Return the bytes of the buffer; `words`: all of the form, then host values; `sizes`: the extents of all axes."""
    grid, inner = len(form.grid), len(form.inner)
    header = (0, 0, math.prod(sizes[grid : grid + inner]), math.prod(sizes[:grid]))
    data = struct.pack("<4I", *header) + b"".join((w & (2**64 - 1)).to_bytes(8, "little") for w in words)
    return data.ljust(16 * vectors(len(words)), b"\0")


def vectors(count: int) -> int:
    """Return how many vectors of four words hold the header and so many words of 64 bits."""
    return -(-(HEADER + 2 * count) // 4)


class WordTable:
    """Expressions for the words of a form."""

    def __init__(self, form: KernelForm) -> None:
        self._form = form

    def word(self, k: int, *, high: bool = False) -> str:
        """Return the low or high half of a word of the form."""
        at = HEADER + 2 * k + high
        return f"words[{at // 4}].{'xyzw'[at % 4]}"

    def param(self, k: int) -> int:
        """Return the number of the word with the k-th scalar parameter."""
        return self._form.words.param(k)

    def extent(self, axis: int) -> str:
        """Return the extent of an axis."""
        static = self._form.axes[axis].extent
        return f"{static}u" if static is not None else self.word(self._form.words.size(axis))

    def scalar(self, k: int, dtype: str, type_: str) -> str:
        """Return word k as a scalar of a dtype, held in a register type."""
        low, high = self.word(k), self.word(k, high=True)
        if dtype == "bool":
            return f"(({low} & 0xffu) != 0u)"
        if type_ == "vec2<u32>":
            return f"vec2<u32>({low}, {high})"
        if type_ == "u32":
            return low
        if type_ in ("i32", "f32"):
            return f"bitcast<{type_}>({low})"
        return f"bitcast<{REGISTER[dtype]}>((u64({high}) << 32u) | u64({low}))"
