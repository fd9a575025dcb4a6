"""Where the values of a native tree lie in a call, from one look to the next.

What runs at most once has places of its own, which what comes later on the same path may use again. What runs again and
again reads one place and writes another, as in the loops of `jitfuse.compile.bind.control_step`: a value that a loop
goes on with lies in a value of the driver's that moves, and where it comes to a state again, what was made and what was
kept change places. Each of these owns a buffer of its size at any time. Does not own ops
(`jitfuse.graph_breaks.table`).
"""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jitfuse.backends.llvm.runtime.plan_table import ARENA
from jitfuse.compile.bind.steps import StepBinder
from jitfuse.compile.call_plans.call_plan import CallPlan, Window
from jitfuse.dtypes import itemsize
from jitfuse.graph_breaks.compiled_subgraph import CompiledSubgraph
from jitfuse.graph_breaks.paths import NativeEdge, NativePaths
from jitfuse.graph_breaks.signals import UnfitSignal
from jitfuse.graph_breaks.tree import TreeState
from jitfuse.ir.program import Meta


class Held(NamedTuple):
    """A value in C order at a place of a call."""

    value: int
    offset: int
    meta: Meta

    @property
    def place(self) -> tuple[int, int]:
        """Where it lies."""
        return self.value, self.offset

    @property
    def nbytes(self) -> int:
        """How many bytes it has."""
        return itemsize(self.meta.dtype) * math.prod(self.meta.shape)


Free = Mapping[int, tuple[int, ...]]
"""By size: offsets in the arena at which nothing lies any more."""


def made_by(plan: CallPlan) -> list[tuple[int, Window, bool]]:
    """Return for each result, in order, the value whose buffer it lies in, how, and whether it is all of it."""
    found = []
    for k in range(len(plan.results)):
        value, dtype = plan.results[str(k)]
        view = plan.views.get(value)
        if view is None:
            view = Window(("value", value), 0, dtype, plan.outputs[value][1], (), True)
        base = view.buffer[1]
        whole = view.contiguous and math.prod(view.shape) == math.prod(plan.outputs[base][1])
        found.append((base, view, whole))
    return found


class ArenaSlots:
    """The places of a part's values, in the arena of the binder."""

    def __init__(self, part: NativePaths, binder: StepBinder) -> None:
        self._part, self._binder = part, binder
        self._made: dict[NativeEdge, list[Held]] = {}
        self._heads: dict[TreeState, list[Held]] = {}
        self._kept: dict[TreeState, list[Meta]] = {}
        for edge in part.edges:
            if edge.tree_edge.target is not None:
                self._note(edge, edge.tree_edge.target)

    def _note(self, edge: NativeEdge, target: TreeState) -> None:
        """Note what a state keeps; raises UnfitSignal where an edge back to it has something else."""
        before, made = self._kept.get(edge.source, []), self._metas(edge.tree_edge.subgraph)
        kept = [before[p.number] if p.kind == "kept" else made[p.number] for p in edge.tree_edge.keep]
        if self._kept.setdefault(target, kept) != kept:
            raise UnfitSignal

    def _metas(self, subgraph: CompiledSubgraph | None) -> list[Meta]:
        if subgraph is None:
            return []
        plan = subgraph.spec.plans[self._part.training].call
        return [Meta(window.shape, window.dtype) for _, window, _ in made_by(plan)]

    # ------------------------------------------------------------------ what runs once
    def made(self, edge: NativeEdge, free: Free) -> tuple[list[Held], Free]:
        """Return where the results of an edge's subgraph lie, and what is free then."""
        known = self._made.get(edge)
        if known is not None:
            return known, free
        assert edge.home is None
        found, left = [], dict(free)
        for meta in self._metas(edge.tree_edge.subgraph):
            held = Held(ARENA, 0, meta)
            offsets = left.get(held.nbytes, ())
            if offsets:
                left[held.nbytes] = offsets[1:]
            found.append(held._replace(offset=offsets[0] if offsets else self._binder.room(held.nbytes)[1]))
        return found, left

    def freed(self, free: Free, had: Sequence[Held], kept: Sequence[Held]) -> Free:
        """Return what is free where of all that was there only this is kept."""
        if any(held.value != ARENA for held in kept):  # loops have taken the places
            return free
        left = dict(free)
        for held in had:
            if held.value == ARENA and held not in kept:
                left[held.nbytes] = (*left.get(held.nbytes, ()), held.offset)
        return left

    # ------------------------------------------------------------------ loops
    def turn(self, edge: NativeEdge, kept: Sequence[Held]) -> tuple[Sequence[Held], Mapping[int, Held]]:
        """Put what is kept where the state expects it that an edge leads to.

        Returns these places, and where values of the driver's are now whose memory has changed places.
        """
        target = edge.tree_edge.target
        assert target is not None
        if target not in self._part.heads:
            return kept, {}
        if edge.home is None:
            self._enter(target, kept)
            return self._heads[target], {}
        return self._heads[target], self._swap(self._heads[target], kept)

    def _enter(self, head: TreeState, kept: Sequence[Held]) -> None:
        """Begin the loops around a state, once in a call: they take over what is kept, and get memory of their own."""
        binder, builder = self._binder, self._binder.builder
        if len({held.place for held in kept}) < len(kept):
            raise UnfitSignal
        self._heads[head] = [Held(builder.value(), 0, held.meta) for held in kept]
        moves = [(new.value, *held.place) for new, held in zip(self._heads[head], kept, strict=True)]

        def room(meta: Meta) -> Held:
            held = Held(builder.value(), 0, meta)
            moves.append((held.value, *binder.room(held.nbytes)))
            return held

        for edge in self._part.inside(head):
            target = edge.tree_edge.target
            self._made[edge] = [room(meta) for meta in self._metas(edge.tree_edge.subgraph)]
            if target in self._part.heads and target not in self._heads:
                assert target is not None
                self._heads[target] = [room(meta) for meta in self._kept[target]]
        builder.move(moves)

    def _swap(self, places: Sequence[Held], sources: Sequence[Held]) -> dict[int, Held]:
        """Have sources change places with what lies where they belong; return where each value's memory is now."""
        where: dict[int, int] = {}
        holds: dict[int, int] = {}
        pairs = []
        for place, source in zip(places, sources, strict=True):
            if source.value == ARENA:
                raise UnfitSignal
            now = where.get(source.value, source.value)
            if now != place.value:
                pairs.append((place.value, now))
                other = holds.get(place.value, place.value)
                where[other], holds[now] = now, other
                where[source.value], holds[place.value] = place.value, source.value
        if len({source.value for source in sources}) < len(sources):
            raise UnfitSignal
        self._binder.builder.swap(pairs)
        return {value: Held(now, 0, meta) for value, now, meta in self._metas_of(where, places, sources)}

    @staticmethod
    def _metas_of(
        where: Mapping[int, int], places: Sequence[Held], sources: Sequence[Held]
    ) -> list[tuple[int, int, Any]]:
        metas = {held.value: held.meta for held in (*places, *sources)}
        return [(value, now, metas[value]) for value, now in where.items()]
