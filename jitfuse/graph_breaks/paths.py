"""The part of a trace tree that native code can follow: its edges, its loops, and the conditions of all of them.

A *native edge* has a subgraph that is native. Of edges that differ in their conditions, it is the one whose conditions
the call just answered meets. All conditions are checked at the entrance, before anything runs. Owns this choice. Does
not own the tree (`jitfuse.graph_breaks.tree`) or the ops of edges (`jitfuse.graph_breaks.table`).
"""
from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from jitfuse.base.records import Record, fresh
from jitfuse.compile.guards.guard_tables import Entrance
from jitfuse.compile.guards.matching import Conditions
from jitfuse.graph_breaks.tree import Edge, TraceTree, TreeState, Walk
from jitfuse.ir.program import RANDOM_STATE, Meta
from jitfuse.tracing.interception.chain import Chain, Guard
from jitfuse.tracing.trace import FeedSource

MAX_EDGES: Final = 4096
"""Edges of one table."""
MIN_UNENDED: Final = 4
"""Edges of a table that leads to no result, but only to where Python goes on, as a print at the end does."""
RANDOM_FEED: Final = -1
"""The number of the RNG state at the entrance."""


class NativeEdge(Record, eq=False):
    """An edge that is known to be native.

    key    the answer at `source` that leads to it
    feeds  for each feed bound there, its number at the entrance
    home   the head of the outermost loop that contains it; None if it runs at most once
    """

    tree_edge: Edge
    source: TreeState
    key: Hashable
    feeds: Mapping[int, int]
    home: TreeState | None = None

    @property
    def back(self) -> bool:
        """Whether it is a back edge."""
        return self.tree_edge.target is not None and self.tree_edge.target.parent is not self.source


class NativePaths(Record, eq=False):
    """The edges from the start of a tree, each before those that follow it, and grouped by source state."""

    tree: TraceTree
    training: bool
    entrance: Entrance
    edges: Sequence[NativeEdge]
    following: Mapping[TreeState, Mapping[Hashable, NativeEdge]]
    heads: frozenset[TreeState]
    """The targets of back edges."""
    identity: Hashable
    """What distinguishes entrances."""

    @property
    def size(self) -> int:
        """How many edges there are, plus the known array contents that select them."""
        return len(self.edges) + sum(len(state.seen) for state in self.following)

    def inside(self, head: TreeState) -> list[NativeEdge]:
        """Return the edges that may run repeatedly between returns to an outermost loop head."""
        return [edge for edge in self.edges if edge.home is head]


class _Meeting(Record):
    """The conditions of all edges found."""

    numbers: dict[Any, int] = fresh(default_factory=dict)
    feeds: dict[int, FeedSource] = fresh(default_factory=dict)
    guards: dict[Any, Guard] = fresh(default_factory=dict)
    aliases: dict[Any, int] = fresh(default_factory=dict)
    values: dict[int, Any] = fresh(default_factory=dict)
    ranges: dict[int, tuple[int, int]] = fresh(default_factory=dict)
    writes: set[int] = fresh(default_factory=set)

    def add(self, conditions: Conditions, known: Mapping[int, int]) -> dict[int, int]:
        """Add the conditions of one edge; return the numbers of its feeds, with those known before."""
        own = dict(known)
        for feed, source in conditions.feeds.items():
            number = own[feed] = self.numbers.setdefault(source.source, len(self.numbers))
            self.feeds[number] = source
        for guard in conditions.guards:
            self.guards.setdefault(guard.key, guard)
        self.aliases.update((chain, own[feed]) for chain, feed in conditions.aliases)
        self.values.update((own[feed], value) for feed, value in conditions.guarded_values.items())
        for feed, (low, high) in conditions.int_ranges.items():
            before = self.ranges.get(own[feed], (low, high))
            self.ranges[own[feed]] = max(low, before[0]), min(high, before[1])
        self.writes.update(own[feed] for feed in conditions.writes)
        return own


def part_for(tree: TraceTree, call: Walk, key: Hashable, training: bool, *, torch: bool) -> NativePaths | None:
    """Return the part of a tree for calls like this one, which begin with `key`.

    None if no edge leads to a result and there are few, or if there are too many edges. `torch`: the caller turns
    results into tensors; otherwise paths with torch results are left out.
    """
    meeting, edges, conditioned, ends = _Meeting(), [], [], False
    following: dict[TreeState, dict[Hashable, NativeEdge]] = {}
    todo: list[tuple[TreeState, Hashable, Mapping[int, int]]] = [(tree.start, key, {})]
    while todo:
        state, key_, known = todo.pop()
        tree_edge = next((e for e in state.edges.get(key_, ()) if call.meets(e)), None)
        if tree_edge is None or not _is_native(tree_edge, call, training) or not _delivers_natively(tree_edge, torch):
            continue
        if tree_edge.conditions is not None:
            known = meeting.add(tree_edge.conditions, known)
            conditioned.append(id(tree_edge))
        edge = NativeEdge(tree_edge, state, key_, known)
        edges.append(edge)
        if len(edges) > MAX_EDGES:
            return None
        following.setdefault(state, {})[key_] = edge
        ends = ends or tree_edge.target is None
        if tree_edge.target is not None and not edge.back and _is_read(tree_edge.target):
            todo.extend((tree_edge.target, k, known) for k in reversed(tree_edge.target.edges))
    if not ends and len(edges) < MIN_UNENDED:
        return None
    draws = any(edge.tree_edge.moves_rng for edge in edges)
    if draws:
        meeting.feeds[RANDOM_FEED] = FeedSource(RANDOM_STATE, "state", Meta((2,), "int64"), (8,))
    ends_ = (edge.tree_edge.result for edge in edges if edge.tree_edge.result is not None)
    delivered = tuple(dict.fromkeys(chain for result in ends_ for chain in result.tree.chains))
    entrance = Entrance(
        len(call.args), tuple(call.kwargs), tuple(meeting.guards.values()), meeting.feeds,
        tuple(meeting.aliases.items()), meeting.values, meeting.ranges, frozenset(meeting.writes), delivered,
    )
    heads = frozenset(edge.tree_edge.target for edge in edges if edge.back and edge.tree_edge.target is not None)
    _find_homes(edges, heads)
    identity = key, training, frozenset(conditioned), draws, delivered
    return NativePaths(tree, training, entrance, edges, following, heads, identity)


def _is_native(tree_edge: Edge, call: Walk, training: bool) -> bool:
    """Return whether native code can run an edge: every array that it reads is exactly an `np.ndarray`."""
    sources = [s.source for s in tree_edge.feeds.values() if s.kind == "array"]
    read = [s.resolve(call.args, call.kwargs) for s in sources if isinstance(s, Chain)]
    return all(type(r) is np.ndarray for r in read) and (
        tree_edge.subgraph is None or training in tree_edge.subgraph.spec.plans
    )


def _delivers_natively(tree_edge: Edge, torch: bool) -> bool:
    """Return whether native code can deliver an edge's results. A caller with `torch` turns results into tensors, but
    not the arrays stored in Python state."""
    if tree_edge.result is None:
        return True
    return not tree_edge.result.tree.effects if torch else not tree_edge.result.torch


def _is_read(state: TreeState) -> bool:
    """Return whether native code can find the answer to a state's question: a number, an array's bytes, a call's."""
    return state.question is not None and (state.question.reads_data or state.question.brings)


def _find_homes(edges: Sequence[NativeEdge], heads: frozenset[TreeState]) -> None:
    """Set `home` of the edges that are part of loops."""
    depth: dict[TreeState, int] = {}
    for edge in edges:
        if edge.tree_edge.target is not None and not edge.back:
            depth[edge.tree_edge.target] = depth.get(edge.source, 0) + 1
    reached: dict[TreeState, int] = {}  # the least depth that back edges reach from a state or its successors
    for edge in reversed(edges):
        target = edge.tree_edge.target
        if target is not None:
            found = depth[target] if edge.back else reached.get(target, len(edges))
            reached[edge.source] = min(found, reached.get(edge.source, len(edges)))
    homes: dict[TreeState, TreeState | None] = {}
    for edge in edges:
        target, home = edge.tree_edge.target, homes.get(edge.source)
        if target is None:
            continue
        if edge.back or reached.get(target, len(edges)) <= depth.get(edge.source, 0):
            edge.home = home
        else:
            home = target if target in heads else None
        if not edge.back:
            homes[target] = home

