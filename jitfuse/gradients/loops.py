"""Loops in the one form that is differentiated: a scan that also returns what each round starts with.

The reverse mode runs a loop backwards and computes each round again from there, so that memory grows by one carry a
round and not by all that a round computes. A counted loop between known numbers is a scan over its counts.
"""
from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from jitfuse.gradients.bodies import arranged
from jitfuse.gradients.modes import depending
from jitfuse.ir.program import FusedProgram, OpStep, make_attrs
from jitfuse.ir.semantics import rerolled
from jitfuse.tracing.program_builder import ProgramBuilder

BEFORE: Final = "before"
"""The names of a body's outputs that return its carried values as it got them begin like this."""
_LOOPS: Final = frozenset({"scan", "fori_loop", "rolled_loop"})


def prepared(program: FusedProgram, wanted: Collection[int]) -> FusedProgram:
    """Return a program whose loops can be differentiated, where they depend on the wanted feeds."""
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
            made = _FORMS[step.op_name](builder, inputs, step)
        if made is None:
            first = builder.copied(step, inputs, [program.meta[r] for r in step.result_ids])
            made = range(first, first + len(step.result_ids))
        ids.update(zip(step.result_ids, made, strict=False))
    return builder.finish(ids)


def _scan(builder: ProgramBuilder, inputs: tuple[int, ...], step: OpStep) -> Sequence[int] | None:
    attrs = step.attr_dict
    if any(name.startswith(BEFORE) for name in attrs["body"].outputs):
        return None
    body = _remembering(attrs["body"], attrs["body"].ordered_feeds, attrs["carries"])
    return builder.step_of_many("scan", inputs, make_attrs({**attrs, "body": body}))


def _counted(builder: ProgramBuilder, inputs: tuple[int, ...], step: OpStep) -> Sequence[int] | None:
    low, high = (_known_integer(builder, i) for i in inputs[:2])
    if low is None or high is None:
        return None
    attrs, length = step.attr_dict, max(high - low, 0)
    carries: int = attrs["carries"]
    counter, *others = attrs["body"].ordered_feeds
    body = _remembering(attrs["body"], [*others[:carries], counter, *others[carries:]], carries)
    counts = builder.step("arange", (), make_attrs({"start": low, "step": 1, "count": length, "dtype": "int64"}))
    operands = (*inputs[2 : 2 + carries], counts, *inputs[2 + carries :])
    return builder.step_of_many("scan", operands, make_attrs(
        {"body": body, "carries": carries, "scanned": 1, "length": length, "reverse": False}))


def is_scan(step: OpStep) -> bool:
    """Tell whether a step is no re-rolled loop, or one whose iterations read no array that they write: a scan."""
    if step.op_name != "rolled_loop":
        return True
    attrs = step.attr_dict
    carries, arrays, body = attrs["carries"], attrs["arrays"], attrs["body"]
    reads, writes = rerolled.accesses(attrs["reads"]), rerolled.accesses(attrs["writes"])
    whole = body.ordered_feeds[carries + len(reads) :][:arrays]
    return (not any(window.weak or window.operand < arrays for window in reads)
            and len({window.operand for window in writes}) == len(writes)
            and not any(body.consumers.get(feed) for feed in whole))


def _rolled(builder: ProgramBuilder, inputs: tuple[int, ...], step: OpStep) -> Sequence[int] | None:
    if not is_scan(step):
        return None
    attrs = step.attr_dict
    carries, length, arrays = attrs["carries"], attrs["length"], attrs["arrays"]
    sources, reads = inputs[carries:], rerolled.accesses(attrs["reads"])
    parts = [_parts(builder.tensor(sources[window.operand]), window, length).id for window in reads]
    body = _remembering(attrs["body"], attrs["body"].ordered_feeds, carries)
    made = builder.step_of_many("scan", (*inputs[:carries], *parts, *sources), make_attrs(
        {"body": body, "carries": carries, "scanned": len(parts), "length": length, "reverse": False}))
    written = list(sources[:arrays])
    for window, stacked in zip(rerolled.accesses(attrs["writes"]), made[carries:], strict=False):
        x = builder.tensor(written[window.operand])
        written[window.operand] = _written(x, window, builder.tensor(stacked), length).id
    return [*made[:carries], *written]


def _parts(x: Any, window: rerolled.IterationWindow, length: int) -> Any:
    """Return the windows of all iterations, stacked along a first axis."""
    flat = x.reshape((x.size,))
    if _is_range(window):
        whole = flat.call("slice", starts=(window.offset,), steps=(1,), counts=(length * window.step,))
        return whole.reshape((length, *window.shape))
    return flat.call("gather", _places(x, window, length), axes=(0,), place=0)


def _written(x: Any, window: rerolled.IterationWindow, stacked: Any, length: int) -> Any:
    """Return an array with the windows of all iterations replaced."""
    flat = x.reshape((x.size,))
    if _is_range(window):
        values = stacked.reshape((stacked.size,))
        made = flat.call("update_slice", values, starts=(window.offset,), steps=(1,), counts=(stacked.size,))
    else:
        made = flat.call("scatter", stacked, _places(x, window, length), axes=(0,), place=0, combine="set")
    return made.reshape(x.shape)


def _is_range(window: rerolled.IterationWindow) -> bool:
    """Tell whether the windows of iterations lie one behind the other."""
    return window.contiguous and window.step == math.prod(window.shape)


def _places(x: Any, window: rerolled.IterationWindow, length: int) -> Any:
    """Return the indices of the windows of all iterations in the flat array."""
    rank, index = len(window.shape), None
    for k, (count, stride) in enumerate(zip((length, *window.shape), (window.step, *window.strides), strict=True)):
        along = x.create("arange", start=0, step=stride, count=count, dtype="int64") if stride else x.create(
            "zeros", shape=(count,), dtype="int64")
        along = along.reshape(tuple(count if a == k else 1 for a in range(rank + 1)))
        index = along.add(window.offset) if index is None else index.add(along)
    return index


def _remembering(body: FusedProgram, feeds: Sequence[int], carries: int) -> FusedProgram:
    """Return a scan's body, its feeds in this order, that returns its carried values as it got them too."""
    outputs: Mapping[str, int] = {**body.outputs, **{f"{BEFORE} {k}": feeds[k] for k in range(carries)}}
    return arranged(body, feeds, outputs)


def _known_integer(builder: ProgramBuilder, value: int) -> int | None:
    """Return the integer that a value is in every call, or None."""
    maker: Any = builder.makers.get(value)
    while maker is not None and maker.op_name in ("astype", "python_number", "copy"):
        maker = builder.makers.get(maker.input_ids[0])
    if maker is None or maker.op_name not in ("full", "extent") or maker.attr("shape", ()) != ():
        return None
    found = maker.attr("value")
    return found if isinstance(found, int) else None


_FORMS: Final = {"scan": _scan, "fori_loop": _counted, "rolled_loop": _rolled}
