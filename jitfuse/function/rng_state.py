"""The NumPy generators whose states a call changes: those among its arguments, and the global RNG.

A state is passed to native code in an array, which writes the new state there; it is written back when the call ends.
Owns states as arrays and their return. Does not own RNG calls (`jitfuse.ir.semantics.generators`), or generators as a
trace sees them (`jitfuse.tracing.generators.rng`).
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
"""The generator locks that calls hold."""


class RngUse(NamedTuple):
    """The generators that a function's calls use: indices among the leaves of the arguments, and NumPy's global RNG."""

    leaves: tuple[int, ...] = ()
    global_rng: bool = False
    """Whether the global RNG, behind `np.random.seed`, is one of them."""


def is_generator(value: Any) -> bool:
    """Return whether a value is a NumPy generator whose state can be passed in an array."""
    random = sys.modules.get("numpy.random")
    if random is None or type(value) not in (random.Generator, random.RandomState):
        return False
    bits, legacy = generators.bits_of(value), type(value) is random.RandomState
    return type(bits) is (random.MT19937 if legacy else random.PCG64)


class GeneratorStates:
    """The generators of one call, and the arrays that hold their states during it.

    Their locks are held while compiled code runs, so that no other code draws the same numbers. They are not held while
    user code runs, nor while the lock of a fused function is waited for. `global_rng` adds the generator behind
    `np.random.seed`. Raises ArgumentError if that has been replaced by another kind.
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
        """The ids of the arrays that hold states."""
        return frozenset(id(array) for _, array in self._states.values())

    def array(self, generator: Any) -> np.ndarray[Any, Any]:
        """Return the array for a generator's state: one per generator, however often it is passed.

        Raises ArgumentError for two generators over one bit generator.
        """
        words = generators.state_length("uint64", type(generator) is np.random.RandomState)
        found = self._states.setdefault(id(generators.bits_of(generator)), (generator, np.zeros(words, np.uint64)))
        if found[0] is not generator:
            raise ArgumentError("two generators over one bit generator move one another on; pass one of them")
        return found[1]

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Keep the states in arrays, and write back at the end those that the call has changed.

        A call that raises changes no state; one that plain Python answers (`end`) uses the generators itself.
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

    def hold(self, after_code: bool = False) -> None:
        """Lock the generators.

        If other code has used them since, their states are read again. Raises UntraceableError then if the call has
        `after_code` at earlier numbers.
        """
        if self._held:
            return
        for lock in sorted((generators.bits_of(generator).lock for generator, _ in self._states.values()), key=id):
            self._locks.enter_context(_holding(lock))
        self._held = True
        states = [_state_of(generator) for generator, _ in self._states.values()]
        now = [state.tobytes() for state in states]
        if after_code and now != self._before:
            raise UntraceableError("other code draws from a generator while the call is traced")
        self._before = now
        for (_, array), state in zip(self._states.values(), states, strict=True):
            array[:] = state

    def release(self) -> None:
        """Unlock the generators."""
        self._held = False
        self._locks.close()

    def end(self) -> None:
        """Unlock the generators for good: plain Python answers the call."""
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
    """In a forked child, free the locks held by threads that do not exist there."""
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
