"""GraphTranslator: a process graph as a scheduling problem, and a schedule back as a FusedProgram.

Owns pruning (what no output, write or state needs is left out), the order of steps (level, then node id) and
the side table of source lines. Does not choose levels (`jitfuse.tracing.scheduler`).
"""
from __future__ import annotations

from collections.abc import Mapping

from jitfuse.dtypes import itemsize
from jitfuse.ir.program import FusedProgram, OpStep
from jitfuse.records import Record, fresh
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
        weights: dict[int, int] = {}
        for op in self.ops:
            for t in op.result_ids:
                meta = self.graph.metas[t]
                weights[t] = size_class(meta.ndim, meta.size * itemsize(meta.dtype))
        return SchedulingProblem(
            ids=tuple(op.id for op in self.ops),
            inputs=tuple(op.input_ids for op in self.ops),
            results=tuple(op.result_ids for op in self.ops),
            nbytes=weights,
            kept=frozenset(self.boundary.delivered()),
        )

    def program(self, levels: Mapping[int, int]) -> FusedProgram:
        """Return the program whose steps stand in the order of (level, node id)."""
        ordered = sorted(self.ops, key=lambda op: (levels[op.id], op.id))
        steps = tuple(
            OpStep(op.id, op.op_name, op.input_ids, op.attrs, op.result_ids, op.mode_sensitive, levels[op.id])
            for op in ordered
        )
        b = self.boundary
        produced = {r for op in self.ops for r in op.result_ids}
        used = {i for op in self.ops for i in op.input_ids} | b.delivered() | b.writes.keys() | b.state_in
        feeds = frozenset(used - produced)
        return FusedProgram(
            feeds=feeds,
            steps=steps,
            outputs=dict(b.outputs),
            meta={i: self.graph.metas[i] for i in sorted(used | produced)},
            feed_names={i: self.graph.feed_names[i] for i in sorted(feeds)},
            state_in=b.state_in,
            state_out=dict(b.state_out),
            writes=dict(b.writes),
            sources={op.id: op.source for op in ordered},
        )


def schedule(graph: ProcessGraph, boundary: Boundary, method: str = "slack") -> FusedProgram:
    """Prune, schedule and linearise a graph into a program."""
    translator = GraphTranslator(graph, boundary)
    return translator.program(ILPScheduler(method).levels(translator.problem()))
