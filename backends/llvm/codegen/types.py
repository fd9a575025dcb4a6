"""LLVM types of the dtypes, in registers and in memory, and the small constants that go with them.

Owns: the mapping alone. Bools are one byte in memory and one bit in registers.
"""
from __future__ import annotations

from typing import Final

from jitfuse.backends.llvm.builder import Value, vector

REGISTER: Final = {"float32": "float", "float64": "double", "int32": "i32", "int64": "i64", "bool": "i1"}
MEMORY: Final = {**REGISTER, "bool": "i8"}
ITEMSIZE: Final = {"float32": 4, "float64": 8, "int32": 4, "int64": 8, "bool": 1}
KIND: Final = {"float32": "float", "float64": "float", "int32": "int", "int64": "int", "bool": "bool"}
SMALLEST: Final = {"int32": -(2**31), "int64": -(2**63)}
LARGEST: Final = {"int32": 2**31 - 1, "int64": 2**63 - 1}


def i64(value: int) -> Value:
    """Return a 64-bit integer constant."""
    return Value(str(value), "i64")


def register_type(dtype: str, lanes: int) -> str:
    """Return the type of `lanes` values of a dtype in registers."""
    return vector(REGISTER[dtype], lanes)


def memory_type(dtype: str, lanes: int) -> str:
    """Return the type of `lanes` adjacent values of a dtype in memory."""
    return vector(MEMORY[dtype], lanes)


def is_tree(combine: str, dtype: str) -> bool:
    """Return whether the order of a reduction matters, so that a tree defines it: sums and products of floats."""
    return combine in ("sum", "prod") and KIND[dtype] == "float"
