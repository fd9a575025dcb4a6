"""Calls of functions that look at the values of traced data: along the function's tree, or with a new branch of it.

Owns when a call is split, and when plain Python has to do. Does not own the limits on how often
(`jitfuse.function_limits`), a call's way through the tree (`jitfuse.function_route`), or the tree and its edges
(`jitfuse.splitting`).
"""
from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final

from jitfuse import compile as compiler
from jitfuse.errors import VolatileError
from jitfuse.function_limits import MAX_STEPS, Limits
from jitfuse.function_route import Route
from jitfuse.function_signatures import Signatures, leave_or_raise
from jitfuse.later import Later
from jitfuse.options import Options
from jitfuse.tracing.found import Trace

if TYPE_CHECKING:
    from jitfuse.splitting import signals
    from jitfuse.splitting.native import NativeTree
    from jitfuse.splitting.segment import Segment
    from jitfuse.splitting.tree import Call, Position, Tree
    from jitfuse.tracing.cutting import Part
else:
    signals = Later("jitfuse.splitting.signals")


MANY_SEGMENTS: Final = 4
"""Segments of a function after which further ones are rolled into loops as far as they can be: so little is compiled
for each."""


class Splits(Signatures):
    """What a fused function knows of calls in which Python looks at data."""

    def __init__(self, fn: Callable[..., Any], options: Options) -> None:
        super().__init__(fn, options)
        self._tree: Tree | None = None
        self._segments: dict[Hashable, Segment] = {}
        self._chosen: dict[int, Any] = {}
        """The best ways to lower segments, by their structure."""
        self._limits = Limits()
        self._native_tree: NativeTree | None = None

    def _answer(self, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the specialisation that a call belongs to, or what it `Returned` where it was split.

        Raises VolatileError where it has to run as plain Python, and whatever the function raises.
        """
        with self._lock:
            spec = self._known_signature(training, args, kwargs)
        if spec is not None:
            return spec
        if self._limits.plain is not None and (self._tree is None or not self._limits.keeps_ways):
            raise VolatileError(self._limits.plain)
        if self._options.strict or self._options.device == "gpu":
            with self._lock:
                return self._signature(training, args, kwargs)
        if self._tree is not None and self.native and compiler.runtime_is_ready():
            compiler.native_runtime().accept_error_state()
        if self._limits.tree_is_full:
            with self._lock:
                self._forget_segments()
        self._limits.begin_call()
        return self._along(Route(self, training, args, kwargs))

    def _along(self, route: Route) -> Any:
        """Go along the tree and add what is missing until the call is answered, as `_answer` returns it."""
        while True:
            done = route.walk()
            if done is not None:
                self._limits.note_growth(route.added, route.rerun)
                self._note_walk(route)
                return done
            if self._limits.plain is not None:
                self._limits.note_lost()
                raise VolatileError(self._limits.plain)
            with self._lock:
                done = self._grow(route)
                if done is not None:
                    self._limits.note_growth(route.added, route.rerun)
                    return done

    def _route_at(self, tree: Tree, call: Call, position: Position, training: bool) -> Route:
        """Return the route of a call that has come to a position in a tree."""
        route = Route(self, training, tuple(call.args), dict(call.kwargs))
        route.tree, route.call, route.position = tree, call, position
        return route

    def _go_on(self, tree: Tree, call: Call, arrive: Callable[[], Position], training: bool) -> Any:
        """Answer a call that native code has brought to the position in the tree that `arrive` returns."""
        raise NotImplementedError

    def _note_walk(self, route: Route) -> None:
        """Have native code answer such calls where that is possible, and it is time for it."""
        tree, call = route.tree, route.call
        assert tree is not None and call is not None
        if not self.native or call.eager:
            return
        from jitfuse.splitting.native import NativeTree
        from jitfuse.splitting.tree import start_key

        if self._native_tree is None:
            handler, torch = functools.partial(leave_or_raise, self.name), bool(self._tensor_places)
            self._native_tree = NativeTree(self.name, handler, weakref.WeakMethod(self._go_on), torch=torch)
        if not self._native_tree.is_due(tree) or not compiler.runtime_is_ready():
            return
        with self._lock:
            if tree is self._tree and self._limits.plain is None:
                key = start_key(route.args, route.kwargs, route.training)
                entry = self._native_tree.make(tree, call, key, route.training)
                if entry is not None:
                    compiler.native_runtime().accept_error_state()
                    self._prepend(entry)

    def _grow(self, route: Route) -> Any:
        """Run the function once more, from where nothing is known of how it goes on; None: go on walking.

        Returns a specialisation where it does not look at data, and what it `Returned` where it does.
        """
        if not route.began:
            known = self._known_signature(route.training, route.args, route.kwargs)
            if known is not None:
                return known
        if route.can_walk():
            return None  # another thread was here first
        why = self._why_not(route.args, route.kwargs)
        try:
            with self._counting():
                made = route.grow()
                if isinstance(made, Trace):
                    self._limits.note_program(made.program, MAX_STEPS)
                    self._limits.note_writes(made.program)
                    if any(_differ_in_values(made, spec.trace) for spec in self._specs):
                        self._limits.note_trace(made.recorded, why)
        except signals.LoopClosedSignal:
            return None
        except signals.GiveUpSignal:
            assert self._limits.plain is not None
            self._drop_native_tree()
            raise VolatileError(self._limits.plain) from None
        except signals.BranchSignal:
            self._drop_tree()
            route.begin_again()
            return None
        except signals.ChangedSignal:
            self._drop_tree()
            route.begin_again()
            self._limits.note_change()
            return None
        except VolatileError as error:
            if route.asked:
                self._limits.plain = str(error)
                self._drop_native_tree()
            raise
        return self._add_signature(made, why, route.args, route.kwargs) if isinstance(made, Trace) else made

    # ------------------------------------------------------------------ what the tree is made of
    def segment_of(self, part: Part, training: bool) -> Segment:
        """Return the segment of a part, compiled; one for all parts that are equal."""
        from jitfuse.splitting.segment import Segment

        key = part.key, training
        found = self._segments.get(key)
        if found is None:
            if self._limits.are_full(len(self._segments)):
                self._forget_segments()
            note = weakref.WeakMethod(self._note_fallback)
            many = len(self._segments) >= MANY_SEGMENTS
            found = self._segments[key] = Segment(
                part, training, self._origin(), self._options, note, many=many, chosen=self._chosen)
        return found

    def _forget_segments(self) -> None:
        """Start over with no tree: its size is bounded, its kernels stay cached. Calls that are walking go on."""
        self._launches += sum(s.launches for s in self._segments.values())
        self._segments = {}
        self._chosen = {}
        self._drop_tree()
        self._limits.states = 0

    def _forget_signatures(self) -> None:
        """Start over with no signatures; the tree's entries, which stand among theirs, are made again."""
        super()._forget_signatures()
        self._drop_native_tree()

    def _drop_tree(self) -> None:
        """Forget the tree; calls that are walking go on along it."""
        self._tree = None
        self._drop_native_tree()

    def _drop_native_tree(self) -> None:
        """Have native code answer such calls no more."""
        if self._native_tree is not None:
            self._native_tree.drop()

    def count_split(self) -> None:
        """Count a split."""
        self._counts["splits"] += 1
        self._limits.states += 1

    def _explain_split(self, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        """Return the report of a function whose calls with such arguments have been split, or run as plain Python.

        None of any other.
        """
        tree, plain = self._tree, ""
        if self._limits.plain is not None and self._known_signature(training, args, kwargs) is None:
            plain = f"{self.name} runs as plain Python: {self._limits.plain}"
        if tree is None or not Route(self, training, args, kwargs).is_split(tree):
            return plain or None
        from jitfuse.splitting.report import tree_report

        title = f"{self.name}, {'training' if training else 'evaluation'}, split where Python looks at data"
        title += f"\n{plain}" if plain else ""
        return f"{title}\n\n{tree_report(tree, {s: k for k, s in enumerate(self._segments.values())})}"

    def _renew_locks(self) -> None:
        """In a forked child: fresh locks, for threads that are not there may have held the old ones."""
        self._lock = threading.RLock()
        self._busy = threading.local()
        for segment in self._segments.values():
            segment.lock = threading.Lock()


def _differ_in_values(a: Trace, b: Trace) -> bool:
    """Return whether two traces are of arguments that are alike but for texts, floats and lengths of lists.

    Sizes and numbers of rounds are mostly few, and worth a trace each.
    """
    return (a.positional, a.keywords, _read(a)) == (b.positional, b.keywords, _read(b))


def _read(trace: Trace) -> set[tuple[str, Hashable, Hashable]]:
    """Return the arrays and numbers that a trace reads, with what it takes for granted of each."""
    values = {f: v for f, v in trace.guarded_values.items() if not isinstance(v, float | complex)}
    return {(str(s.source), s.meta.shape, values.get(f)) for f, s in trace.feeds.items()}
