"""Bodies of loops and branches: parts of a trace that become programs of their own.

A body is recorded into the graph of the whole function, as a range of ops. Values of the function around it, also
those of closures, are tensors from before the range and become operands. Owns the tracing of one body, which ops
belong to it, and its program. Does not own loops and branches (`jitfuse.tracing.control.combinators`).
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from jitfuse.base.records import NamedTuple
from jitfuse.errors import LeakedTracerError, UntraceableError
from jitfuse.ir.operators import ops
from jitfuse.ir.program import RANDOM_STATE, FusedProgram, Meta, OpStep
from jitfuse.tracing.record.graph import OpNode
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.record.session import Session, TracedRegion
from jitfuse.tracing.record.source import user_line


class TracedBody(NamedTuple):
    """A traced body: its parameters, outputs, ops in order, and the tensors that it captures from around it."""

    region: TracedRegion
    parameters: tuple[int, ...]
    outputs: tuple[int, ...]
    ops: list[OpNode]
    captured: set[int]


def trace_body(
    run: Recorder, name: str, parameters: Sequence[tuple[str, Meta]], fn: Callable[[list[int]], Sequence[int]], *,
    runs_once: bool = False,
) -> TracedBody:
    """Run `fn` on new tensors for the parameters (name and meta each); `fn` returns the ids of its results.

    `fn` may set the count of random calls; the old count is restored afterwards. Raises UntraceableError where `fn`
    changes state that outlives it. Of a body that runs once, writes into arrays from outside are noted (`written`).
    """
    session = run.session
    region = TracedRegion(name, len(run.graph.ops), session.region, runs_once=runs_once)
    rng_counts = run.random_calls, run.random_base
    session.region = region
    before = run.environment.altered()
    try:
        for label, meta in parameters:
            tensor = run.graph.add_feed(meta, label)
            region.parameters.append(tensor)
            session.parameters[tensor] = region
        outputs = tuple(fn(list(region.parameters)))
        after = run.environment.altered()
        if len(before) != len(after) or any(a is not b for a, b in zip(before, after)):
            raise UntraceableError(
                f"{name} writes attributes, items or variables that outlive it, at {user_line()}: it must return what "
                "it computes.")
    finally:
        session.region = region.outer
        run.random_calls, run.random_base = rng_counts
        close(session, region.start, len(run.graph.ops))
    return body_of(session, region, outputs)


def body_of(session: Session, region: TracedRegion, outputs: tuple[int, ...]) -> TracedBody:
    """Return the body that computes these outputs from the traced ops."""
    nodes, captured = _collect(session, region, outputs)
    return TracedBody(region, tuple(region.parameters), outputs, nodes, captured)


def close(session: Session, start: int, end: int) -> None:
    """Note the op range of a body; it replaces the ranges of bodies within it."""
    while session.closed and session.closed[-1][0] >= start:
        session.closed.pop()
    if end > start:
        session.closed.append((start, end))


def _collect(session: Session, region: TracedRegion, outputs: Iterable[int]) -> tuple[list[OpNode], set[int]]:
    """Return the ops of the body that the outputs need, and the captured tensors."""
    graph = session.graph
    captured: set[int] = set()
    needed: set[int] = set()
    stack = list(outputs)
    while stack:
        tensor = stack.pop()
        op_id = graph.producer[tensor]
        if op_id is None:
            owner = session.parameters.get(tensor)
            if owner is not region:
                _reject_closed(session, tensor, owner)
                captured.add(tensor)
        elif op_id not in needed:
            if op_id >= region.start or in_closed(session, op_id) or _is_literal(graph.ops[op_id]):
                needed.add(op_id)
                stack.extend(graph.ops[op_id].input_ids)
            else:
                captured.add(tensor)
    return [graph.ops[k] for k in sorted(needed)], captured


def in_closed(session: Session, op_id: int) -> bool:
    """Return whether an op was recorded in another body: it only runs where that body does, so it is repeated."""
    from bisect import bisect_right

    k = bisect_right(session.closed, (op_id, len(session.graph.ops) + 1)) - 1
    return k >= 0 and op_id < session.closed[k][1]


def _is_literal(op: OpNode) -> bool:
    row = ops.get(op.op_name)
    return row is not None and row.kind == ops.CREATION and op.op_name != "constant"


def _reject_closed(session: Session, tensor: int, owner: TracedRegion | None) -> None:
    region = session.region
    while owner is not None and region is not None:
        if region is owner:
            return
        region = region.outer
    if owner is not None:
        raise LeakedTracerError(
            f"{session.graph.describe(tensor)} of {owner.name} is used outside of it, or what was computed from it "
            "there. A loop or branch must return what it computes; do not keep its values elsewhere."
        )


def reject_leaked(session: Session, feeds: Collection[int]) -> None:
    """Raise LeakedTracerError where a program reads a parameter of the body of a loop or branch."""
    for feed in feeds:
        _reject_closed(session, feed, session.parameters.get(feed))


def program_of(
    session: Session, body: TracedBody, slots: Sequence[tuple[int | None, Meta]], captured: Sequence[int]
) -> FusedProgram:
    """Return a body as a program; its feeds are `slots`, then the captured tensors.

    A slot is a parameter (None where the body does not read it) and its meta.
    """
    graph = session.graph
    ids: dict[int, int] = {}
    meta: dict[int, Meta] = {}
    names: dict[int, str] = {}
    for feed, (parameter, meta_of_slot) in enumerate(slots):
        meta[feed] = meta_of_slot
        if parameter is not None:
            ids[parameter] = feed
            names[feed] = graph.feed_names[parameter]
    for feed, tensor in enumerate(captured, len(slots)):
        ids[tensor], meta[feed] = feed, graph.metas[tensor]
        name = graph.feed_names.get(tensor)
        if name is not None:
            names[feed] = "random state" if name == RANDOM_STATE else name
    feeds = frozenset(meta)
    steps: list[OpStep] = []
    sources: dict[int, str] = {}
    for number, op in enumerate(body.ops):
        for tensor in op.result_ids:
            ids[tensor] = len(meta)
            meta[ids[tensor]] = graph.metas[tensor]
        inputs, results = (tuple(ids[t] for t in side) for side in (op.input_ids, op.result_ids))
        steps.append(OpStep(number, op.op_name, inputs, op.attrs, results, op.mode_sensitive, number))
        sources[number] = op.source
    outputs = {str(k): ids[tensor] for k, tensor in enumerate(body.outputs)}
    return FusedProgram(feeds, tuple(steps), outputs, meta, names, sources=sources)
