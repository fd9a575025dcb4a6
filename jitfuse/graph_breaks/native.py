"""The native side of a function with graph breaks: the entries that replace its tree, and the return to Python.

Owns when a tree becomes a table, and `NativeTree`, what a function keeps of it. Does not own tables
(`jitfuse.graph_breaks.table`) or calls (`jitfuse.function.pipeline`).
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, Final

from jitfuse.backends.llvm.runtime.entries import Handler, NativeEntry
from jitfuse.base.records import Record
from jitfuse.compile.guards.guard_tables import BoundEntry
from jitfuse.graph_breaks.paths import NativePaths, part_for
from jitfuse.graph_breaks.signals import UnfitSignal
from jitfuse.graph_breaks.table import Left, PathTable
from jitfuse.graph_breaks.tree import TraceTree, TreePosition, Walk
from jitfuse.ir.program import RANDOM_STATE
from jitfuse.random_state import state_feeds

MAX_ENTRIES: Final = 64
"""Entries of a function; they differ in what they expect of arguments and state."""

GoOn = Callable[[TraceTree, Walk, Callable[[], TreePosition], bool], Any]
"""Answers a call in a mode from the position that a function returns; holds the fused function weakly."""


class _Made(Record, eq=False):
    bound: BoundEntry
    training: bool
    size: int


class _Waiting(Record):
    """The calls that begin with one key, since its last table: how many Python has answered, and after how many of them
    the next table comes; the size of the tree then."""

    calls: int = 0
    until: int = 1
    size: int = 0


class NativeTree:
    """The entries that replace a function's tree.

    A table is rebuilt after calls took paths that it lacks. It waits for one call per eight edges of its share of the
    tree since the last table, so that building never takes longer than the calls. The first table comes after a quarter
    of these.
    `torch` as in `jitfuse.graph_breaks.paths.part_for`.
    """

    def __init__(self, handler: Handler, go_on: GoOn, *, torch: bool) -> None:
        self._handler, self._go_on, self._torch = handler, go_on, torch
        self._made: dict[Hashable, _Made] = {}
        self._waiting: dict[Hashable, _Waiting] = {}

    def is_due(self, tree: TraceTree, key: Hashable) -> bool:
        """Count a call that begins with `key` and that Python answered; return whether it is time for a table."""
        is_first = key not in self._waiting
        waiting = self._waiting.setdefault(key, _Waiting())
        waiting.calls += 1
        if tree.size != waiting.size:
            share = len(tree.start.edges) * (32 if is_first else 8)
            waiting.size, waiting.until = tree.size, max(1, tree.size // share)
        if waiting.calls < waiting.until:
            return False
        waiting.calls, waiting.until = 0, 2 * waiting.until
        return True

    def make(self, tree: TraceTree, walk: Walk, key: Hashable, training: bool) -> NativeEntry | None:
        """Return an entry for calls like this one, if there is one; its table is rebuilt if the tree has grown."""
        part = part_for(tree, walk, key, training, torch=self._torch)
        known = None if part is None else self._made.get(part.identity)
        if part is None or (known is None and len(self._made) >= MAX_ENTRIES):
            return None
        if known is not None and known.size == part.size:
            return known.bound.entry
        bound = BoundEntry(part.entrance, state_feeds(), self._handler) if known is None else known.bound
        try:
            plan = PathTable(part, bound, functools.partial(_leaving, part, self._go_on)).build()
        except UnfitSignal:
            return None
        bound.entry.set_plan(training=training, plan=plan)
        self._made[part.identity] = _Made(bound, training, part.size)
        return bound.entry

    def drop(self) -> None:
        """Stop calls from entering the tables."""
        for made in self._made.values():
            made.bound.entry.drop_plan(training=made.training)
        self._made, self._waiting = {}, {}


def _leaving(part: NativePaths, go_on: GoOn, left: Left) -> Callable[[list[Any]], Any]:
    return functools.partial(_leave, part, go_on, left)


def _leave(part: NativePaths, go_on: GoOn, left: Left, items: list[Any]) -> Any:
    """Continue in Python a call whose answer has no edge in the table; return its result."""
    given = iter(items)
    args = tuple(next(given) for _ in range(part.entrance.positional))
    kwargs = {name: next(given) for name in part.entrance.keywords}
    walk = Walk(args, kwargs, state_feeds()[RANDOM_STATE])
    walk.bound = {feed: next(given) for feed in left.feeds}
    walk.met(edge.tree_edge for edge in part.edges if edge.tree_edge.conditions is not None)
    live = tuple(next(given) for _ in range(left.live))
    asked = [next(given) if feed is None else walk.bound[feed] for feed in left.asked]
    if left.moves_rng:
        walk.rng_state = next(given)

    def arrive() -> TreePosition:
        answer = walk.goes_on(left.state, live, asked)
        return TreePosition(left.state, answer, answer.key)

    return go_on(part.tree, walk, arrive, part.training)
