"""Subgraphs of a trace: programs that compute some of its tensors from the available ones.

Owns `cut`. A tensor is available if it is live across the last break (`Session.live`) or a feed; all others are
computed, again if needed. Subgraphs with equal steps have equal keys, wherever they are in the trace. Does not own
which tensors are live, or where graph breaks are (`jitfuse.graph_breaks`).
"""
from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from jitfuse.base.records import NamedTuple, Record
from jitfuse.dtypes import itemsize
from jitfuse.errors import UntraceableError
from jitfuse.ir.program import FusedProgram, Meta
from jitfuse.tracing.control.reroll.long_runs import reroll_long
from jitfuse.tracing.record import layout
from jitfuse.tracing.record.graph import OpNode, ProcessGraph
from jitfuse.tracing.record.session import Session
from jitfuse.tracing.schedule.translator import Boundary, schedule


class ValueSlot(NamedTuple):
    """Where a value is: "live" (its slot among the live tensors), "feed" (its id) or "made" (a subgraph's result)."""

    kind: str
    number: int


class Input(NamedTuple):
    """A feed of a subgraph: "array", "python" or "numpy" as in `FeedSource`, its meta, strides and name."""

    kind: str
    meta: Meta
    strides: tuple[int, ...]
    name: str


class TracedSubgraph(Record, frozen=True):
    """A subgraph of a trace: its graph with the feeds first, in the order of `inputs`; not scheduled yet."""

    key: Hashable
    graph: ProcessGraph
    boundary: Boundary
    inputs: tuple[Input, ...]
    slots: tuple[ValueSlot, ...]

    def program(self, method: str, *, many: bool = False) -> FusedProgram:
        """Return the subgraph as a program, its outputs named by their order; `many`: it is one of many subgraphs."""
        return schedule(*reroll_long(self.graph, self.boundary, on_host=True, many=many), method)


def cut(
    session: Session, outputs: Mapping[str, int], writes: Mapping[int, int], *, for_later: bool = False
) -> TracedSubgraph:
    """Return the subgraph that computes these outputs, and the final values of written feeds.

    `live`: the outputs are inputs of later subgraphs. These take C order, so that transposes are copied.
    """
    nodes, leaves = _needed(session, (*outputs.values(), *writes.values()))
    leaves |= set(writes)
    slots = sorted((_slot_of(session, tensor) for tensor in leaves), key=lambda p: (p.kind != "live", p.number))
    at_hand = {_slot_of(session, tensor): tensor for tensor in leaves}
    graph = ProcessGraph()
    ids: dict[int, int] = {}
    inputs: list[Input] = []
    for slot in slots:
        tensor = at_hand[slot]
        made = _input(session, slot, tensor, f"live[{len(inputs)}]")
        inputs.append(made)
        ids[tensor] = graph.add_feed(made.meta, made.name)
    steps = []
    for op in nodes:
        operands = tuple(ids[t] for t in op.input_ids)
        metas = [session.graph.metas[t] for t in op.result_ids]
        if len(metas) == 1:
            made_ids: tuple[int, ...] = (graph.add_op(
                op.op_name, operands, op.attrs, metas[0], mode_sensitive=op.mode_sensitive, source=op.source
            ),)
        else:
            made_ids = graph.add_op_of_many(op.op_name, operands, op.attrs, metas, source=op.source)
        ids.update(zip(op.result_ids, made_ids, strict=True))
        steps.append((op.op_name, operands, repr(op.attrs), op.mode_sensitive, op.source))  # repr: 0.0 is not -0.0
    for tensor in outputs.values() if for_later else ():
        made_by = graph.producer[ids[tensor]]
        if made_by is not None and graph.ops[made_by].op_name == "transpose":
            of = graph.ops[made_by]
            steps.append(("copy", (ids[tensor],), "()", of.mode_sensitive, of.source))
            ids[tensor] = graph.add_op(
                "copy", (ids[tensor],), (), graph.metas[ids[tensor]], mode_sensitive=of.mode_sensitive, source=of.source
            )
    boundary = Boundary(
        {name: ids[t] for name, t in outputs.items()}, writes={ids[f]: ids[t] for f, t in writes.items()}
    )
    key = (
        tuple(inputs), tuple(steps), tuple(boundary.outputs.items()), tuple(boundary.writes.items()),
    )
    return TracedSubgraph(key, graph, boundary, tuple(inputs), tuple(slots))


def _slot_of(session: Session, tensor: int) -> ValueSlot:
    live = session.live.get(tensor)
    return ValueSlot("feed", tensor) if live is None else ValueSlot("live", live)


def _needed(session: Session, wanted: Iterable[int]) -> tuple[list[OpNode], set[int]]:
    """Return the ops from the available tensors to the wanted ones, in order, and the available tensors that they read.
    """
    graph, needed, leaves = session.graph, set(), set()
    stack = list(wanted)
    while stack:
        tensor = stack.pop()
        op_id = graph.producer[tensor]
        if tensor in session.live or (op_id is None and tensor in session.feeds):
            leaves.add(tensor)
        elif op_id is None:
            raise UntraceableError(f"{graph.describe(tensor)} is needed after it was given up")
        elif op_id not in needed:
            needed.add(op_id)
            stack.extend(graph.ops[op_id].input_ids)
    return [graph.ops[k] for k in sorted(needed)], leaves


def _input(session: Session, slot: ValueSlot, tensor: int, name: str) -> Input:
    if slot.kind == "live":
        meta = session.graph.metas[tensor]
        strides = layout.contiguous(meta.shape, itemsize(meta.dtype)).strides
        return Input("array", meta, strides, name)
    feed = session.feeds[tensor]
    if feed.kind == "state":
        return Input("array", feed.meta, (8,), "numbers drawn")
    return Input(feed.kind, feed.meta, feed.layout.strides, session.graph.feed_names[tensor])
