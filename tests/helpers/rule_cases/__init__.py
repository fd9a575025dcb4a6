"""Cases of the derivative rules of rows: operands and attributes of a step, by families of rows.

Each module of this folder enters the cases of a family; tests/gradients/test_rules.py imports them all.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from jitfuse.errors import DTypeError
from jitfuse.gradients.rule import rule_of
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta

NAMES = list(ops.names())
RULES = {name: rule_of(name) for name in NAMES}
CONSTANT = [name for name in NAMES if RULES[name].constant]
REFUSED = [name for name in NAMES if RULES[name].reason]
SMOOTH = [name for name in NAMES if name not in CONSTANT and name not in REFUSED]


class Case(NamedTuple):
    """Operands and attributes of a step.

    wanted   the places of the operands by which it is differentiated; None: of all floats and complex numbers
    second   whether second derivatives are compared too
    """

    operands: tuple[Any, ...]
    attrs: Mapping[str, Any] = MappingProxyType({})
    wanted: tuple[int, ...] | None = None
    second: bool = True
    tolerance: float = 2e-7


CASES: dict[str, Callable[[], Iterator[Case]]] = {}
"""The cases of each row: a family's module enters its own."""
_SEED: Final = 177
"""Draws that keep away from kinks and poles."""


def uniform(low: float, high: float, shape: tuple[int, ...] = (3, 4), seed: int = 0) -> Any:
    return np.random.default_rng(_SEED + seed).uniform(low, high, shape)


def both(low: float, high: float, shape: tuple[int, ...] = (3, 4), seed: int = 0) -> Any:
    return uniform(low, high, shape, seed) + 1j * uniform(-1, 1, shape, seed + 1)


def takes_complex(name: str, arity: int, attrs: dict[str, Any]) -> bool:
    row = ops.get(name)
    assert row is not None
    try:
        row.result_meta([Meta((3, 4), "complex128")] * arity, attrs)
    except DTypeError:
        return False
    return True


def case(*names: str) -> Callable[[Callable[..., Iterator[Case]]], None]:
    """Enter the cases of rows; a function with a parameter gets the row's name."""
    def enter(of: Callable[..., Iterator[Case]]) -> None:
        for name in names:
            CASES[name] = (lambda name=name: of(name)) if inspect.signature(of).parameters else of

    return enter
