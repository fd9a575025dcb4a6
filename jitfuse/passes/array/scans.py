"""Scans that differ in what they return alone are one loop.

The reverse mode remembers what each round of a scan starts with, and so has a scan of its own beside that of the
function. Where a call needs the results of both, the one that returns more gives them all. Values are numbered by what
computes them: equal numbers are equal values.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jitfuse.base.floats import exact_text
from jitfuse.ir.program import Attrs, FusedProgram, OpStep
from jitfuse.tracing.program_builder import ProgramBuilder


def shared(live: FusedProgram) -> FusedProgram:
    """Compute scans over equal operands once, where all results of one are among those of the other."""
    numbers = _numbered(live, {feed: ("feed", feed) for feed in live.feeds}, {})
    scans = {s.step_id: s for s in live.steps if s.op_name == "scan"}
    results = {k: {numbers[r] for r in s.result_ids} for k, s in scans.items()}
    widest = sorted(scans, key=lambda k: -len(results[k]))
    chosen = {k: next(w for w in widest if results[w] >= results[k]) for k in scans}
    if len(set(chosen.values())) == len(scans):
        return live
    builder, ids = ProgramBuilder(live), dict[int, int]()
    made: dict[int, dict[int, int]] = {}
    for step in live.steps:
        inputs = tuple([ids.get(i, i) for i in step.input_ids])
        builder.source = live.sources.get(step.step_id)
        if step.step_id not in scans:
            first = builder.copied(step, inputs, [live.meta[r] for r in step.result_ids])
            ids.update(zip(step.result_ids, range(first, first + len(step.result_ids)), strict=True))
            continue
        by = scans[chosen[step.step_id]]
        if by.step_id not in made:
            new = builder.step_of_many("scan", inputs, by.attrs)
            made[by.step_id] = {numbers[r]: i for r, i in zip(by.result_ids, new, strict=True)}
        ids.update({r: made[by.step_id][numbers[r]] for r in step.result_ids})
    return builder.finish(ids)


Known = dict[Any, int]
"""What computes a value -> its number."""


def _numbered(program: FusedProgram, feeds: Mapping[int, Any], known: Known) -> dict[int, int]:
    """Return the number of each value of a program whose feeds are these."""
    numbers = {feed: known.setdefault(key, len(known)) for feed, key in feeds.items()}
    for step in program.steps:
        inputs = tuple([numbers[i] for i in step.input_ids])
        keys = _of_scan(step, inputs, known) if step.op_name == "scan" else [
            (step.op_name, inputs, _exact(step.attrs), k) for k in range(len(step.result_ids))]
        for result, key in zip(step.result_ids, keys, strict=True):
            numbers[result] = known.setdefault(key, len(known))
    return numbers


def _exact(attrs: Attrs) -> Any:
    return tuple([(k, v.content_hash if isinstance(v, FusedProgram) else exact_text(v)) for k, v in attrs])


def _of_scan(step: OpStep, inputs: tuple[int, ...], known: Known) -> list[Any]:
    """Return what computes each result of a scan: its operands, all that it carries, and what the result is of these.

    Of a body's values the feeds are numbered by their place, so that bodies can be compared.
    """
    attrs = step.attr_dict
    body, carries = attrs.pop("body"), attrs["carries"]
    feeds = {feed: ("operand", k, body.meta[feed]) for k, feed in enumerate(body.ordered_feeds)}
    numbers = _numbered(body, feeds, known)
    outputs = [numbers[i] for i in body.outputs.values()]
    loop = inputs, tuple(sorted(attrs.items())), tuple(outputs[:carries])
    return [("scan", loop, k if k < carries else None, number) for k, number in enumerate(outputs)]
