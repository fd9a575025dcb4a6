"""The part of a tree that a call can go along without Python: its edges, its loops, and what must hold for all of it.

A *native edge* is an edge whose subgraph is native, for calls like one that has just been answered: of the edges that
differ in their conditions, those that this call meets. All conditions are checked at the entrance, before anything
runs. Owns this choice. Does not own the tree (`jitfuse.graph_breaks.tree`) or how edges become ops
(`jitfuse.graph_breaks.table`).
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
RANDOM_FEED: Final = -1
"""The number of the random state at the entrance."""


class NativeEdge(Record, eq=False):
    """An edge that is known to be native.

    key    the answer at its source that it belongs to
    feeds  the number at the entrance of each feed that is bound there
    back   whether it leads back to a state on the way to its source: a loop
    home   the outermost state to which loops lead back that it is part of; None for what runs at most once
    """

    tree_edge: Edge
    source: TreeState
    key: Hashable
    feeds: Mapping[int, int]
    home: TreeState | None = None

    @property
    def back(self) -> bool:
        """Whether it closes a loop."""
        return self.tree_edge.target is not None and self.tree_edge.target.parent is not self.source


class NativePaths(Record, eq=False):
    """The edges from the start of a tree, an edge before those that follow it, and by the state that they start
    from."""

    tree: TraceTree
    training: bool
    entrance: Entrance
    edges: Sequence[NativeEdge]
    following: Mapping[TreeState, Mapping[Hashable, NativeEdge]]
    heads: frozenset[TreeState]
    """States that loops lead back to."""
    identity: Hashable
    """What tells entrances apart."""

    @property
    def size(self) -> int:
        """How many edges there are, and contents of arrays that lead to them."""
        return len(self.edges) + sum(len(state.seen) for state in self.following)

    def inside(self, head: TreeState) -> list[NativeEdge]:
        """Return the edges that run again and again between returns to an outermost head."""
        return [edge for edge in self.edges if edge.home is head]


class _Meeting(Record):
    """What must hold of a call, over all edges that were found."""

    numbers: dict[Any, int] = fresh(default_factory=dict)
    feeds: dict[int, FeedSource] = fresh(default_factory=dict)
    guards: dict[Any, Guard] = fresh(default_factory=dict)
    aliases: dict[Any, int] = fresh(default_factory=dict)
    values: dict[int, Any] = fresh(default_factory=dict)
    ranges: dict[int, tuple[int, int]] = fresh(default_factory=dict)
    writes: set[int] = fresh(default_factory=set)

    def add(self, conditions: Conditions, known: Mapping[int, int]) -> dict[int, int]:
        """Add what one edge asks for; return the numbers of its feeds, with those known before."""
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
    """Return the part of a tree for calls like this one, which begin with a key; None where there is none.

    There is none either where no edge leads to a result, or where there are too many. `torch` says whether the caller
    makes tensors of results; otherwise paths whose results are torch's are no edges.
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
    if not ends:
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
    """Return whether native code can read what an edge reads, neither eager arrays nor tensors, and run it."""
    sources = [s.source for s in tree_edge.feeds.values() if s.kind == "array"]
    read = [s.resolve(call.args, call.kwargs) for s in sources if isinstance(s, Chain)]
    return all(type(r) is np.ndarray for r in read) and (
        tree_edge.subgraph is None or training in tree_edge.subgraph.spec.plans
    )


def _delivers_natively(tree_edge: Edge, torch: bool) -> bool:
    """Return whether an edge does not end a path with tensors of torch's that nobody makes; other paths may, by what
    they have read. Results are made tensors by a caller that says so, what is kept in Python's state is not."""
    if tree_edge.result is None:
        return True
    return not tree_edge.result.tree.effects if torch else not tree_edge.result.torch


def _is_read(state: TreeState) -> bool:
    """Return whether native code can read the answer to a state's question: from a number, or an array's bytes."""
    return state.question is not None and state.question.reads_data


def _find_homes(edges: Sequence[NativeEdge], heads: frozenset[TreeState]) -> None:
    """Find which edges are part of loops."""
    depth: dict[TreeState, int] = {}
    for edge in edges:
        if edge.tree_edge.target is not None and not edge.back:
            depth[edge.tree_edge.target] = depth.get(edge.source, 0) + 1
    reached: dict[TreeState, int] = {}  # the least depth that loops lead back to from a state or what follows it
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

