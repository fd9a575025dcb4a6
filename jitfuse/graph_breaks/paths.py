"""The part of a tree that a call can go along without Python: its ways, its loops, and what must hold for all of it.

A *way* is an edge whose segment is native, for calls like one that has just been answered: of the edges that differ in
their conditions, those that this call meets. All conditions are checked at the entrance, before anything runs. Owns
this choice. Does not own the tree (`jitfuse.graph_breaks.tree`) or how ways become ops (`jitfuse.graph_breaks.table`).
"""
from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from jitfuse.base.records import Record, fresh
from jitfuse.compile.guards.guard_tables import Entrance
from jitfuse.compile.guards.matching import Conditions
from jitfuse.graph_breaks.tree import Edge, State, Tree, Walk
from jitfuse.ir.program import RANDOM_STATE, Meta
from jitfuse.tracing.interception.chain import Chain, Guard
from jitfuse.tracing.trace import FeedSource

MAX_WAYS: Final = 4096
"""Ways of one table."""
RANDOM_FEED: Final = -1
"""The number of the random state at the entrance."""


class Way(Record, eq=False):
    """An edge that is known to be native.

    key    the answer at its source that it belongs to
    feeds  the number at the entrance of each feed that is bound there
    back   whether it leads back to a state on the way to its source: a loop
    home   the outermost state to which loops lead back that it is part of; None for what runs at most once
    """

    edge: Edge
    source: State
    key: Hashable
    feeds: Mapping[int, int]
    home: State | None = None

    @property
    def back(self) -> bool:
        """Whether it closes a loop."""
        return self.edge.target is not None and self.edge.target.parent is not self.source


class Part(Record, eq=False):
    """The ways from the start of a tree, a way before those that follow it, and by the state that they start from."""

    tree: Tree
    training: bool
    entrance: Entrance
    ways: Sequence[Way]
    following: Mapping[State, Mapping[Hashable, Way]]
    heads: frozenset[State]
    """States that loops lead back to."""
    identity: Hashable
    """What tells entrances apart."""

    @property
    def size(self) -> int:
        """How many ways there are, and contents of arrays that lead to them."""
        return len(self.ways) + sum(len(state.seen) for state in self.following)

    def inside(self, head: State) -> list[Way]:
        """Return the ways that run again and again between returns to an outermost head."""
        return [way for way in self.ways if way.home is head]


class _Meeting(Record):
    """What must hold of a call, over all ways that were found."""

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


def part_for(tree: Tree, call: Walk, key: Hashable, training: bool, *, torch: bool) -> Part | None:
    """Return the part of a tree for calls like this one, which begin with a key; None where there is none.

    There is none either where no way leads to a result, or where there are too many. `torch` says whether the caller
    makes tensors of results; otherwise paths whose results are torch's are no ways.
    """
    meeting, ways, conditioned, ends = _Meeting(), [], [], False
    following: dict[State, dict[Hashable, Way]] = {}
    todo: list[tuple[State, Hashable, Mapping[int, int]]] = [(tree.start, key, {})]
    while todo:
        state, key_, known = todo.pop()
        edge = next((e for e in state.edges.get(key_, ()) if call.meets(e)), None)
        if edge is None or not _is_native(edge, call, training) or not _delivers_natively(edge, torch):
            continue
        if edge.conditions is not None:
            known = meeting.add(edge.conditions, known)
            conditioned.append(id(edge))
        way = Way(edge, state, key_, known)
        ways.append(way)
        if len(ways) > MAX_WAYS:
            return None
        following.setdefault(state, {})[key_] = way
        ends = ends or edge.target is None
        if edge.target is not None and not way.back and _is_read(edge.target):
            todo.extend((edge.target, k, known) for k in reversed(edge.target.edges))
    if not ends:
        return None
    draws = any(way.edge.draws for way in ways)
    if draws:
        meeting.feeds[RANDOM_FEED] = FeedSource(RANDOM_STATE, "state", Meta((2,), "int64"), (8,))
    ends_ = (way.edge.result for way in ways if way.edge.result is not None)
    delivered = tuple(dict.fromkeys(chain for result in ends_ for chain in result.tree.chains))
    entrance = Entrance(
        len(call.args), tuple(call.kwargs), tuple(meeting.guards.values()), meeting.feeds,
        tuple(meeting.aliases.items()), meeting.values, meeting.ranges, frozenset(meeting.writes), delivered,
    )
    heads = frozenset(way.edge.target for way in ways if way.back and way.edge.target is not None)
    _find_homes(ways, heads)
    identity = key, training, frozenset(conditioned), draws, delivered
    return Part(tree, training, entrance, ways, following, heads, identity)


def _is_native(edge: Edge, call: Walk, training: bool) -> bool:
    """Return whether native code can read what an edge reads, neither eager arrays nor tensors, and run it."""
    sources = [s.source for s in edge.feeds.values() if s.kind == "array"]
    read = [s.resolve(call.args, call.kwargs) for s in sources if isinstance(s, Chain)]
    return all(type(r) is np.ndarray for r in read) and (edge.segment is None or training in edge.segment.spec.plans)


def _delivers_natively(edge: Edge, torch: bool) -> bool:
    """Return whether an edge does not end a path with tensors of torch's that nobody makes; other paths may, by what
    they have read. Results are made tensors by a caller that says so, what is kept in Python's state is not."""
    if edge.result is None:
        return True
    return not edge.result.tree.effects if torch else not edge.result.torch


def _is_read(state: State) -> bool:
    """Return whether native code can read the answer to a state's question: from a number, or an array's bytes."""
    return state.question is not None and state.question.looks


def _find_homes(ways: Sequence[Way], heads: frozenset[State]) -> None:
    """Find which ways are part of loops."""
    depth: dict[State, int] = {}
    for way in ways:
        if way.edge.target is not None and not way.back:
            depth[way.edge.target] = depth.get(way.source, 0) + 1
    reached: dict[State, int] = {}  # the least depth that loops lead back to from a state or what follows it
    for way in reversed(ways):
        target = way.edge.target
        if target is not None:
            found = depth[target] if way.back else reached.get(target, len(ways))
            reached[way.source] = min(found, reached.get(way.source, len(ways)))
    homes: dict[State, State | None] = {}
    for way in ways:
        target, home = way.edge.target, homes.get(way.source)
        if target is None:
            continue
        if way.back or reached.get(target, len(ways)) <= depth.get(way.source, 0):
            way.home = home
        else:
            home = target if target in heads else None
        if not way.back:
            homes[target] = home

