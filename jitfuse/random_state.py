"""The RNG state of the process: seed and counter of the numbers that differ in every call.

Numbers come from Philox-4x32-10, keyed by the seed, counted by call and by the position of the RNG call in the
function, so that they depend neither on threads nor on the backend. A fused call with RNG calls advances the counter
by one. Imported with every first call: what draws the numbers is in `jitfuse.random`.
"""
from __future__ import annotations

import os
from typing import Any, Final

import numpy as np

from jitfuse.ir.program import RANDOM_STATE

_state: Final = np.array([int.from_bytes(os.urandom(7), "little"), 0], "int64")


def seed(value: int) -> None:
    """Restart the random sequence.

    Args:
        value: any int; only its lower 64 bits count.

    Returns:
        None.

    Raises:
        TypeError, ValueError: what is no integer.

    Example:
        >>> jf.random.seed(0)
        >>> jf.random.state()
        array([0, 0])
    """
    _state[:] = [lower_64_bits(int(value)), 0]


def lower_64_bits(value: int) -> int:
    """Return the int64 with the lower 64 bits of an int."""
    return (value + 2**63) % 2**64 - 2**63


def state() -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the state itself: seed and call counter.

    Returns:
        A NumPy array, int64[2]. What is written into it is where the sequence goes on.

    Example:
        >>> jf.random.seed(3)
        >>> saved = jf.random.state().copy()
        >>> first = jf.random.uniform(2)
        >>> jf.random.state()[:] = saved
        >>> bool((jf.random.uniform(2) == first).all())
        True
    """
    return _state


def state_feeds() -> dict[str, np.ndarray[Any, Any]]:
    """Return the RNG states that calls of fused functions read and advance, by the names of their feeds."""
    return {RANDOM_STATE: _state}
