"""What draws from NumPy's generators compute: NumPy's own draws, with the generator's state as a value.

A generator is its state: 64 bytes, the six words of PCG64 first. A draw takes the state and the parameters, and makes
one array: the state after it, in as many elements as 64 bytes have, then the numbers. So draws are functions like all
others: they may be repeated, shared and left out. Does not own the rows.
"""
from __future__ import annotations

import math
import threading
from typing import Any, Final

import numpy as np

Array = Any
STATE_BYTES: Final = 64
"""The bytes of a state: as many as a cache line, so that the numbers behind it are aligned like any array."""


def places(dtype: str) -> int:
    """Return how many elements of a dtype a state takes."""
    return 64 // np.dtype(dtype).itemsize  # STATE_BYTES, where this is exported


def generator_seed(seed: Array) -> Array:
    """Return the state of `np.random.default_rng(seed)`."""
    return np.array([*state_words(np.random.PCG64(int(seed))), 0, 0], np.uint64)


def generator_draw(state: Array, *parameters: Array, method: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return the state after a draw by a method of np.random.Generator, and the numbers drawn, in one axis.

    `choice` and `sample` draw places below the first parameter, with and without replacement.
    """
    generator = np.random.Generator(np.random.PCG64(0))
    set_state(generator.bit_generator, np.ascontiguousarray(state).view(np.uint64)[:6].tolist())
    numbers = drawn(generator, method, parameters, shape, dtype)
    whole = np.zeros(places(dtype) + math.prod(shape), dtype)
    whole[:places(dtype)].view(np.uint64)[:6] = state_words(generator.bit_generator)
    whole[places(dtype):] = np.reshape(numbers, -1)
    return whole


def state_words(bits: Any) -> list[int]:
    """Return the six words of a PCG64's state."""
    state = bits.state
    at, step = state["state"]["state"], state["state"]["inc"]
    low = (1 << 64) - 1
    return [at & low, at >> 64, step & low, step >> 64, state["has_uint32"], state["uinteger"]]


def set_state(bits: Any, words: list[int]) -> None:
    """Bring a PCG64 into a state."""
    at, step = words[1] << 64 | words[0], words[3] << 64 | words[2]
    bits.state = {"bit_generator": "PCG64", "state": {"state": at, "inc": step},
                  "has_uint32": words[4], "uinteger": words[5]}


def drawn(generator: Any, method: Any, parameters: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return what a generator draws."""
    parameters = [np.asarray(p)[()] for p in parameters]  # NumPy takes floats for whole numbers, but no arrays of them
    if method in ("choice", "sample"):
        count, *p = parameters
        return generator.choice(int(count), shape, method == "choice", *p)
    if method == "permutation":
        return generator.permutation(int(parameters[0]))
    if method in ("multivariate_normal", "dirichlet", "multinomial"):  # each draw is a vector
        return getattr(generator, method)(*parameters, size=shape[:-1])
    if method == "integers_to":
        return generator.integers(*parameters, size=shape, dtype=np.dtype(dtype), endpoint=True)
    if method in ("random", "standard_normal", "standard_exponential", "integers"):
        return getattr(generator, method)(*parameters, size=shape, dtype=np.dtype(dtype))
    return getattr(generator, method)(*parameters, size=shape)


# ---------------------------------------------------------------- in compiled calls
class _Borrowed(threading.local):
    """The generator that a thread's draws borrow, and the words of the state that the last of them has left it in."""

    def __init__(self) -> None:
        self.generator = np.random.Generator(np.random.PCG64(0))
        self.words: list[int] = []


_borrowed = _Borrowed()


def draw_into(whole: Array, state: Array, *parameters: Array, method: str, shape: tuple[int, ...], dtype: str) -> None:
    """Write what `generator_draw` returns into an array; most draws go on from where the last one has ended."""
    generator, words = _borrowed.generator, np.ascontiguousarray(state).view(np.uint64)[:6].tolist()
    if words != _borrowed.words:
        set_state(generator.bit_generator, words)
    _borrowed.words = []
    first = places(dtype)
    numbers, after = whole[first:], whole[:first].view(np.uint64)
    if method in ("random", "standard_normal", "standard_exponential"):
        getattr(generator, method)(out=numbers, dtype=numbers.dtype)
    else:
        numbers[...] = np.reshape(drawn(generator, method, parameters, shape, dtype), -1)
    after[6:] = 0
    after[:6] = _borrowed.words = state_words(generator.bit_generator)
