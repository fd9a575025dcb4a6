"""The slots of values in the native table of a trace tree.

A value made at most once per call has a slot of its own, which later values of the same path may reuse. A loop reads
one slot and writes another, as in `jitfuse.compile.bind.control_step`. A value that a loop carries lies in a driver
value whose address changes. On a back edge the values just made and the values carried so far swap buffers, so each
owns one buffer of its size at any time. Does not own ops (`jitfuse.graph_breaks.table`).
"""
from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
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
    """A value in C order, and its slot: a value of the driver and an offset."""

    value: int
    offset: int
    meta: Meta

    @property
    def location(self) -> tuple[int, int]:
        """The slot: value and offset."""
        return self.value, self.offset

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return itemsize(self.meta.dtype) * math.prod(self.meta.shape)


Free = Mapping[int, tuple[int, ...]]
"""By size: arena offsets that are free again."""


def made_by(plan: CallPlan) -> list[tuple[int, Window, bool]]:
    """Return for each result, in order: the value with its buffer, the window, whether it covers the buffer."""
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
    """The slots of a part's values, in the arena of the binder."""

    def __init__(self, part: NativePaths, binder: StepBinder) -> None:
        self._part, self._binder = part, binder
        self._made: dict[NativeEdge, list[Held]] = {}
        self._heads: dict[TreeState, list[Held]] = {}
        self._live: dict[TreeState, list[Meta]] = {}
        self._brought: dict[tuple[TreeState, Hashable], list[Held]] = {}
        for edge in part.edges:
            if edge.tree_edge.target is not None:
                self._note(edge, edge.tree_edge.target)

    def _note(self, edge: NativeEdge, target: TreeState) -> None:
        """Record the values live at a state; raises UnfitSignal if a back edge arrives with others."""
        before = [*self._live.get(edge.source, []), *edge.source.brings.get(edge.key, ())]
        made = self._metas(edge.tree_edge.subgraph)
        live = [before[p.number] if p.kind == "live" else made[p.number] for p in edge.tree_edge.keep]
        if self._live.setdefault(target, live) != live:
            raise UnfitSignal

    def _metas(self, subgraph: CompiledSubgraph | None) -> list[Meta]:
        if subgraph is None:
            return []
        plan = subgraph.spec.plans[self._part.training].call
        return [Meta(window.shape, window.dtype) for _, window, _ in made_by(plan)]

    # ------------------------------------------------------------------ what runs once
    def made(self, edge: NativeEdge, free: Free) -> tuple[list[Held], Free]:
        """Return the slots of the results of an edge's subgraph, and the slots that are free then."""
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

    def brought(self, state: TreeState, key: Hashable) -> list[Held]:
        """Return the slots of what an answer brings: the same on all edges that arrive at a state."""
        known = self._brought.get((state, key))
        if known is None:
            known = self._brought[state, key] = [
                Held(*self._binder.room(Held(0, 0, meta).nbytes), meta) for meta in state.brings[key]]
        return known

    def freed(self, free: Free, had: Sequence[Held], live: Sequence[Held]) -> Free:
        """Return the free slots, including those of `had` that are not in `live`."""
        if any(held.value != ARENA for held in live):  # loops have taken the slots
            return free
        left = dict(free)
        for held in had:
            if held.value == ARENA and held not in live:
                left[held.nbytes] = (*left.get(held.nbytes, ()), held.offset)
        return left

    # ------------------------------------------------------------------ loops
    def turn(self, edge: NativeEdge, live: Sequence[Held]) -> tuple[Sequence[Held], Mapping[int, Held]]:
        """Move live values to the slots that the target state of an edge expects.

        Returns these slots, and the new slots of driver values whose buffers were swapped.
        """
        target = edge.tree_edge.target
        assert target is not None
        if target not in self._part.heads:
            return live, {}
        if edge.home is None:
            self._enter(target, live)
            return self._heads[target], {}
        return self._heads[target], self._swap(self._heads[target], live)

    def _enter(self, head: TreeState, live: Sequence[Held]) -> None:
        """Enter the loops around a state, once in a call: they take over the live values, and get own buffers."""
        binder, builder = self._binder, self._binder.builder
        if len({held.location for held in live}) < len(live):
            raise UnfitSignal
        self._heads[head] = [Held(builder.value(), 0, held.meta) for held in live]
        moves = [(new.value, *held.location) for new, held in zip(self._heads[head], live, strict=True)]

        def room(meta: Meta) -> Held:
            held = Held(builder.value(), 0, meta)
            moves.append((held.value, *binder.room(held.nbytes)))
            return held

        asking = {head}
        for edge in self._part.inside(head):
            target = edge.tree_edge.target
            self._made[edge] = [room(meta) for meta in self._metas(edge.tree_edge.subgraph)]
            if target is not None:
                asking.add(target)
                if target in self._part.heads and target not in self._heads:
                    self._heads[target] = [room(meta) for meta in self._live[target]]
        for state in asking:
            for key in self._part.following.get(state, ()):
                if (state, key) not in self._brought and state.brings.get(key):
                    self._brought[state, key] = [room(meta) for meta in state.brings[key]]
        builder.move(moves)

    def _swap(self, targets: Sequence[Held], sources: Sequence[Held]) -> dict[int, Held]:
        """Swap the buffers of `sources` with those of `targets`; return where the buffer of each value is now."""
        where: dict[int, int] = {}
        holds: dict[int, int] = {}
        pairs = []
        for target, source in zip(targets, sources, strict=True):
            if source.value == ARENA:
                raise UnfitSignal
            now = where.get(source.value, source.value)
            if now != target.value:
                pairs.append((target.value, now))
                other = holds.get(target.value, target.value)
                where[other], holds[now] = now, other
                where[source.value], holds[target.value] = target.value, source.value
        if len({source.value for source in sources}) < len(sources):
            raise UnfitSignal
        self._binder.builder.swap(pairs)
        return {value: Held(now, 0, meta) for value, now, meta in self._metas_of(where, targets, sources)}

    @staticmethod
    def _metas_of(
        where: Mapping[int, int], targets: Sequence[Held], sources: Sequence[Held]
    ) -> list[tuple[int, int, Any]]:
        metas = {held.value: held.meta for held in (*targets, *sources)}
        return [(value, now, metas[value]) for value, now in where.items()]
