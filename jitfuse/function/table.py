"""The signatures of one key: found, traced, compiled, attached to native code.

Owns what a function keeps about calls with the same kinds of arguments. Does not own calls
(`jitfuse.function.pipeline`) or any stage of compilation (`jitfuse.compile.pipeline`).
"""
from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from jitfuse.compile import interface as compiler
from jitfuse.compile import native_entries
from jitfuse.compile.native_entries import NativeEntries
from jitfuse.errors import VolatileError
from jitfuse.function.adapters import tensor_feeds
from jitfuse.function.call import Call, Key
from jitfuse.function.counters import Counters
from jitfuse.function.rng_state import RngUse
from jitfuse.function.signatures import Signatures
from jitfuse.graph_breaks.breaks import Breaks
from jitfuse.random_state import state_feeds
from jitfuse.tracing.trace import Trace, TraceEnd

if TYPE_CHECKING:
    from jitfuse.function.definition import Definition
    from jitfuse.graph_breaks.call_path import Path
    from jitfuse.tracing.record.value_reads import GraphBreaker

MAX_KEPT_PLANS: Final = 16
"""Signatures of a table whose plans are stored on disk: those that the next process starts with."""
_USED: Final = 2
"""Calls that a signature has answered natively if it is worth keeping; the first call may be among them."""
GoOn = Callable[..., Any]
"""`jitfuse.function.pipeline.go_on`, handed in: the pipeline uses tables, not they it."""


class SignatureTable:
    """The signatures and graph breaks of one key of a fused function.

    `function_entries` are the native entries tried with the caller's own arguments, torch tensors among them. `entries`
    are tried with the arguments that `normalise` returns: the same for calls that need no adapting. `go_on` answers
    calls that leave native code in the middle of the tree.
    """

    def __init__(
        self, key: Key, definition: Definition, counters: Counters, function_entries: NativeEntries,
        entries: NativeEntries, go_on: GoOn,
    ) -> None:
        self.key, self.definition, self.counters = key, definition, counters
        self.function_entries, self.entries = function_entries, entries
        self._go_on = go_on
        self.lock = threading.RLock()
        self.specs = Signatures()
        self.breaks = Breaks(definition, counters)
        self.binds_state = False
        """Whether calls have effects on Python state."""
        self._retired = Signatures()
        self._in_python: set[int] = set()
        """The ids of signatures that Python runs: native code does not try them."""

    def renew_locks(self) -> None:
        """Replace the locks in a forked child: threads that do not exist there may have held the old ones."""
        self.lock = threading.RLock()
        self.breaks.renew_locks()

    @property
    def is_settled(self) -> bool:
        """Whether all calls that native code declines run as plain Python, and a warning has said so."""
        limits = self.breaks.limits
        if not self.counters.has_warned(limits.reason):
            return False
        if self._in_python or limits.keeps_paths or self.definition.options.strict:
            return False
        return not self.specs or compiler.native_runtime().accepts_error_state

    @property
    def reads_given_arguments(self) -> bool:
        """Whether native code tries all signatures with the caller's own arguments, before Python is asked."""
        return self.entries is self.function_entries or all(spec.tensors for spec in self.specs)

    def count_plain(self) -> None:
        """Count a call of a settled table, which runs as plain Python."""
        self.counters.count_fallback()
        self.breaks.limits.note_plain()

    @property
    def launched(self) -> int:
        """How many kernels native code has launched."""
        return sum(entries.launches for entries in {self.entries, self.function_entries})

    # ------------------------------------------------------------------ signatures
    def find(self, call: Call, *, any_mode: bool = False) -> compiler.Specialisation | None:
        """Return the signature that a call matches, or None."""
        return self.specs.find(call.args, call.kwargs, None if any_mode else call.training)

    def find_or_trace(self, call: Call) -> compiler.Specialisation:
        """Return the signature that a call matches; if it is new, trace the function, without graph breaks."""
        spec = self.find(call)
        if spec is None:
            why = self.why_new(call)
            spec = self.add(call, self.trace_whole(call), why)
        return spec

    def why_new(self, call: Call) -> tuple[str, ...]:
        """Return why a call matches no signature; computed now, as a later report no longer has the arguments."""
        if not self.specs:
            return ()
        from jitfuse.compile.guards.mismatch import mismatches

        return mismatches(self.specs, call.args, call.kwargs)

    def trace(self, call: Call, breaker: GraphBreaker | None) -> Trace | TraceEnd:
        """Run the function once on tracers, see `Definition.trace`."""
        made = self.definition.trace(
            call.training, call.args, call.kwargs, breaker, call.tensor_ids, call.rng_states)
        self.counters.counts["traces"] += 1
        self.binds_state = self.binds_state or bool(made.result.effects)
        return made

    def trace_whole(self, call: Call) -> Trace:
        """Trace the function without graph breaks."""
        made = self.trace(call, None)
        assert isinstance(made, Trace)
        return made

    def add(self, call: Call, trace: Trace, why: tuple[str, ...]) -> compiler.Specialisation:
        """Add and return the signature of a new trace; `why` it is new is for reports."""
        if len(self.specs) >= self.definition.options.budget.subgraphs:
            self.forget()
        tensors = tensor_feeds(trace, call.tensor_ids, call.args, call.kwargs)
        handler = functools.partial(raise_or_decline, self.definition.name)
        torch = tensors is not None and (trace.torch or bool(self.key.tensors))
        spec = compiler.Specialisation(trace, compiler.Binding(state_feeds(), handler, tensors or (), torch))
        self.specs.add(spec)
        self._in_python.add(id(spec))
        self.counters.note_new(why)
        if self.breaks.limits.reason is not None:
            self._drop_unused()
        return spec

    def _drop_unused(self) -> None:
        """Drop the signatures that have answered no calls but their first: calls need not be compared with these."""
        kept, dropped = Signatures(), set()
        for spec in reversed(list(self.specs)):
            if id(spec) in self._in_python or spec.bound.entry.answers >= _USED:
                kept.add(spec)
            else:
                dropped.add(spec.bound.entry)
        self._retired, self.specs = self.specs, kept
        for entries in {self.entries, self.function_entries}:
            entries.drop(dropped)

    def forget(self) -> None:
        """Start over with no signatures: their number is bounded, their kernels stay cached."""
        self._in_python.clear()
        self._retired, self.specs = self.specs, Signatures()  # another thread may be running them
        self.entries.retire()
        self.function_entries.retire()
        self.breaks.drop_native()

    # ------------------------------------------------------------------ native code
    def compile(self, spec: compiler.Specialisation, training: bool) -> None:
        """Compile one mode of a signature, if it is new; raises CompileError."""
        if training in spec.plans:
            return
        options = self.definition.options
        with self.counters.counting():
            made = compiler.compile_mode(
                spec, training, self.definition.origin, use_cache=options.cache,
                keep_plan=len(self.specs) <= MAX_KEPT_PLANS, schedule=options.schedule,
            )
        kernels = [(id(home), k) for home, k in made.kernels.members] if made.kernels is not None else []
        self.breaks.limits.note_plan(len(made.call.steps), len(spec.trace.guards), kernels)
        if made.kernels is not None and made.kernels.compiled is not None:
            self.counters.missed = (made.kernels.compiled,)

    def entries_of(self, spec: compiler.Specialisation) -> NativeEntries:
        """Return the entries that a signature belongs to: with tensors, those that read the caller's own arguments."""
        return self.function_entries if spec.tensors else self.entries

    def attach(self, spec: compiler.Specialisation, training: bool) -> bool:
        """Make native code try a signature in calls; return False while the runtime is not ready.

        False also if tensors come with generators, whose states have to be passed and written back.
        """
        if spec.tensors and self.key.rng_use != RngUse():
            return False
        if not native_entries.is_supported or not compiler.runtime_is_ready(spec.plans[training].call):
            return False
        compiler.native_runtime().accept_error_state()
        entry, is_new = compiler.native_entry(spec, training)
        entries = self.entries_of(spec)
        if not entries.prepend(entry) and is_new:
            entries.generation += 1
        self._in_python.discard(id(spec))
        return True

    def attach_tree(self, path: Path) -> None:
        """Make native code answer calls along the tree, if that is supported and a table is due."""
        tree, walk, breaks = path.tree, path.walk, self.breaks
        assert tree is not None and walk is not None
        if not native_entries.is_supported or walk.eager:
            return
        from jitfuse.graph_breaks.native import NativeTree
        from jitfuse.graph_breaks.tree import start_key

        if breaks.native_tree is None:
            go_on = functools.partial(self._go_on, weakref.ref(self))
            handler = functools.partial(raise_or_decline, self.definition.name)
            breaks.native_tree = NativeTree(handler, go_on, torch=bool(self.key.tensors))
        call = path.call
        key = start_key(call.args, call.kwargs, call.training)
        if not breaks.native_tree.is_due(tree, key) or not compiler.runtime_is_ready():
            return
        if not self.lock.acquire(blocking=False):
            return  # a later call does it: the thread that holds the lock may wait for generators that this one holds
        try:
            if tree is breaks.tree and (breaks.limits.reason is None or breaks.keeps_paths):
                entry = breaks.native_tree.make(tree, walk, key, call.training)
                if entry is not None:
                    compiler.native_runtime().accept_error_state()
                    self.entries.prepend(entry)
        finally:
            self.lock.release()


def raise_or_decline(name: str, checks: Any, status: int) -> None:
    """Raise for a status that native code returned, or have it decline the call if plain Python has an answer.

    Nothing has been written then. Python launches the same kernels next and gets the same status.
    """
    error = compiler.kernel_error(name, checks, status)
    if not isinstance(error, VolatileError):
        raise error
