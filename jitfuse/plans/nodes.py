"""SSA nodes of a kernel under construction, before they are numbered.

Owns: `Node`, its level (uniform, point or inner) and a rough cost. Does not own what nodes are made for.
"""
from __future__ import annotations

from typing import Any, Final

UNIFORM: Final = 0
POINT: Final = 1
INNER: Final = 2

_COSTS: Final = {
    "exp": 12, "log": 14, "sin": 14, "cos": 14, "tanh": 16, "erf": 16, "expm1": 14, "log1p": 16, "power": 40,
    "exp2": 12, "log2": 14, "log10": 14, "erfc": 24, "logaddexp": 40, "logaddexp2": 40, "sigmoid": 16, "silu": 16,
    "gelu": 24, "gelu_tanh": 18, "softplus": 30,
    "xlogy": 18, "logit": 24, "sinc": 24,
    "tan": 24, "asin": 18, "acos": 18, "atan": 20, "atan2": 26, "sinh": 18, "cosh": 18, "asinh": 34, "acosh": 34,
    "atanh": 20, "hypot": 20, "cbrt": 20,
    "divide": 6, "sqrt": 6, "floor_divide": 12, "remainder": 12, "random": 30, "scan": 16,
    "gather": 6, "take_along_axis": 6, "real": 0, "imag": 0, "make_complex": 0,
    "param": 0, "const": 0, "load": 1, "kept": 1,
}


_MOST: Final = 10_000


class Node:
    """One operation of a kernel's body; identity is what makes two nodes equal."""

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
        # the cost of computing this again at an inner point: inner work only, capped to stay small
        cost = _COSTS.get(op, 1)
        for arg in args:
            if arg.level == level:
                cost += arg.cost
        self.cost: int = cost if cost < _MOST else _MOST
        self.number = -1

    def __repr__(self) -> str:
        return f"<{self.op} {self.dtype} {self.imm}>"


class Operand:
    """A memory operand under construction: which buffer, how it is walked, its direction."""

    __slots__ = ("access", "buffer", "dtype", "index", "out")

    def __init__(self, buffer: Any, dtype: str, access: Any, out: bool, index: int) -> None:
        self.buffer = buffer
        self.dtype = dtype
        self.access = access
        self.out = out
        self.index = index


def operation_cost(op: str) -> int:
    """Return the rough cost of one operator in units of a simple vector instruction."""
    return _COSTS.get(op, 1)
