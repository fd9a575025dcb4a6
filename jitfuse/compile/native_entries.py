"""The native side of one form of calling a function: its entries, and the calls that native code tries.

Owns the state block and the callable attached to it. Does not own entries (`jitfuse.compile.guards.guard_tables`,
`jitfuse.graph_breaks.native`) or calls that fit none of them (`jitfuse.function.pipeline`).
"""
from __future__ import annotations

import weakref
from collections.abc import Collection
from typing import Any

from jitfuse.backends.llvm.runtime.callable import NativeCallable
from jitfuse.backends.llvm.runtime.entries import NativeEntry, StateBlock
from jitfuse.base.records import NamedTuple
from jitfuse.compile.objects.runtime_object import native_runtime

is_supported = NativeCallable.native
"""Whether native code can take calls in this interpreter."""


class Returned(NamedTuple):
    """The result of a call that has been answered."""

    value: Any


class NativeEntries:
    """The entries of calls in one form of their arguments; `training` is their default mode.

    named: calls may give the mode as ``training=``; otherwise native code declines these calls.

    `generation` increases with each entry and each mode that becomes native: native code may then answer calls that it
    declined before.
    """

    def __init__(self, training: bool, *, named: bool = True) -> None:
        self._training, self._named = training, named
        self._state: StateBlock | None = None
        self._callable: weakref.ref[NativeCallable] | None = None
        self._retired: StateBlock | None = None
        self._past_launches = 0
        self._address = 0
        self.generation = 0

    def serve(self, function: NativeCallable) -> None:
        """Have native code take the calls of a function from its first entry on."""
        self._callable = weakref.ref(function)

    @property
    def launches(self) -> int:
        """How many kernels native code has launched."""
        return self._past_launches + (0 if self._state is None else self._state.launches)

    @property
    def misses(self) -> int:
        """How many calls native code has declined; -1 while there is no entry."""
        return -1 if self._state is None else self._state.misses

    def prepend(self, entry: NativeEntry) -> bool:
        """Make native code try an entry first; return False if it was among the entries before."""
        if self._state is None:
            self._address = native_runtime().address("jf_fastcall")
            self._state = StateBlock(_declined, training=self._training, named=self._named)
            function = None if self._callable is None else self._callable()
            if function is not None:
                function.attach(self._address, self._state.address, keep=self._state)
        if entry in self._state.entries:
            return False
        self._state.prepend(entry)
        self.generation += 1
        return True

    def drop(self, dropped: Collection[NativeEntry]) -> None:
        """Start over without these entries; calls try the others by how many calls they have answered."""
        if self._state is not None:
            kept = [entry for entry in self._state.entries if entry not in dropped]
            self.retire()
            for entry in sorted(kept, key=lambda entry: entry.answers):
                self.prepend(entry)

    def retire(self) -> None:
        """Start over without entries.

        Another thread may be running the old ones: their memory lives until the next retirement.
        """
        if self._state is None:
            return
        self._retired, self._state = self._state, None
        self._past_launches += self._retired.launches
        function = None if self._callable is None else self._callable()
        if function is not None:
            function.detach()

    def attempt(self, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Returned | None:
        """Return native code's answer to a call; None if no entry fits, and then nothing has been done."""
        state = self._state
        if state is None:
            return None
        call = _Attempt()
        call.attach(self._address, state.address, keep=state)
        value = call(*args, training=training, **kwargs)
        return Returned(value) if call.fits else None


class _Attempt(NativeCallable):
    """One call offered to native code, with adapted arguments or after a new entry."""

    __slots__ = ("fits",)

    def __init__(self) -> None:
        self.fits = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Record that no entry fits."""
        self.fits = False
        return None


def _declined(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Continue in Python with a call that no entry fits."""
    return function.__call__(*args, **kwargs)
