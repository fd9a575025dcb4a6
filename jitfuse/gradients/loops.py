"""Loops in the one form that is differentiated: a scan that also returns what each round starts with.

The reverse mode runs a loop backwards and computes each round again from there, so that memory grows by one carry a
round and not by all that a round computes. Under `jf.checkpoint` a loop of n rounds is a scan over segments of sqrt(n)
rounds, each of which is computed again as a whole, so that 2 sqrt(n) carries are in memory at a time (Chen et al.,
"Training deep nets with sublinear memory cost", 2016). A counted loop between known numbers is a scan over its counts.
"""
from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from jitfuse.gradients.bodies import arranged
from jitfuse.gradients.modes import depending
from jitfuse.gradients.rolled_loops import scan_of
from jitfuse.gradients.values import known_number, part
from jitfuse.ir.program import FusedProgram, Meta, OpStep, make_attrs
from jitfuse.tracing.program_builder import ProgramBuilder

BEFORE: Final = "before"
"""The names of a body's outputs that return its carried values as it got them begin like this."""
MANY: Final = 16
"""Shorter loops keep the carry of each round under checkpoints too."""
_LOOPS: Final = frozenset({"scan", "fori_loop", "rolled_loop"})


def prepared(program: FusedProgram, wanted: Collection[int], checkpointed: bool = False) -> FusedProgram:
    """Return a program whose loops can be differentiated, where they depend on the wanted feeds.

    `checkpointed`: the loops keep few carries, as those do whose body is a checkpoint.
    """
    if _LOOPS.isdisjoint(program.op_names):
        return program
    builder = ProgramBuilder(program)
    active = depending(builder, program.steps, wanted)
    ids: dict[int, int] = {}
    for step in program.steps:
        inputs = tuple([ids.get(i, i) for i in step.input_ids])
        builder.source = program.sources.get(step.step_id)
        made: Sequence[int] | None = None
        if step.op_name in _LOOPS and not active.isdisjoint(step.result_ids):
            made = _FORMS[step.op_name](builder, inputs, step, checkpointed)
        if made is None:
            first = builder.copied(step, inputs, [program.meta[r] for r in step.result_ids])
            made = range(first, first + len(step.result_ids))
        ids.update(zip(step.result_ids, made, strict=False))
    return builder.finish(ids)


def _scan(builder: ProgramBuilder, inputs: tuple[int, ...], step: OpStep, checkpointed: bool) -> Sequence[int] | None:
    attrs = step.attr_dict
    if any(name.startswith(BEFORE) for name in attrs["body"].outputs):
        return None
    return _remembered(builder, inputs, attrs, checkpointed)


def _counted(
    builder: ProgramBuilder, inputs: tuple[int, ...], step: OpStep, checkpointed: bool
) -> Sequence[int] | None:
    low, high = (_known_integer(builder, i) for i in inputs[:2])
    if low is None or high is None:
        return None
    attrs, length = step.attr_dict, max(high - low, 0)
    carries: int = attrs["carries"]
    counter, *others = attrs["body"].ordered_feeds
    body = attrs["body"]
    body = arranged(body, [*others[:carries], counter, *others[carries:]], body.outputs)
    counts = builder.step("arange", (), make_attrs({"start": low, "step": 1, "count": length, "dtype": "int64"}))
    operands = (*inputs[2 : 2 + carries], counts, *inputs[2 + carries :])
    return _remembered(builder, operands, {
        "body": body, "carries": carries, "scanned": 1, "length": length, "reverse": False}, checkpointed)


def _rolled(
    builder: ProgramBuilder, inputs: tuple[int, ...], step: OpStep, checkpointed: bool
) -> Sequence[int] | None:
    found = scan_of(builder, inputs, step)
    return None if found is None else found.results(_remembered(builder, found.operands, found.attrs, checkpointed))


# ---------------------------------------------------------------- scans that remember
def _remembered(
    builder: ProgramBuilder, operands: Sequence[int], attrs: Mapping[str, Any], checkpointed: bool
) -> Sequence[int]:
    """Append a scan that also returns what each round starts with, or each segment of rounds."""
    length, names = attrs["length"], attrs["body"].op_names
    if length >= MANY and (checkpointed or "checkpoint" in names):
        return _in_segments(builder, operands, attrs, math.isqrt(length))
    return builder.step_of_many("scan", operands, make_attrs({**attrs, "body": _remembering(attrs["body"], attrs)}))


def _remembering(body: FusedProgram, attrs: Mapping[str, Any]) -> FusedProgram:
    """Return a scan's body that returns its carried values as it got them too."""
    feeds = body.ordered_feeds
    return arranged(body, feeds, {**body.outputs, **{f"{BEFORE} {k}": feeds[k] for k in range(attrs["carries"])}})


def _in_segments(
    builder: ProgramBuilder, operands: Sequence[int], attrs: Mapping[str, Any], size: int
) -> list[int]:
    """Append a scan over segments of this many rounds, and one over the rounds that are left."""
    carries, end = attrs["carries"], attrs["carries"] + attrs["scanned"]
    count, rest = divmod(attrs["length"], size)
    first, last = (rest, 0) if attrs["reverse"] else (0, count * size)
    parts, captured = [builder.tensor(i) for i in operands[carries:end]], operands[end:]
    whole = [part(x, 0, first, count * size).reshape((count, size, *x.shape[1:])).id for x in parts]
    given = [*operands[:carries], *whole, *captured]
    body = _segment([builder.meta[i] for i in given], {**attrs, "length": size})
    made = builder.step_of_many("scan", given, make_attrs({
        **attrs, "body": _remembering(body, attrs), "length": count}))
    stacked = [builder.tensor(i) for i in made[carries : len(attrs["body"].outputs)]]
    stacked = [y.reshape((count * size, *y.shape[2:])) for y in stacked]
    if not rest:
        return [*made[:carries], *[y.id for y in stacked]]
    left = [part(x, 0, last, rest).id for x in parts]
    ends = builder.step_of_many("scan", (*made[:carries], *left, *captured), make_attrs({
        **attrs, "body": _remembering(attrs["body"], attrs), "length": rest}))
    tails = [builder.tensor(i) for i in ends[carries:]]
    joined = [t.call("concat", y, axis=0) if attrs["reverse"] else y.call("concat", t, axis=0)
              for y, t in zip(stacked, tails, strict=False)]
    return [*ends[:carries], *[x.id for x in joined]]


def _segment(metas: Sequence[Meta], attrs: Mapping[str, Any]) -> FusedProgram:
    """Return the rounds of a segment as the body of a scan over segments: a scan, and the checkpoint of it."""
    carries, end = attrs["carries"], attrs["carries"] + attrs["scanned"]
    builder = ProgramBuilder(FusedProgram(frozenset(), (), {}, {}))
    feeds = [builder.placeholder(m._replace(weak=False, shape=m.shape[1:] if carries <= k < end else m.shape))
             for k, m in enumerate(metas)]
    results = len(attrs["body"].outputs)

    def program(made: Sequence[int]) -> FusedProgram:
        outputs = {str(k): i for k, i in enumerate(made[:results])}
        return arranged(builder.finish({}, outputs=outputs, feeds=frozenset(feeds)), feeds, outputs)

    again = builder.step_of_many("scan", feeds, make_attrs({**attrs, "body": _remembering(attrs["body"], attrs)}))
    rule = program(again)
    made = builder.step_of_many("scan", feeds, make_attrs(attrs))
    return program(builder.step_of_many("checkpoint", (*made, *feeds), make_attrs({
        "rule": rule, "results": results, "captured": 0})))


def _known_integer(builder: ProgramBuilder, value: int) -> int | None:
    found = known_number(builder.tensor(value), ("full", "extent"))
    return found if isinstance(found, int) else None


_FORMS: Final = {"scan": _scan, "fori_loop": _counted, "rolled_loop": _rolled}
