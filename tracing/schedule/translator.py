"""GraphTranslator: from a process graph to a scheduling problem, and from a schedule to a FusedProgram.

Owns pruning (ops that no output, write or state needs are left out), the order of steps (level, then node id) and
the side table of source lines. Does not choose levels (`jitfuse.tracing.schedule.scheduler`).
"""
from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from operator import itemgetter
from typing import Any

from jitfuse.base.records import Record, fresh, made
from jitfuse.dtypes import itemsize
from jitfuse.ir.program import FusedProgram, Meta, OpStep
from jitfuse.tracing.record.graph import OpNode, ProcessGraph
from jitfuse.tracing.schedule.scheduler import ILPScheduler, SchedulingProblem, size_class


class Boundary(Record, frozen=True):
    """The deliveries of a program: outputs by tree path, new state by feed, final values of written arguments."""

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
        live = graph.live_ops(boundary.delivered())
        columns: Any = (tuple([op[k] for op in live]) for k in range(len(OpNode._fields)))
        self.ids, self._names, self._inputs, self._attrs, self._results, self._modes, self._sources = columns
        self._produced = list(chain.from_iterable(self._results))

    def problem(self) -> SchedulingProblem:
        """Return the live ops with their dependencies and size classes."""
        metas = self.graph.metas
        weights: dict[int, int] = {}
        nbytes = {}
        for tensor in self._produced:
            meta = metas[tensor]
            weight = weights.get(id(meta))
            if weight is None:
                weight = weights[id(meta)] = _weight(meta)
            nbytes[tensor] = weight
        return SchedulingProblem(self.ids, self._inputs, self._results, nbytes, frozenset(self.boundary.delivered()))

    def program(self, levels: Mapping[int, int]) -> FusedProgram:
        """Return the program with its steps in the order of (level, node id)."""
        at = map(levels.__getitem__, self.ids)
        fields = zip(self.ids, self._names, self._inputs, self._attrs, self._results, self._modes, at)
        steps = sorted([made(OpStep, step) for step in fields], key=itemgetter(6))  # stable: ids ascend
        b = self.boundary
        produced = set(self._produced)
        used = set(chain.from_iterable(self._inputs)) | b.delivered() | b.writes.keys() | b.state_in
        feeds = frozenset(used - produced)
        metas, sources = self.graph.metas, dict(zip(self.ids, self._sources))
        return FusedProgram(
            feeds=feeds,
            steps=tuple(steps),
            outputs=dict(b.outputs),
            meta={i: metas[i] for i in sorted(used | produced)},
            feed_names={i: self.graph.feed_names[i] for i in sorted(feeds)},
            state_in=b.state_in,
            state_out=dict(b.state_out),
            writes=dict(b.writes),
            sources={step[0]: sources[step[0]] for step in steps},
        )


def _weight(meta: Meta) -> int:
    return size_class(meta.ndim, meta.size * itemsize(meta.dtype))


def schedule(graph: ProcessGraph, boundary: Boundary, method: str = "slack") -> FusedProgram:
    """Prune, schedule and linearise a graph into a program."""
    translator = GraphTranslator(graph, boundary)
    return translator.program(ILPScheduler(method).levels(translator.problem()))
