"""The arguments of each opcode: the one table that the verifier and JSON read."""
from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, TypeGuard

from jitfuse.factors.ir.schema import AxisType, Instruction, OpCode


class Kind(Enum):
    """What an argument holds; the value says it in words."""

    INDEX = "a number from 0 on"
    REGISTER = "a register: a number from 0 on"
    REGISTERS = "a tuple of registers, one at least"
    SLOT = "the key of a slot: a tuple of strings and integers, one at least"
    KEYS = "a tuple of the keys of axes, each once"


ARGUMENTS: Final[Mapping[OpCode, Mapping[str, Kind]]] = {
    OpCode.UNIT: {},
    OpCode.LOAD_FACTOR: {"factor_id": Kind.INDEX},
    OpCode.LOAD_SELECTOR: {"selector_id": Kind.INDEX},
    OpCode.LOAD_SLOT: {"slot": Kind.SLOT},
    OpCode.STORE_SLOT: {"slot": Kind.SLOT, "src": Kind.REGISTER},
    OpCode.CONTRACT: {"inputs": Kind.REGISTERS},
    OpCode.ELIMINATE: {"src": Kind.REGISTER, "keep_keys": Kind.KEYS},
    OpCode.NORMALIZE: {"src": Kind.REGISTER, "scale": Kind.SLOT},
    OpCode.FREE: {"srcs": Kind.REGISTERS},
}
"""Every argument is required, and there are no others."""
NO_RESULT: Final = frozenset({OpCode.STORE_SLOT, OpCode.FREE})
"""These have neither `dst` nor `spec`; the others have both."""
_WRITTEN: Final = {OpCode.STORE_SLOT: "slot", OpCode.NORMALIZE: "scale"}


def fits(kind: Kind, value: Any) -> bool:
    """Whether an argument may have this value."""
    if kind in (Kind.INDEX, Kind.REGISTER):
        return is_count(value)
    if type(value) is not tuple:
        return False
    if kind is Kind.KEYS:
        return all(map(is_axis_key, value)) and len(set(value)) == len(value)
    if kind is Kind.SLOT:
        return bool(value) and all(type(part) in (str, int) for part in value)
    return bool(value) and all(map(is_count, value))


def written_slot(instruction: Instruction) -> Any:
    """Return the key of the slot that an instruction writes: STORE_SLOT its own, NORMALIZE its divisor's."""
    name = _WRITTEN.get(instruction.op)
    return None if name is None else instruction.args.get(name)


def is_count(value: Any) -> TypeGuard[int]:
    """Whether a value is an integer from 0 on, as registers and the ids of axes are."""
    return type(value) is int and value >= 0


def is_axis_key(value: Any) -> bool:
    """Whether a value is an `AxisKey`."""
    return type(value) is tuple and len(value) == 2 and type(value[0]) is AxisType and is_count(value[1])
