"""One call of a fused function: its arguments as they were given, and as native code reads them.

Owns `Call` and the step that makes one, `normalise`. Does not own how arguments are adapted
(`jitfuse.function.adapters`).
"""
from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Final

from jitfuse.base.lazy import cached_property
from jitfuse.base.records import NamedTuple
from jitfuse.compile.native_entries import NativeEntries, Returned
from jitfuse.compile.run.delivery import Delivery
from jitfuse.function.adapters import Adapted, in_kind, needs_adapting
from jitfuse.function.rng_state import RngUse
from jitfuse.tracing.interruption import WORK
from jitfuse.tracing.record.rng_states import RngStates

if TYPE_CHECKING:
    from jitfuse.compile.interface import Specialisation
    from jitfuse.function.definition import Arguments
    from jitfuse.function.parts import Parts
    from jitfuse.function.table import SignatureTable


class Key(NamedTuple):
    """What separates the tables of a function: calls under different keys have different kinds of arguments.

    tensors  the indices of torch tensors among the leaves of the arguments
    rng_use  the generators whose states are passed as arrays
    """

    tensors: tuple[int, ...] = ()
    rng_use: RngUse = RngUse()


PLAIN: Key = Key()
"""The key of calls whose arguments native code reads directly, or after they are adapted without tensors or RNGs."""


class Call:
    """A call: its mode, its arguments as native code reads them (`args`, `kwargs`), and the caller's own (`given`)."""

    def __init__(
        self, table: SignatureTable, training: bool, given: Arguments, adapted: Adapted | None = None
    ) -> None:
        self.table, self.training, self.given, self.adapted = table, training, given, adapted
        self.args, self.kwargs = given if adapted is None else (adapted.args, adapted.kwargs)
        self._states = None if adapted is None or not adapted.generator_states else adapted.generator_states
        self.is_final = False
        """Whether the returned value already has the caller's kind of arrays."""
        self._seen = table.entries.generation, table.function_entries.generation
        """The generations of native entries when the call came: newer entries are worth another try."""

    @cached_property
    def rng_states(self) -> RngStates:
        """The RNG states that the call passes to its trace, and what the trace reports about them."""
        return RngStates(() if self._states is None else self._states.arrays)

    @property
    def tensor_ids(self) -> frozenset[int]:
        """The ids of the arrays that replace torch tensors."""
        return frozenset() if self.adapted is None else self.adapted.tensor_ids

    @property
    def stands_for_others(self) -> bool:
        """Whether any arguments but generators were replaced."""
        return self.adapted is not None and not self.adapted.changes_only_generators

    # ------------------------------------------------------------------ the states of NumPy's generators
    @property
    def moves_rng(self) -> bool:
        """Whether the call passes RNG states."""
        return self._states is not None

    def going_on(self) -> contextlib.AbstractContextManager[None]:
        """Keep the RNG states in arrays during the call, and write the new states back at its end."""
        return _NOTHING if self._states is None else self._states.going_on()

    def hold_generators(self, after_code: bool = False) -> None:
        """Lock the generators before compiled code changes their states: see `GeneratorStates.hold`."""
        if self._states is not None:
            self._states.hold(after_code)

    def release_generators(self) -> None:
        """Unlock the generators before user code runs or a lock is waited for."""
        if self._states is not None:
            self._states.release()

    def end_generators(self) -> None:
        """Unlock the generators for good: this call does not change their states."""
        if self._states is not None:
            self._states.end()

    def must_bring_global_rng(self) -> bool:
        """Return whether the trace reports use of NumPy's global RNG: calls pass its state from now on.

        Not on the GPU, where no code makes NumPy's random numbers.
        """
        if not self.rng_states.misses_global or self.table.definition.runs_on_gpu:
            return False
        self.table.counters.draws_global_rng = True
        with self.table.lock:  # else native code would still take calls along this tree without the state
            self.table.breaks.drop_tree()
        return True

    # ------------------------------------------------------------------ answers
    def offer(self, entries: NativeEntries, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Returned | None:
        """Offer the call to native code. That may run user code: setters, and Python exits of native trees."""
        before, _offered.call = _offered.call, self
        work = WORK.going_on
        try:
            WORK.going_on = False
            return entries.attempt(self.training, args, kwargs)
        finally:
            WORK.going_on = work
            _offered.call = before

    def offer_again(self, spec: Specialisation) -> Returned | None:
        """Offer the call to native code again if entries have changed since it declined."""
        entries = self.table.entries_of(spec)
        if entries.generation == self._seen[entries is not self.table.entries]:
            return None
        done = self.offer(entries, *(self.given if spec.tensors else (self.args, self.kwargs)))
        self.is_final = done is not None and spec.tensors
        return done

    def run_fallback(self) -> Any:
        """Run the Python function with the caller's own arguments; it uses the generators itself."""
        self.is_final = True
        self.end_generators()
        args, kwargs = self.given
        work = WORK.going_on
        try:
            WORK.going_on = False
            return self.table.definition.run_fallback(args, kwargs, self.training)
        finally:
            WORK.going_on = work

    def deliver(self, made: Delivery, *, torch: bool, eager: bool) -> Any:
        """Apply the call's effects on Python state, and return its result in the caller's kind of arrays."""
        made = in_kind(made, torch=torch, eager=eager) if self.adapted is None else self.adapted.restored(made)
        return made.to(*self.given)

    def returned(self, value: Any) -> Any:
        """Return the caller's result for a value from native code or Python."""
        return value if self.adapted is None or self.is_final else self.adapted.delivered(value)


_NOTHING: Final = contextlib.nullcontext()


class _Offered(threading.local):
    call: Call | None = None


_offered = _Offered()
"""The call that this thread has offered to native code, whose arguments replace the caller's there."""


def call_left_by_native_code(
    table: SignatureTable, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Call:
    """Return the call that native code hands to Python."""
    call = _offered.call
    if call is not None and call.table is table and (len(call.args), *call.kwargs) == (len(args), *kwargs) and all(
            one is other for one, other in zip((*call.args, *call.kwargs.values()), (*args, *kwargs.values()))):
        return call
    return Call(table, training, (args, kwargs))


def normalise(parts: Parts, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """Return a call with its arguments as arrays that native code reads, and the table of its key.

    Raises ArgumentError for arguments that cannot be passed so.
    """
    global_rng = parts.counters.draws_global_rng
    if not (global_rng or needs_adapting(args, kwargs)):
        return Call(parts.plain, training, (args, kwargs))
    adapted = Adapted(args, kwargs, global_rng)
    return Call(parts.table(Key(adapted.tensors, adapted.rng_use)), training, (args, kwargs), adapted)
