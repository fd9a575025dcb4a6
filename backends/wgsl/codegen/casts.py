"""Casts between dtypes, and between the types in which one integer may be held."""
from __future__ import annotations

from jitfuse.backends.wgsl.codegen.operators import UnknownOperatorError, constant, wrapped
from jitfuse.backends.wgsl.codegen.types import FLOATS, PAIR
from jitfuse.dtypes import kind


def converted(x: str, source: str, target: str) -> str:
    """Return an integer in another register type: 32-bit values of int64 widened, words of memory joined."""
    if source == target:
        return x
    if source == PAIR:
        return f"jf_pair_to_{target}({x})"
    if target == PAIR:
        return f"jf_{source}_to_pair({x})"
    return f"{target}({x})"


def astype(x: str, source: str, source_type: str, target: str, target_type: str) -> str:
    """Return the values of dtype `source` as dtype `target`, as NumPy casts on x86-64."""
    if target_type == "bool":
        if source_type == "bool":
            return x
        return f"({x} != {constant(0, source_type)})" if source_type not in FLOATS else _nonzero(x, source_type)
    if source_type == "bool":
        return f"select({constant(0, target_type)}, {constant(1, target_type)}, {x})"
    if target_type in FLOATS:
        return x if source_type == target_type else _fenced(f"{target_type}({x})", target_type)
    if source_type in FLOATS:
        return _from_float(x, source_type, target, target_type)
    return wrapped(x if source_type == target_type else f"{target_type}({x})", target)


def _fenced(x: str, type_: str) -> str:
    return f"fence({x})" if type_ == "f32" else f"fence_64({x})"


def _nonzero(x: str, type_: str) -> str:
    if type_ == "f32":
        return f"((bitcast<u32>({x}) & 0x7fffffffu) != 0u)"
    return f"((bitcast<u64>({x}) & 0x7ffffffffffffffflu) != 0lu)"


def _from_float(x: str, source_type: str, target: str, target_type: str) -> str:
    if target_type == "u64":
        raise UnknownOperatorError(f"casting floats to {target} has no WGSL version")
    if kind(target) == "uint" and target != "uint32":
        return wrapped(f"bitcast<u32>(jf_{source_type}_to_i32({x}))", target)
    return wrapped(f"jf_{source_type}_to_{target_type}({x})", target)
