"""Random numbers that differ in every call of a fused function: `jf.random`.

Numbers come from Philox-4x32-10, keyed by the seed, counted by call and by the position of the RNG call in the
function, so that they depend neither on threads nor on the backend. The RNG state (seed, counter) is one array of
the process; a fused call with RNG calls advances the counter by one.
"""
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse.ir.program import RANDOM_STATE
from jitfuse.ir.semantics import reference
from jitfuse.tracing.record.dtype_name import dtype_name
from jitfuse.tracing.record.recorder import active, require_float
from jitfuse.tracing.tensor.traced import fresh

if TYPE_CHECKING:
    from jitfuse.array_api.signatures import ArrayLike

__all__ = ["seed", "state", "uniform"]


def __dir__() -> list[str]:
    return __all__


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
    bits = int(value) & (2**64 - 1)
    _state[:] = [bits - 2**64 if bits >= 2**63 else bits, 0]


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


def uniform(
    shape: int | Sequence[int] = (), low: ArrayLike = 0.0, high: ArrayLike = 1.0, dtype: Any = "float64"
) -> Any:
    """Return random numbers in [low, high): in a fused function other ones in each call.

    The generator is Philox-4x32-10 (Salmon et al. 2011).

    Args:
        shape: an integer, or a sequence of integers.
        low, high: numbers, or arrays that broadcast to the shape.
        dtype: float32 or float64, with 24 or 53 random bits.

    Returns:
        An array of NumPy of this shape; a traced array in a fused function.

    Raises:
        DTypeError: another dtype.

    Example:
        >>> jf.random.seed(0)
        >>> x = jf.random.uniform((2, 3), low=-1.0)
        >>> x.shape, bool((abs(x) <= 1).all())
        ((2, 3), True)
    """
    name = dtype_name(dtype, "jf.random.uniform")
    require_float(name, "jf.random.uniform")
    extents = tuple(int(n) for n in shape) if isinstance(shape, Sequence) else (int(shape),)
    run = active()
    if run is None:
        drawn = reference.random_uniform(_state, 0, shape=extents, dtype=name)
        _state[1] += 1
    else:
        operands = run.random_operands()
        drawn = fresh(run, run.emit("random_uniform", operands, {"shape": extents, "dtype": name}))
    ends: Any = low, high
    return drawn if ends == (0.0, 1.0) else drawn * (ends[1] - ends[0]) + low
