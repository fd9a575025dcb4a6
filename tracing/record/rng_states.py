"""The states of NumPy's generators that a call brings to its trace. Owns which arrays are states, and which is missing.

Does not own draws from them (`jitfuse.tracing.numpy_like.generators`) or how they come and go
(`jitfuse.function.rng_state`).
"""
from __future__ import annotations

from collections.abc import Collection


class RngStates:
    """The ids of the arrays that are states of generators; `misses_global` is what the trace reports."""

    __slots__ = ("_arrays", "misses_global")

    def __init__(self, arrays: Collection[int] = ()) -> None:
        self._arrays = arrays
        self.misses_global = False
        """Whether the function draws from NumPy's global RNG, whose state the call has not brought."""

    def __bool__(self) -> bool:
        return bool(self._arrays)

    def __contains__(self, array: int) -> bool:
        return array in self._arrays
