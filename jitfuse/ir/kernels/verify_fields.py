"""What single instructions of a kernel form may hold: immediates, literals, operators and reductions over dtypes.

Owns the tables of supported fields; everything else is rejected. Does not own where an instruction may stand
(`jitfuse.ir.kernels.verify_stages`).
"""
from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from jitfuse.dtypes import COMPONENT, KINDS, integer_range, is_integer, is_narrow
from jitfuse.errors import JitfuseError
from jitfuse.ir.kernels.stages import POSITIONS, Instr
from jitfuse.ir.operators import ops
from jitfuse.ir.operators.families import FAMILIES
from jitfuse.ir.schema import Meta

REAL: Final = frozenset(KINDS) - COMPONENT.keys()
"""Dtypes of values: a complex operand is read and written in parts."""
_OF_NARROW: Final = frozenset({"where", "nextafter"})
_OF_TRUTH: Final = frozenset({"any", "all"})
_ORDERED: Final = frozenset({"sum", "prod", "min", "max"})


def is_below(value: Any, stop: int) -> bool:
    """Return whether a value is an int, no bool, from 0 to below `stop`."""
    return type(value) is int and 0 <= value < stop


def is_access(imm: Any, operands: int) -> bool:
    """Return whether an immediate is that of a load or store of one of `operands` operands."""
    return (
        type(imm) is tuple and len(imm) in (3, 4) and is_below(imm[0], operands)
        and type(imm[1]) is bool and type(imm[2]) is bool
    )


def access_problem(i: Instr, dtypes: tuple[str, ...]) -> str | None:
    """Return what is wrong with the optional arguments of a load or store."""
    wanted = ("int64",) * i.imm[1] + ("bool",) * i.imm[2]
    return None if dtypes == wanted else f"rule 9: offset and mask are {', '.join(dtypes) or 'not there'}"


def fits(value: Any, dtype: str) -> bool:
    """Return whether a value is a literal of a dtype; 16-bit floats have only the literal 0."""
    if dtype == "bool":
        return type(value) in (bool, int) and value in (0, 1)
    if is_narrow(dtype):
        return type(value) is int and value == 0
    if type(value) is not int:
        return type(value) is float and not is_integer(dtype)
    low, high = integer_range(dtype) if is_integer(dtype) else integer_range("int64")
    return low <= value <= high


def has_combine(combine: str, dtype: str) -> bool:
    """Return whether there is a reduction of this name over a dtype."""
    kind = KINDS.get(dtype, "")
    if combine in _OF_TRUTH:
        return kind == "bool"
    return combine in (*_ORDERED, *POSITIONS) and kind in ("bool", "int", "uint", "float") and not is_narrow(dtype)


@lru_cache(maxsize=4096)
def result_dtype(op: str, dtypes: tuple[str, ...]) -> str | None:
    """Return the dtype of an elementwise operator's result, or None if kernels do not support it over these dtypes."""
    row = ops.get(op) if op in FAMILIES["elementwise"] else None
    if row is None or row.loop is None or row.decompose is not None or row.arity != len(dtypes):
        return None
    if op not in _OF_NARROW and any(map(is_narrow, dtypes)):
        return None
    try:
        loop = row.loop(op, [Meta((), dtype) for dtype in dtypes])
    except JitfuseError:
        return None
    return loop.result if loop.inputs == dtypes else None


def elementwise_problem(i: Instr, dtypes: tuple[str, ...]) -> str | None:
    """Return what is wrong with an instruction that has no rule of its own."""
    if i.imm is None and result_dtype(i.op, dtypes) == i.dtype:
        return None
    return f"rule 8: there is no {i.op!r:.40} of {', '.join(dtypes) or 'nothing'} that gives {i.dtype}"
