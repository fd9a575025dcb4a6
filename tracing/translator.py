"""GraphTranslator: a process graph as a scheduling problem, and a schedule back as a FusedProgram.

Owns pruning (what no output, write or state needs is left out), the order of steps (level, then node id) and
the side table of source lines. Does not choose levels (`jitfuse.tracing.scheduler`).
"""
from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from jitfuse.dtypes import itemsize
from jitfuse.ir.program import FusedProgram, Meta, OpStep
from jitfuse.records import Record, fresh, made
from jitfuse.tracing.graph import OpNode, ProcessGraph
from jitfuse.tracing.scheduler import ILPScheduler, SchedulingProblem, size_class


class Boundary(Record, frozen=True):
    """What a program delivers: outputs by tree path, new state by feed, what written arguments hold."""

    outputs: Mapping[str, int]
    state_in: frozenset[int] = frozenset()
    state_out: Mapping[int, int] = fresh(default_factory=dict)
    writes: Mapping[int, int] = fresh(default_factory=dict)

    def delivered(self) -> set[int]:
        """Return every id that the program must produce."""
        return {*self.outputs.values(), *self.state_out.values(), *self.writes.values()}


class GraphTranslator:
    """Translates one graph for one boundary."""

    def __init__(self, graph: ProcessGraph, boundary: Boundary) -> None:
        self.graph = graph
        self.boundary = boundary
        self.ops: list[OpNode] = graph.live_ops(boundary.delivered())

    def problem(self) -> SchedulingProblem:
        """Return the live ops with their dependencies and size classes."""
        metas = self.graph.metas
        return SchedulingProblem(
            ids=tuple([op.id for op in self.ops]),
            inputs=tuple([op.input_ids for op in self.ops]),
            results=tuple([op.result_ids for op in self.ops]),
            nbytes={t: _weight(metas[t]) for op in self.ops for t in op.result_ids},
            kept=frozenset(self.boundary.delivered()),
        )

    def program(self, levels: Mapping[int, int]) -> FusedProgram:
        """Return the program whose steps stand in the order of (level, node id)."""
        ordered = sorted(self.ops, key=lambda op: levels[op.id])  # which have ascending ids
        steps = tuple([
            made(OpStep, (number, name, inputs, attrs, results, mode_sensitive, levels[number]))
            for number, name, inputs, attrs, results, mode_sensitive, _ in ordered
        ])
        b = self.boundary
        produced = {r for op in self.ops for r in op.result_ids}
        used = {i for op in self.ops for i in op.input_ids} | b.delivered() | b.writes.keys() | b.state_in
        feeds = frozenset(used - produced)
        metas = self.graph.metas
        return FusedProgram(
            feeds=feeds,
            steps=steps,
            outputs=dict(b.outputs),
            meta={i: metas[i] for i in sorted(used | produced)},
            feed_names={i: self.graph.feed_names[i] for i in sorted(feeds)},
            state_in=b.state_in,
            state_out=dict(b.state_out),
            writes=dict(b.writes),
            sources={op.id: op.source for op in ordered},
        )


@lru_cache(maxsize=4096)
def _weight(meta: Meta) -> int:
    return size_class(meta.ndim, meta.size * itemsize(meta.dtype))


def schedule(graph: ProcessGraph, boundary: Boundary, method: str = "slack") -> FusedProgram:
    """Prune, schedule and linearise a graph into a program."""
    translator = GraphTranslator(graph, boundary)
    return translator.program(ILPScheduler(method).levels(translator.problem()))
