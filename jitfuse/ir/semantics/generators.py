"""References of RNG calls: NumPy's own random numbers, with the RNG state passed in and out.

The state of a PCG64 generator is 64 bytes, its six words first. That of a legacy RandomState is 2,560 bytes, those of
its Mersenne twister first; the size distinguishes the two. An RNG call takes the state and the parameters. It makes one
array: the new state, in as many elements as its bytes take, then the numbers. So RNG calls are pure functions, which
can be repeated, shared and dropped. Does not own the rows.
"""
from __future__ import annotations

import math
import threading
from functools import cache
from typing import Any, Final

import numpy as np

Array = Any
STATE_BYTES: Final = 64
"""The bytes of a PCG64 state: a cache line, so that the numbers behind it are aligned like any array."""
LEGACY_BYTES: Final = 2560
"""The bytes of a RandomState: 624 words, the position in them, whether a normal number is left, and that number."""


def state_length(dtype: str, legacy: bool = False) -> int:
    """Return how many elements of a dtype a state takes."""
    return (2560 if legacy else 64) // np.dtype(dtype).itemsize  # LEGACY_BYTES, STATE_BYTES where this is exported


class _GlobalRng:
    """NumPy's global RNG; its state is held here during a call that draws from it."""

    def __init__(self) -> None:
        self.words: Array = np.zeros(state_length("uint64", legacy=True), np.uint64)


GLOBAL_RNG: Final = _GlobalRng()


def generator_seed(seed: Array, legacy: bool = False) -> Array:
    """Return the state of `np.random.default_rng(seed)`, or of `np.random.RandomState(seed)`."""
    if legacy:
        return legacy_words(np.random.RandomState(int(seed)))
    return np.array([*state_words(np.random.PCG64(int(seed))), 0, 0], np.uint64)


def generator_draw(state: Array, *parameters: Array, method: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return the state after a method of np.random.Generator or RandomState, then the numbers drawn, in one axis.

    `choice` and `sample` draw positions below the first parameter, with and without replacement.
    """
    state = np.ascontiguousarray(state)
    legacy = state.nbytes == 2560
    first = state_length(dtype, legacy)
    whole = np.zeros(first + math.prod(shape), dtype)
    if legacy:
        random_state = np.random.RandomState(0)
        set_legacy(random_state, state)
        whole[first:] = np.reshape(drawn(random_state, method, parameters, shape, dtype), -1)
        whole[:first].view(np.uint64)[:] = legacy_words(random_state)
        return whole
    generator = np.random.Generator(np.random.PCG64(0))
    set_state(generator.bit_generator, state.view(np.uint64)[:6].tolist())
    whole[first:] = np.reshape(drawn(generator, method, parameters, shape, dtype), -1)
    whole[:first].view(np.uint64)[:6] = state_words(generator.bit_generator)
    return whole


def bits_of(generator: Any) -> Any:
    """Return the bit generator of a Generator or a RandomState."""
    return generator._bit_generator


def legacy_words(random_state: Any) -> Array:
    """Return the state of a RandomState as an array."""
    state, words = random_state.get_state(legacy=False), np.zeros(640, np.uint32)
    words[:624], words[624], words[625] = state["state"]["key"], state["state"]["pos"], state["has_gauss"]
    words[626:628].view(np.float64)[0] = state["gauss"]
    return words.view(np.uint64)


def set_legacy(random_state: Any, state: Array) -> None:
    """Set the state of a RandomState."""
    words = state.view(np.uint32)
    random_state.set_state({"bit_generator": "MT19937", "state": {"key": words[:624], "pos": int(words[624])},
                            "has_gauss": int(words[625]), "gauss": float(words[626:628].view(np.float64)[0])})


def state_words(bits: Any) -> list[int]:
    """Return the six words of a PCG64's state."""
    state = bits.state
    at, step = state["state"]["state"], state["state"]["inc"]
    low = (1 << 64) - 1
    return [at & low, at >> 64, step & low, step >> 64, state["has_uint32"], state["uinteger"]]


def set_state(bits: Any, words: list[int]) -> None:
    """Set the state of a PCG64."""
    at, step = words[1] << 64 | words[0], words[3] << 64 | words[2]
    bits.state = {"bit_generator": "PCG64", "state": {"state": at, "inc": step},
                  "has_uint32": words[4], "uinteger": words[5]}


def drawn(generator: Any, method: Any, parameters: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return the numbers that a generator draws."""
    if method == "nothing":  # only the state, unchanged
        return np.zeros(shape, dtype)
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
    if method == "randint":
        return generator.randint(*parameters, size=shape, dtype=np.dtype(dtype))
    if isinstance(generator, np.random.RandomState):
        return getattr(generator, method)(*parameters, size=shape)
    if method in ("random", "standard_normal", "standard_exponential", "integers"):
        return getattr(generator, method)(*parameters, size=shape, dtype=np.dtype(dtype))
    return getattr(generator, method)(*parameters, size=shape)


# ---------------------------------------------------------------- in compiled calls
class _Borrowed(threading.local):
    """The generators that a thread's RNG calls use, and the states in which the last calls left them."""

    def __init__(self) -> None:
        self.generator = np.random.Generator(np.random.PCG64(0))
        self.words: list[int] = []
        self.legacy: Any = None
        self.state = b""


_borrowed = _Borrowed()


def draw_into(whole: Array, state: Array, *parameters: Array, method: str, shape: tuple[int, ...], dtype: str) -> None:
    """Write the result of `generator_draw` into an array; most calls continue from the state of the last one."""
    state = np.ascontiguousarray(state)
    if state.nbytes == LEGACY_BYTES:
        _draw_legacy(whole, state, parameters, method, shape, dtype)
        return
    generator, words = _borrowed.generator, state.view(np.uint64)[:6].tolist()
    if words != _borrowed.words:
        set_state(generator.bit_generator, words)
    _borrowed.words = []
    first = state_length(dtype)
    numbers, after = whole[first:], whole[:first].view(np.uint64)
    if method in ("random", "standard_normal", "standard_exponential"):
        getattr(generator, method)(out=numbers, dtype=numbers.dtype)
    else:
        numbers[...] = np.reshape(drawn(generator, method, parameters, shape, dtype), -1)
    after[6:] = 0
    after[:6] = _borrowed.words = state_words(generator.bit_generator)


def _draw_legacy(
    whole: Array, state: Array, parameters: Any, method: str, shape: tuple[int, ...], dtype: str
) -> None:
    if _borrowed.legacy is None:
        _borrowed.legacy = np.random.RandomState(_twister()())
    random_state = _borrowed.legacy
    memory, words = random_state._bit_generator.memory, state.view(np.uint32)
    if state.tobytes() != _borrowed.state:
        memory[:] = words[:625]
        left = {"has_gauss": int(words[625]), "gauss": float(words[626:628].view(np.float64)[0])}
        random_state.set_state({"bit_generator": "MT19937", "state": {}, **left})
    _borrowed.state = b""
    first = state_length(dtype, legacy=True)
    whole[first:] = np.reshape(drawn(random_state, method, parameters, shape, dtype), -1)
    left, after = random_state.get_state(legacy=False), np.zeros(640, np.uint32)
    after[:625], after[625] = memory, left["has_gauss"]
    after[626:628].view(np.float64)[0] = left["gauss"]
    whole[:first].view(np.uint32)[:] = after
    _borrowed.state = after.tobytes()


@cache
def _twister() -> type:
    """Return a class of Mersenne twisters whose words and position are an array, their `memory`.

    NumPy reads and sets them one by one, in 0.1 ms. The second of a pair of normal numbers is held by the RandomState.
    """
    import ctypes

    class Twister(np.random.MT19937):
        def __init__(self) -> None:
            super().__init__(0)
            words: Any = (ctypes.c_uint32 * 625).from_address(self.ctypes.state_address)
            self.memory = np.frombuffer(words, np.uint32)

        @property
        def state(self) -> Any:
            return {"bit_generator": "MT19937", "state": {}}

        @state.setter
        def state(self, value: Any) -> None:
            pass

    return Twister
