"""LLVM's values and types as text: references to values, and names of types.

Types are LLVM's own strings (``"<16 x float>"``, ``"i64"``, ``"ptr"``). Does not own code
(`jitfuse.backends.llvm.text.builder`).
"""
from __future__ import annotations

import struct
from functools import cache

from jitfuse.base.records import NamedTuple


class Value(NamedTuple):
    """An SSA value or constant: how LLVM text refers to it (``%t12``, ``42``) and its type."""

    ref: str
    type: str


def vector(element: str, lanes: int) -> str:
    """Return the vector type of `lanes` elements; one lane is the scalar type itself."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def element(type_: str) -> str:
    """Return the element type of a vector type, or the type itself."""
    return type_[type_.index(" x ") + 3 : -1] if type_[0] == "<" else type_


def lanes(type_: str) -> int:
    """Return the number of lanes of a type: 1 for a scalar."""
    return int(type_[1 : type_.index(" x ")]) if type_[0] == "<" else 1


def with_element(type_: str, new: str) -> str:
    """Return the type of the same shape as `type_` with another element type."""
    return vector(new, lanes(type_))


@cache
def mangled(type_: str) -> str:
    """Return a type as it is spelled in the names of LLVM's intrinsics."""
    base = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}
    e = element(type_)
    e = base.get(e, e)
    return e if type_[0] != "<" else f"v{lanes(type_)}{e}"


def float_literal(type_: str, value: float) -> str:
    """Return LLVM's exact hexadecimal spelling of a float or double constant."""
    if type_ == "float":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    elif type_ != "double":
        raise ValueError(f"no float literal of type {type_}")
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
