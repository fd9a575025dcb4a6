"""The CPU's vector math as WGSL: the same functions of `jitfuse.backends.llvm.math`, written for single numbers.

They compute in float64, for adapters that have it: all functions of float64, and those of float32 that
`jitfuse.backends.wgsl.library` lacks. Within 1 ulp, as on the CPU without fused multiply-add. Owns: which functions
there are and their names. Does not own any mathematics.
"""
from __future__ import annotations

from functools import cache
from typing import Any

from jitfuse.backends.llvm.math import FUNCTIONS, emit_scalar
from jitfuse.backends.llvm.text.builder import Value
from jitfuse.backends.wgsl.math.function import WgslFunction
from jitfuse.ir.operators import ops

_OWN = frozenset({"sqrt", "floor", "ceil", "trunc", "rint", "fmod", "remainder", "floor_divide"})
SHARED = FUNCTIONS - _OWN
"""Operators whose functions come from the CPU's."""


def name_of(op: str, type_: str) -> str:
    """Return the function of an operator on f32 or f64."""
    return f"jf_shared_{op}_{type_}"


@cache
def text_of(name: str) -> str | None:
    """Return the text of a function by its name; None for other names."""
    if not name.startswith("jf_shared_"):
        return None
    op, _, type_ = name.removeprefix("jf_shared_").rpartition("_")
    if op not in SHARED or type_ not in ("f32", "f64"):
        return None
    f: Any = WgslFunction()
    llvm_type = "float" if type_ == "f32" else "double"
    row = ops.get(op)
    assert row is not None, op
    args = [Value(f"x{k}", llvm_type) for k in range(row.arity)]
    result = emit_scalar(f, op, args)
    parameters = ", ".join(f"x{k}: {type_}" for k in range(row.arity))
    return f"fn {name}({parameters}) -> {type_} {{\n{f.text()}\n  return {result.ref};\n}}"
