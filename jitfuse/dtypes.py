"""The dtypes that programs and kernels speak of, and NumPy's promotion rules (NEP 50) over them.

A dtype is its NumPy name as a string (``"float32"``): hashable, printable, the same in every process.
Weak dtypes belong to Python scalars; they give way to any strong dtype of their kind or a higher one.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Final

import numpy as np

KINDS: Final[dict[str, str]] = {
    "bool": "bool", "int32": "int", "int64": "int", "float32": "float", "float64": "float",
}
"""Every supported dtype and its kind, in promotion order of kinds: bool, int, float."""

_RANK: Final = {"bool": 0, "int": 1, "float": 2}
WEAK_DTYPE: Final[dict[type, str]] = {bool: "bool", int: "int64", float: "float64"}
"""The dtype of a Python scalar's own value. Python bools are strong in NEP 50 as far as results go."""


def kind(dtype: str) -> str:
    """Return ``"bool"``, ``"int"`` or ``"float"``."""
    return KINDS[dtype]


@cache
def itemsize(dtype: str) -> int:
    """Return the size of one element in bytes."""
    return np.dtype(dtype).itemsize


@lru_cache(maxsize=4096)
def result_type(operands: tuple[tuple[str, bool], ...]) -> tuple[str, bool]:
    """Return (dtype, weak) of an operation over (dtype, weak) operands, by NEP 50.

    All weak gives a weak result. A weak operand of a higher kind than every strong one brings NumPy's
    default dtype of its kind: bool with a Python int is int64, int32 with a Python float is float64.
    """
    strong = [d for d, weak in operands if not weak]
    weak_ = [d for d, weak in operands if weak]
    if not strong:
        return max(weak_, key=lambda d: _RANK[KINDS[d]]), True
    result = np.result_type(*strong)
    for d in weak_:
        if _RANK[KINDS[d]] > _RANK[KINDS[result.name]]:
            result = np.dtype(d)
    return result.name, False


def promote(dtypes: Sequence[str]) -> str:
    """Return the common dtype of strong operands."""
    return result_type(tuple((d, False) for d in dtypes))[0]


def can_cast(source: str, target: str, casting: str = "same_kind") -> bool:
    """Return NumPy's answer to whether `source` may be cast to `target`."""
    return bool(np.can_cast(np.dtype(source), np.dtype(target), casting=casting))  # type: ignore[arg-type]
