"""What the tests of native trees share: calls until the ways are known, then calls that run no Python."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from oracle import same

import jitfuse as jf


def misses(fused: Any) -> int:
    """Return how many calls have come to Python since the first table."""
    misses: int = fused.parts.entries.misses
    return misses


def native(function: Callable[..., Any], *calls: tuple[Any, ...], known: int = 8) -> Any:
    """Call a function until its ways are known, then compare native calls with plain ones."""
    fused = jf.fuse(function)
    for _ in range(known):
        for args in calls:
            fused(*map(copied, args))
    before = misses(fused)
    assert before >= 0, "nothing is native"
    for args in calls:
        given, plain = ([copied(a) for a in args] for _ in range(2))
        same(fused(*given), function(*plain))
        same(given, plain)
    assert misses(fused) == before, "a known path has run Python"
    return fused


def copied(value: Any) -> Any:
    """Return a copy of an array, with its strides."""
    if not isinstance(value, np.ndarray):
        return value
    whole = value if value.base is None else value.base
    memory = whole.copy(order="K")
    offset = value.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return np.ndarray(value.shape, value.dtype, memory, offset, value.strides)


def halving(x, tol):
    while np.abs(x).max() > tol:
        x = x * 0.5 + 0.0
    return x
