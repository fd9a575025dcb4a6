"""The RNG states that a call passes to its trace.

Owns which arrays are states, and whether the global RNG's is missing. Does not own RNG calls
(`jitfuse.tracing.generators.rng`), or how states are passed in and out (`jitfuse.function.rng_state`).
"""
from __future__ import annotations

from collections.abc import Collection


class RngStates:
    """The ids of the arrays that are states of generators; `misses_global` is what the trace reports."""

    __slots__ = ("_arrays", "misses_global")

    def __init__(self, arrays: Collection[int] = ()) -> None:
        self._arrays = arrays
        self.misses_global = False
        """Whether the function calls NumPy's global RNG, whose state the call has not passed in."""

    def __bool__(self) -> bool:
        return bool(self._arrays)

    def __contains__(self, array: int) -> bool:
        return array in self._arrays
