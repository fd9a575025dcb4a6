"""The trace tree of a function with graph breaks: a state per graph break, and edges that lead from one to the next.

A state is a point of the user's function that reads traced values: its question. For each answer an edge leads on: it
runs a subgraph and asks the next question, or returns the call's result. Loops are edges back to an earlier state. Owns
states, edges and the walk along known edges, for which no user code runs. Does not own how edges are made
(`jitfuse.graph_breaks.building`).
"""
from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from jitfuse.base.records import NamedTuple, Record, fresh
from jitfuse.compile.guards.matching import Conditions
from jitfuse.compile.run.delivery import Delivery
from jitfuse.graph_breaks.compiled_subgraph import CompiledSubgraph
from jitfuse.ir.program import Meta
from jitfuse.tracing.interception.chain import Chain
from jitfuse.tracing.observe.python_state import PythonState
from jitfuse.tracing.record.device_array import HostArray, unwrapped
from jitfuse.tracing.record.value_reads import Answer, Question
from jitfuse.tracing.results.returned import ResultTree
from jitfuse.tracing.subgraph import ValueSlot
from jitfuse.tracing.trace import FeedSource

MAX_SEEN: Final = 64
"""Array contents by which native code selects an answer, per graph break."""


class TreeState(Record, eq=False):
    """A question that the function asks, and the known paths to continue.

    asked     the tensors that the question is about, as that run numbers them
    live      the live tensors in order, as the first run that came here numbers them
    mark      a hash of what that run had recorded so far
    python    the fingerprint of Python's variables, if there is one; equal ones continue equally
    """

    question: Question | None = None
    parent: TreeState | None = None
    answer: Answer | None = None
    """The answer to the parent's question that leads here."""
    asked: tuple[int, ...] = ()
    live: tuple[int, ...] = ()
    mark: Hashable = None
    python: PythonState | None = None
    edges: dict[Hashable, list[Edge]] = fresh(default_factory=dict)
    """By the answer's key; edges of one key differ in their conditions."""
    seen: dict[bytes, Hashable] = fresh(default_factory=dict)
    """The answers' keys by the bytes of the array read, if the answer is no number."""
    brings: dict[Hashable, tuple[Meta, ...]] = fresh(default_factory=dict)
    """By the answer's key: the metas of the arrays that it brings, which are live after those in `live`."""

    def path(self) -> list[tuple[TreeState, Answer]]:
        """Return the earlier states of this path, each with the answer that led on, from the first."""
        found: list[tuple[TreeState, Answer]] = []
        state = self
        while state.parent is not None:
            assert state.answer is not None
            if state.parent.question is not None:
                found.append((state.parent, state.answer))
            state = state.parent
        return found[::-1]


class TreeResult(Record, frozen=True):
    """The result at the end of a path: its tree, the slots of its outputs, and whether they are torch's."""

    tree: ResultTree
    outputs: Mapping[str, ValueSlot]
    torch: bool = False


class Edge(Record, eq=False):
    """What happens between one graph break and the next, or the end.

    conditions  what must hold of the call to take this edge; None: no more than for the edges before
    feeds       feeds that are read for the first time
    moves_rng   whether there were RNG calls
    subgraph    what runs; None if nothing is left to compute
    inputs      the slots of the subgraph's inputs
    asked       the slots of the question's arrays
    keep        the slots of the values that are live at the target, in order
    target      the next state; None at the end of a path, where there is a `result`
    """

    conditions: Conditions | None
    feeds: Mapping[int, FeedSource]
    moves_rng: bool
    subgraph: CompiledSubgraph | None
    inputs: tuple[ValueSlot, ...]
    asked: tuple[ValueSlot, ...] = ()
    keep: tuple[ValueSlot, ...] = ()
    target: TreeState | None = None
    result: TreeResult | None = None


class Walk:
    """One call along the tree: its arguments, bound feeds, and the values live between subgraphs."""

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any], random: np.ndarray[Any, Any]) -> None:
        self.args, self.kwargs = args, kwargs
        self._random = random
        self.rng_state: np.ndarray[Any, Any] | None = None
        """The RNG state of the call, from its first RNG call on."""
        self.bound: dict[int, Any] = {}
        self.live: tuple[Any, ...] = ()
        self.eager = False
        """Whether an eager array was read, so that results are eager arrays too."""
        self.torch = False
        """Whether results are torch tensors."""
        self._met: set[int] = set()

    def met(self, edges: Iterable[Edge]) -> None:
        """Record that the call meets the conditions of edges."""
        self._met.update(map(id, edges))

    def meets(self, edge: Edge) -> bool:
        """Return whether the call meets an edge's conditions; each edge is checked once, also in a loop."""
        if edge.conditions is None or id(edge) in self._met:
            return True
        if not edge.conditions.hold(self.args, self.kwargs):
            return False
        self._met.add(id(edge))
        return True

    def edge_from(self, position: TreePosition) -> Edge | None:
        """Return the known edge by which a call continues; None if there is none."""
        return next((e for e in position.state.edges.get(position.key, ()) if self.meets(e)), None)

    def bind(self, edge: Edge) -> None:
        """Read the feeds that an edge is the first to need."""
        for feed, source in edge.feeds.items():
            if feed not in self.bound and isinstance(source.source, Chain):
                found = source.source.resolve(self.args, self.kwargs)
                self.eager = self.eager or isinstance(found, HostArray)
                self.bound[feed] = unwrapped(found)

    def run(self, edge: Edge) -> Answer | None:
        """Run an edge's subgraph and move on; return the answer to the next question, None at the end of a path."""
        if edge.moves_rng:
            self._take_rng_state()
        made: Sequence[Any] = ()
        if edge.subgraph is not None:
            made = edge.subgraph(*[self._value(slot, ()) for slot in edge.inputs])
        if edge.target is None:
            self.live = tuple(made)
            return None
        live = [self._value(slot, made) for slot in edge.keep]
        return self.goes_on(edge.target, live, [self._value(slot, made) for slot in edge.asked])

    def goes_on(self, state: TreeState, live: Sequence[Any], asked: Sequence[Any]) -> Answer:
        """Arrive at a state with these values; return the answer to its question."""
        assert state.question is not None
        answer = state.question.ask(*map(np.asarray, asked))
        self.live = (*live, *answer.arrays)
        if state.question.reads_data and state.question.number is None and len(state.seen) < MAX_SEEN:
            state.seen[np.asarray(asked[0]).tobytes()] = answer.key
        if state.question.brings:
            state.brings[answer.key] = tuple(Meta(a.shape, a.dtype.name) for a in answer.arrays)
            answer = answer._replace(arrays=())  # the tree outlives the call
        return answer

    def finish(self, edge: Edge) -> Delivery:
        """Run the last edge and return the delivery of the call's results."""
        assert edge.result is not None
        before = self.live
        self.torch = edge.result.torch
        self.run(edge)
        made = self.live
        outputs = {
            path: before[slot.number] if slot.kind == "live" else made[slot.number]
            for path, slot in edge.result.outputs.items()
        }
        return Delivery.of(edge.result.tree, outputs, self.bound)

    def _value(self, slot: ValueSlot, made: Sequence[Any]) -> Any:
        if slot.kind == "live":
            return self.live[slot.number]
        if slot.kind == "made":
            return made[slot.number]
        found = self.bound.get(slot.number, self.rng_state)
        assert found is not None
        return found

    def _take_rng_state(self) -> None:
        """Copy the RNG state for the call and advance the original; once."""
        if self.rng_state is None:
            self.rng_state = self._random.copy()
            self._random[1] += 1

    def restore_rng_state(self) -> None:
        """Undo `_take_rng_state` for a call that begins anew, unless other code has used the RNG since."""
        if self.rng_state is not None and self._random.tolist() == [self.rng_state[0], self.rng_state[1] + 1]:
            self._random[1] -= 1
        self.rng_state = None


class TreePosition(NamedTuple):
    """Where a call is: a state, the answer to its question, and the key of the edges that lead on."""

    state: TreeState
    answer: Answer | None
    key: Hashable


class TraceTree:
    """The states of one function, from the one before its first line."""

    def __init__(self) -> None:
        self.start = TreeState()
        self.size = 0
        """How many edges there are."""

    def __del__(self) -> None:
        """Break the reference cycles between states: the last call that walks along them has ended."""
        todo = [self.start]
        while todo:
            state = todo.pop()
            state.parent = None
            for edge in (e for edges in state.edges.values() for e in edges):
                if edge.target is not None and edge.target.parent is state:
                    todo.append(edge.target)
                edge.target = None
            state.edges = {}


def start_key(args: Sequence[Any], kwargs: Mapping[str, Any], training: bool) -> Hashable:
    """Return the key of the edges with which a call can begin."""
    return len(args), tuple(kwargs), training


def go_along(walk: Walk, position: TreePosition) -> tuple[TreePosition, Edge | None]:
    """Follow known edges; return the position reached, and the last edge of the path, which has not run yet.

    The edge is None if the path is not known to its end.
    """
    while True:
        edge = walk.edge_from(position)
        if edge is None:
            return position, None
        walk.bind(edge)
        if edge.target is None:
            return position, edge
        answer = walk.run(edge)
        assert answer is not None
        position = TreePosition(edge.target, answer, answer.key)
