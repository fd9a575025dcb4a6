"""WGSL types of the dtypes, in registers and in memory, and the adapter features that they need.

Owns: the mapping alone. Bools, bytes and half words are packed four or two to a word of memory; 64-bit integers
are two words there, low one first.
"""
from __future__ import annotations

from typing import Final

from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import itemsize

REGISTER: Final = {
    "bool": "bool", "int8": "i32", "int16": "i32", "int32": "i32", "uint8": "u32", "uint16": "u32", "uint32": "u32",
    "int64": "i64", "uint64": "u64", "float32": "f32", "float64": "f64",
}
"""The type in which a dtype is computed; dtypes that are missing have no WGSL version."""
PAIR: Final = "vec2<u32>"
"""A 64-bit integer that is only moved, or feeds random numbers, as its low and high word."""

_MEMORY: Final = {"f32": "f32", "i32": "i32", "u32": "u32", "f64": "f64", "i64": PAIR, "u64": PAIR}
_FEATURES: Final = {
    "i64": ("shader-int64",), "u64": ("shader-int64",), "f64": ("shader-f64", "shader-int64"),
}
FLOATS: Final = ("f32", "f64")
SIGNED: Final = ("i32", "i64")


class Facts(NamedTuple):
    """The facts of an adapter that code depends on: its features, and whether its driver rewrites float arithmetic."""

    features: frozenset[str]
    rewrites: bool

    def missing(self, register: str) -> tuple[str, ...]:
        """Return the features that a register type needs and the adapter lacks."""
        return tuple(f for f in _FEATURES.get(register, ()) if f not in self.features)


def is_packed(dtype: str) -> bool:
    """Return whether several elements share a word of memory."""
    return itemsize(dtype) < 4


def memory_type(dtype: str, *, out: bool) -> str:
    """Return the element type of a binding that holds a dtype."""
    if is_packed(dtype):
        return "atomic<u32>" if out else "u32"
    return _MEMORY[REGISTER[dtype]]


def integer_bits(dtype: str) -> int:
    """Return the width of an integer dtype."""
    return 8 * itemsize(dtype)
