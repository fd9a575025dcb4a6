"""The signatures of one key: found, traced, compiled, put before native code.

Owns what a function keeps of the calls that see the same kinds of arguments. Does not own calls
(`jitfuse.function.pipeline`) or any stage of compilation (`jitfuse.compile.pipeline`).
"""
from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from jitfuse.compile import interface as compiler
from jitfuse.errors import VolatileError
from jitfuse.function import native
from jitfuse.function.adapters import tensor_feeds
from jitfuse.function.call import Call, Key
from jitfuse.function.counters import Counters
from jitfuse.function.native import NativeEntries
from jitfuse.function.rng_state import RngUse
from jitfuse.graph_breaks.breaks import Breaks
from jitfuse.random import state_feeds
from jitfuse.tracing.trace import Trace, TraceEnd

if TYPE_CHECKING:
    from jitfuse.function.definition import Definition
    from jitfuse.graph_breaks.call_path import Path
    from jitfuse.tracing.record.value_reads import GraphBreaker

MAX_SIGNATURES: Final = 512
"""Signatures that a table keeps ready; past that it starts over, with every kernel still cached."""
MAX_KEPT_PLANS: Final = 16
"""Signatures of a table whose plans a process puts on the disk: those that the next process starts with."""
GoOn = Callable[..., Any]
"""`jitfuse.function.pipeline.go_on`: it comes after tables."""


class SignatureTable:
    """What a fused function knows of the calls of one key.

    `function_entries` are the native entries that are tried in the caller's own calls: they read the caller's arguments
    as they are, torch tensors among them. `entries` are tried with the arguments as `normalise` leaves them: the same
    for calls that need no adapting. `go_on` answers the calls that native code leaves in the middle of the tree.
    """

    def __init__(
        self, key: Key, definition: Definition, counters: Counters, function_entries: NativeEntries,
        entries: NativeEntries, go_on: GoOn,
    ) -> None:
        self.key, self.definition, self.counters = key, definition, counters
        self.function_entries, self.entries = function_entries, entries
        self._go_on = go_on
        self.lock = threading.RLock()
        self.specs: list[compiler.Specialisation] = []
        """The signatures, the newest first."""
        self.breaks = Breaks(definition, counters)
        self.binds_state = False
        """Whether calls bind anything in Python's state anew."""
        self._retired: list[compiler.Specialisation] = []

    def renew_locks(self) -> None:
        """In a forked child: fresh locks, for threads that are not there may have held the old ones."""
        self.lock = threading.RLock()
        self.breaks.renew_locks()

    @property
    def is_settled(self) -> bool:
        """Whether all calls run as plain Python, which has been warned of."""
        limits = self.breaks.limits
        return self.counters.has_warned(limits.reason) and not (
            self.specs or limits.keeps_paths or self.definition.options.strict)

    # ------------------------------------------------------------------ signatures
    def find(self, call: Call, *, any_mode: bool = False) -> compiler.Specialisation | None:
        """Return the signature that a call belongs to, or None."""
        mode = None if any_mode else call.training
        return next((s for s in self.specs if s.matches(call.args, call.kwargs, mode)), None)

    def find_or_trace(self, call: Call) -> compiler.Specialisation:
        """Return the signature that a call belongs to; trace the function, without graph breaks, where it is new."""
        spec = self.find(call)
        if spec is None:
            why = self.why_new(call)
            spec = self.add(call, self.trace_whole(call), why)
        return spec

    def why_new(self, call: Call) -> tuple[str, ...]:
        """Return why a call belongs to none of the signatures; the arguments will be gone when somebody asks."""
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
        """Trace the function where there is no data to look at."""
        made = self.trace(call, None)
        assert isinstance(made, Trace)
        return made

    def add(self, call: Call, trace: Trace, why: tuple[str, ...]) -> compiler.Specialisation:
        """Return the signature of a new trace; `why` no other would do is for reports."""
        if len(self.specs) >= MAX_SIGNATURES:
            self.forget()
        tensors = tensor_feeds(trace, call.tensor_ids, call.args, call.kwargs)
        handler = functools.partial(raise_or_decline, self.definition.name)
        torch = tensors is not None and (trace.torch or bool(self.key.tensors))
        spec = compiler.Specialisation(trace, compiler.Binding(state_feeds(), handler, tensors or (), torch))
        self.specs.insert(0, spec)
        self.counters.note_new(why)
        if trace.guarded_values:
            self.counters.note_values([(str(trace.feeds[f].source), v) for f, v in trace.guarded_values.items()])
        return spec

    def forget(self) -> None:
        """Start over with no signatures: their number is bounded, their kernels stay cached."""
        self._retired, self.specs = self.specs, []  # another thread may be running them
        self.entries.retire()
        self.function_entries.retire()
        self.breaks.drop_native()

    # ------------------------------------------------------------------ native code
    def compile(self, spec: compiler.Specialisation, training: bool) -> None:
        """Have native code for one mode of a signature; raises CompileError where there cannot be any."""
        if training in spec.plans:
            return
        options = self.definition.options
        with self.counters.counting():
            made = compiler.compile_mode(
                spec, training, self.definition.origin, use_cache=options.cache,
                keep_plan=len(self.specs) <= MAX_KEPT_PLANS, schedule=options.schedule,
            )
        if made.kernels is not None and made.kernels.compiled is not None:
            self.counters.missed = (made.kernels.compiled,)

    def entries_of(self, spec: compiler.Specialisation) -> NativeEntries:
        """Return the entries among which a signature's is: those with tensors read the caller's own."""
        return self.function_entries if spec.tensors else self.entries

    def attach(self, spec: compiler.Specialisation, training: bool) -> bool:
        """Have native code try a signature in calls; return False while the runtime is not there.

        False also where tensors come with generators, whose states have to be brought and given back.
        """
        if spec.tensors and self.key.rng_use != RngUse():
            return False
        if not native.is_supported or not compiler.runtime_is_ready(spec.plans[training].call):
            return False
        compiler.native_runtime().accept_error_state()
        entry, is_new = compiler.native_entry(spec, training, self.definition.name)
        entries = self.entries_of(spec)
        if not entries.prepend(entry) and is_new:
            entries.generation += 1
        return True

    def attach_tree(self, path: Path) -> None:
        """Have native code answer calls along the tree where that is possible, and it is time for it."""
        tree, walk, breaks = path.tree, path.walk, self.breaks
        assert tree is not None and walk is not None
        if not native.is_supported or walk.eager:
            return
        from jitfuse.graph_breaks.native import NativeTree
        from jitfuse.graph_breaks.tree import start_key

        if breaks.native_tree is None:
            name, go_on = self.definition.name, functools.partial(self._go_on, weakref.ref(self))
            handler = functools.partial(raise_or_decline, name)
            breaks.native_tree = NativeTree(name, handler, go_on, torch=bool(self.key.tensors))
        if not breaks.native_tree.is_due(tree) or not compiler.runtime_is_ready():
            return
        call = path.call
        with self.lock:
            if tree is breaks.tree and breaks.limits.reason is None:
                key = start_key(call.args, call.kwargs, call.training)
                entry = breaks.native_tree.make(tree, walk, key, call.training)
                if entry is not None:
                    compiler.native_runtime().accept_error_state()
                    self.entries.prepend(entry)


def raise_or_decline(name: str, checks: Any, status: int) -> None:
    """Raise for a status that native code met, or have it decline the call where plain Python has an answer.

    Nothing has been written then. Python, which launches the same kernels in its turn, meets the same status.
    """
    error = compiler.kernel_error(name, checks, status)
    if not isinstance(error, VolatileError):
        raise error
