"""LLVM types of the dtypes, in registers and in memory, and the small constants that go with them.

Owns: the mapping alone. Bools are one byte in memory and one bit in registers. 16-bit floats are held as their bits,
an i16, which can be moved and selected; everything else casts them to float32 (`narrow_floats`). Complex dtypes are
pairs in memory; in registers their components are separate batches.
"""
from __future__ import annotations

from typing import Final

from jitfuse.backends.llvm.text.builder import Value, vector
from jitfuse.dtypes import COMPONENT as COMPONENT
from jitfuse.dtypes import KINDS, integer_range, is_integer, is_narrow, itemsize

ITEMSIZE: Final = {d: itemsize(d) for d in KINDS}
KIND: Final = {d: "bits" if is_narrow(d) else k for d, k in KINDS.items()}
REGISTER: Final = {
    "float32": "float", "float64": "double", "bool": "i1", "float16": "i16", "bfloat16": "i16",
    **{d: f"i{8 * itemsize(d)}" for d in KINDS if is_integer(d)},
}
MEMORY: Final = {**REGISTER, "bool": "i8", "complex64": "[2 x float]", "complex128": "[2 x double]"}
SMALLEST: Final = {d: integer_range(d)[0] for d in KINDS if is_integer(d)}
LARGEST: Final = {d: integer_range(d)[1] for d in KINDS if is_integer(d)}


def i64(value: int) -> Value:
    """Return a 64-bit integer constant."""
    return Value(str(value), "i64")


def register_type(dtype: str, lanes: int) -> str:
    """Return the type of `lanes` values of a dtype in registers."""
    return vector(REGISTER[dtype], lanes)


def memory_type(dtype: str, lanes: int) -> str:
    """Return the type of `lanes` adjacent values of a dtype in memory."""
    return vector(MEMORY[dtype], lanes)


def cell_type(dtype: str, cell: int) -> str:
    """Return the type of a cell in memory: `cell` adjacent elements of a dtype."""
    return MEMORY[dtype] if cell == 1 else f"[{cell} x {MEMORY[dtype]}]"


def is_tree(combine: str, dtype: str) -> bool:
    """Return whether the order of a reduction matters, so that a tree defines it: sums and products of floats."""
    return combine in ("sum", "prod") and KIND[dtype] in ("float", "bits")
