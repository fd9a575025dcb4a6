"""NumPy's own generators that a call moves on: those among its arguments, and the one behind `np.random.seed`.

Native code takes a generator's state as an array, writes the state after the call there, and it is given back when the
call has ended. Owns states as arrays and the way back. Does not own draws (`jitfuse.ir.generators`), nor what a trace
sees (`jitfuse.tracing.generators`).
"""
from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from jitfuse.errors import UntraceableError
from jitfuse.ir import generators
from jitfuse.ir.generators import EVERYBODYS
from jitfuse.records import NamedTuple


class Drawing(NamedTuple):
    """Which generators a function's calls move on: at places among the leaves of the arguments, and NumPy's own."""

    places: tuple[int, ...] = ()
    everybodys: bool = False


def is_generator(value: Any) -> bool:
    """Return whether a value is one of NumPy's generators whose state may be an array."""
    random = sys.modules.get("numpy.random")
    if random is None or type(value) not in (random.Generator, random.RandomState):
        return False
    bits, legacy = generators.bits_of(value), type(value) is random.RandomState
    return type(bits) is (random.MT19937 if legacy else random.PCG64)


def state_of(generator: Any) -> np.ndarray[Any, Any]:
    """Return the state of a generator."""
    if type(generator) is np.random.RandomState:
        return np.asarray(generators.legacy_words(generator))
    return np.array([*generators.state_words(generator.bit_generator), 0, 0], np.uint64)


def give_back(generator: Any, state: np.ndarray[Any, Any]) -> None:
    """Bring a generator into a state."""
    if type(generator) is np.random.RandomState:
        generators.set_legacy(generator, state)
    else:
        generators.set_state(generator.bit_generator, state[:6].tolist())


class _Lock:
    """Held by the one call that draws from the generator behind `np.random.seed`, and by calls within it."""

    lock = threading.RLock()


def renew_lock() -> None:
    """In a forked child: a fresh lock, for a thread that is not there may have held the old one."""
    _Lock.lock = threading.RLock()


@contextlib.contextmanager
def everybodys_lent() -> Iterator[None]:
    """Have the state of `np.random.seed` where native code finds it, and give it back as it is in the end.

    Raises UntraceableError where somebody has put another kind of generator there.
    """
    with _Lock.lock:
        generator: Any = np.random.mtrand._rand
        if not is_generator(generator):
            raise UntraceableError("np.random.set_bit_generator has exchanged the generator of np.random.seed")
        words, before = EVERYBODYS.words, state_of(generator)
        around = words.copy()
        words[:] = before
        try:
            yield
            if words.tobytes() != before.tobytes():
                give_back(generator, words)
        finally:
            words[:] = around  # of a call that has left the function to Python
