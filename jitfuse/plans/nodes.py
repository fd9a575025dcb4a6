"""SSA nodes of a kernel under construction, before they are numbered.

Owns `Node`, its level (uniform, point or inner) and a rough cost. Does not own how nodes are used.
"""
from __future__ import annotations

from typing import Any, Final

from jitfuse.ir.operators.op import get

UNIFORM: Final = 0
POINT: Final = 1
INNER: Final = 2


class _Costs(dict[str, int]):
    """Costs by operation: those of operators come from their rows, and are looked up once."""

    def __missing__(self, op: str) -> int:
        row = get(op)
        cost = self[op] = 1 if row is None or row.cost is None else row.cost
        return cost


_COSTS: Final = _Costs({"random": 30, "scan": 16, "param": 0, "const": 0, "load": 1, "kept": 1})
"""Costs of the operations that only kernels have."""
_MOST: Final = 10_000


class Node:
    """One operation of a kernel's body; nodes are equal only if they are identical."""

    __slots__ = ("args", "cost", "dtype", "imm", "level", "number", "op")

    def __init__(self, op: str, dtype: str, args: tuple[Node, ...] = (), imm: Any = None, level: int = UNIFORM) -> None:
        self.op = op
        self.dtype = dtype
        self.args = args
        self.imm = imm
        for arg in args:
            if arg.level > level:
                level = arg.level
        self.level: int = level
        # the cost of recomputing this at an inner point: inner work only, capped to stay small
        cost = _COSTS[op]
        for arg in args:
            if arg.level == level:
                cost += arg.cost
        self.cost: int = cost if cost < _MOST else _MOST
        self.number = -1

    def __repr__(self) -> str:
        return f"<{self.op} {self.dtype} {self.imm}>"


class OperandDraft:
    """A memory operand under construction: its buffer, how it is walked, its direction, the elements of its cells."""

    __slots__ = ("access", "buffer", "cell", "dtype", "index", "out")

    def __init__(self, buffer: Any, dtype: str, access: Any, out: bool, index: int, cell: int) -> None:
        self.buffer = buffer
        self.dtype = dtype
        self.access = access
        self.out = out
        self.index = index
        self.cell = cell


def operation_cost(op: str) -> int:
    """Return the rough cost of one operator in units of a simple vector instruction."""
    return _COSTS[op]
