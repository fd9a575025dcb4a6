"""Find what the values of a kernel form refer to: the operands of loads and stores, and the values behind a value.

Owns the reading of immediates and the walk back from values. Does not own the form (`jitfuse.ir.kernels.form`), or the
conclusions of a backend.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import kind
from jitfuse.ir.kernels.form import KernelForm
from jitfuse.ir.kernels.stages import Instr

CHECKED: Final = frozenset({"require", "bounded"})
"""Operators that report invalid arguments."""


class AccessImmediate(NamedTuple):
    """The immediate of a load or store: the operand, which optional arguments follow, which component is loaded."""

    operand: int
    offset: bool
    mask: bool
    part: int | None = None


def access(instr: Instr) -> AccessImmediate:
    """Return what a load or store refers to."""
    imm: Any = instr.imm
    return AccessImmediate(int(imm[0]), bool(imm[1]), bool(imm[2]), imm[3] if len(imm) > 3 else None)


def may_report(form: KernelForm) -> bool:
    """Return whether a kernel may end the call by a status: some instruction checks its arguments."""
    instructions = [i for _, body, _ in form.numbered for _, i in body]
    return any(i.op in CHECKED or (i.op == "power" and kind(i.dtype) == "int") for i in instructions)


def needed(form: KernelForm, values: Iterable[int]) -> frozenset[int]:
    """Return the numbers of these values and of all values behind them, through reductions too."""
    found: set[int] = set()
    stack = list(values)
    while stack:
        number = stack.pop()
        if number not in found:
            found.add(number)
            made = form.instructions[number]
            stack += made.args if isinstance(made, Instr) else made.values
    return frozenset(found)
