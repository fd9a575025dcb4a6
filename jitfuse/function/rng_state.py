"""NumPy's own generators that a call moves on: those among its arguments, and the one behind `np.random.seed`.

Native code takes a generator's state as an array, writes the state after the call there, and it is given back when the
call has ended. Owns states as arrays and the way back. Does not own draws (`jitfuse.ir.semantics.generators`), nor what
a trace sees (`jitfuse.tracing.numpy_like.generators`).
"""
from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.errors import ArgumentError, UntraceableError
from jitfuse.ir.semantics import generators
from jitfuse.ir.semantics.generators import GLOBAL_RNG

_HELD: Final[list[Any]] = []
"""The locks of generators whose states calls hold."""


class RngUse(NamedTuple):
    """Which generators a function's calls move on: at places among the leaves of the arguments, and NumPy's own."""

    places: tuple[int, ...] = ()
    global_rng: bool = False
    """Whether the global RNG, behind `np.random.seed`, is one of them."""


def is_generator(value: Any) -> bool:
    """Return whether a value is one of NumPy's generators whose state may be an array."""
    random = sys.modules.get("numpy.random")
    if random is None or type(value) not in (random.Generator, random.RandomState):
        return False
    bits, legacy = generators.bits_of(value), type(value) is random.RandomState
    return type(bits) is (random.MT19937 if legacy else random.PCG64)


class GeneratorStates:
    """The generators of one call, and the arrays that their states are in while it goes on.

    Their locks are held while compiled code runs, so that nobody else draws the same numbers; neither while code of the
    user's does, nor while the lock of a fused function is waited for. `global_rng` says that the one behind
    `np.random.seed` is among them. Raises ArgumentError where somebody has put another kind of generator there.
    """

    def __init__(self, global_rng: bool) -> None:
        self._states: dict[int, tuple[Any, np.ndarray[Any, Any]]] = {}
        self._before: list[bytes] = []
        self._locks = contextlib.ExitStack()
        self._held = self._ended = False
        if global_rng:
            generator: Any = np.random.mtrand._rand
            if not is_generator(generator):
                raise ArgumentError("np.random.set_bit_generator has exchanged the generator of np.random.seed")
            self._states[id(generators.bits_of(generator))] = generator, GLOBAL_RNG.words

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._states)

    @property
    def arrays(self) -> frozenset[int]:
        """The ids of the arrays that states are in."""
        return frozenset(id(array) for _, array in self._states.values())

    def array(self, generator: Any) -> np.ndarray[Any, Any]:
        """Return the array that a generator's state will be in: one for each, however often it is given.

        Raises ArgumentError for two generators that draw from the same bits.
        """
        words = generators.places("uint64", type(generator) is np.random.RandomState)
        found = self._states.setdefault(id(generators.bits_of(generator)), (generator, np.zeros(words, np.uint64)))
        if found[0] is not generator:
            raise ArgumentError("two generators over one bit generator move one another on; pass one of them")
        return found[1]

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Have the states in the arrays, and give back in the end what the call has written there.

        A call that raises moves nothing on, and one that has been left to Python (`end`) does that itself.
        """
        with self._locks:
            self.hold()
            yield
            if self._ended:
                return
            assert self._held or not self._states
            for (generator, array), before in zip(self._states.values(), self._before, strict=True):
                if array.tobytes() != before:
                    _give_back(generator, array)

    def hold(self, looked: bool = False) -> None:
        """Have nobody else draw from here on.

        Where somebody has drawn since, the states are taken anew; raises UntraceableError where the call has `looked`
        at numbers of before.
        """
        if self._held:
            return
        for lock in sorted((generators.bits_of(generator).lock for generator, _ in self._states.values()), key=id):
            self._locks.enter_context(_holding(lock))
        self._held = True
        states = [_state_of(generator) for generator, _ in self._states.values()]
        now = [state.tobytes() for state in states]
        if looked and now != self._before:
            raise UntraceableError("somebody else draws from a generator while the call is traced")
        self._before = now
        for (_, array), state in zip(self._states.values(), states, strict=True):
            array[:] = state

    def release(self) -> None:
        """Let others draw."""
        self._held = False
        self._locks.close()

    def end(self) -> None:
        """Let others draw: plain Python answers the call."""
        self._ended = True
        self.release()


@contextlib.contextmanager
def _holding(lock: Any) -> Iterator[None]:
    with lock:
        _HELD.append(lock)
        try:
            yield
        finally:
            _HELD.remove(lock)


def renew_locks() -> None:
    """In a forked child: free the locks that calls in threads held that are not there."""
    for lock in _HELD:
        if not lock._is_owned():
            lock._at_fork_reinit()
    _HELD[:] = [lock for lock in _HELD if lock._is_owned()]


def _state_of(generator: Any) -> np.ndarray[Any, Any]:
    if type(generator) is np.random.RandomState:
        return np.asarray(generators.legacy_words(generator))
    return np.array([*generators.state_words(generator.bit_generator), 0, 0], np.uint64)


def _give_back(generator: Any, state: np.ndarray[Any, Any]) -> None:
    if type(generator) is np.random.RandomState:
        generators.set_legacy(generator, state)
    else:
        generators.set_state(generator.bit_generator, state[:6].tolist())
