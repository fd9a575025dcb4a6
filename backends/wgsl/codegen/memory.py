"""Addresses, loads and stores.

Addresses are bytes from the start of a buffer, in 32 bits. Packed dtypes are shifted out of their word, and stored
by two atomic operations, because invocations share words; 64-bit integers are pairs of words.
"""
from __future__ import annotations

from jitfuse.backends.wgsl.codegen.casts import converted
from jitfuse.backends.wgsl.codegen.types import REGISTER, is_packed
from jitfuse.dtypes import itemsize, kind

_SHIFT = {4: "2u", 8: "3u"}


def load(buffer: str, address: str, dtype: str, type_: str) -> str:
    """Return the element at a byte address; 64-bit integers in the register type `type_`, which may be `PAIR`."""
    if is_packed(dtype):
        return _unpacked(f"({buffer}[{address} >> 2u] >> (({address} & 3u) * 8u))", dtype)
    element = f"{buffer}[{address} >> {_SHIFT[itemsize(dtype)]}]"
    if REGISTER[dtype] not in ("i64", "u64"):
        return element
    if type_ == "i32":
        return f"bitcast<i32>({element}.x)"
    return converted(element, "vec2<u32>", type_)


def _unpacked(word: str, dtype: str) -> str:
    if dtype == "bool":
        return f"(({word} & 0xffu) != 0u)"
    signed = f"bitcast<i32>({word})" if kind(dtype) == "int" else word
    return f"extractBits({signed}, 0u, {8 * itemsize(dtype)}u)"


def store(buffer: str, address: str, dtype: str, value: str, type_: str) -> list[str]:
    """Return the statements that put a value at a byte address."""
    if is_packed(dtype):
        return _packed_store(buffer, address, dtype, value)
    if REGISTER[dtype] in ("i64", "u64"):
        value = converted(value, type_, "vec2<u32>")
    return [f"{buffer}[{address} >> {_SHIFT[itemsize(dtype)]}] = {value};"]


def _packed_store(buffer: str, address: str, dtype: str, value: str) -> list[str]:
    full = (1 << (8 * itemsize(dtype))) - 1
    bits = f"select(0u, 1u, {value})" if dtype == "bool" else f"(bitcast<u32>({value}) & {full:#x}u)"
    word, shift = f"{buffer}[{address} >> 2u]", f"(({address} & 3u) * 8u)"
    return [
        f"atomicAnd(&{word}, ~({full:#x}u << {shift}));",
        f"atomicOr(&{word}, {bits} << {shift});",
    ]
