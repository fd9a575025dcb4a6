"""Moves literals back into the bodies of re-rolled loops, at any depth, where they are the same in all iterations.

While loops are being found, literals are operands, so that bodies that differ only in numbers are equal. Kernels are
faster with known numbers. Does not own how bodies are made (`jitfuse.tracing.control.reroll.body`).
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jitfuse.ir.program import Attrs, FusedProgram, OpStep, make_attrs
from jitfuse.ir.semantics.rerolled import accesses


def literals_inside(
    op_name: str, inputs: tuple[int, ...], attrs: Attrs, known: Mapping[int, OpStep]
) -> tuple[tuple[int, ...], Attrs]:
    """Return the operands and attributes of a step; a re-rolled loop's literals, in `known`, move into its body."""
    if op_name != "rolled_loop":
        return inputs, attrs
    values: dict[str, Any] = dict(attrs)
    reads = accesses(values["reads"])
    first = values["carries"] + values["arrays"]
    windows = {values["carries"] + access.operand for access in reads}
    inner = {k: known[t] for k, t in enumerate(inputs) if k >= first and t in known and k not in windows}
    body: FusedProgram = values["body"]
    feeds = body.ordered_feeds
    literals = {feeds[k + len(reads)]: step for k, step in inner.items()}
    kept = [k for k in range(len(inputs)) if k not in inner]
    numbers = {old - values["carries"]: new - values["carries"] for new, old in enumerate(kept)}
    moved = [access._replace(operand=numbers[access.operand]).coded() for access in reads]
    attrs = make_attrs({**values, "body": _with_literals(body, literals), "reads": moved})
    return tuple(inputs[k] for k in kept), attrs


def _with_literals(body: FusedProgram, literals: Mapping[int, OpStep]) -> FusedProgram:
    """Return a body that makes some of its feeds itself, and likewise in its inner loops."""
    made = [step._replace(result_ids=(feed,)) for feed, step in literals.items()]
    known = {s.result_id: s for s in [*made, *body.steps] if s.op_name == "full" and s.attr("shape") == ()}
    steps = [*made]
    for step in body.steps:
        inputs, attrs = literals_inside(step.op_name, step.input_ids, step.attrs, known)
        steps.append(step._replace(input_ids=inputs, attrs=attrs))
    read = {t for s in steps for t in s.input_ids} | set(body.outputs.values())
    steps = [s for s in steps if not read.isdisjoint(s.result_ids)]
    own = {id(s) for s in made}
    return body.replace(
        feeds=body.feeds - literals.keys(),
        steps=tuple(step._replace(step_id=k, level=k) for k, step in enumerate(steps)),
        sources={k: body.sources[s.step_id] for k, s in enumerate(steps) if id(s) not in own},
        meta={t: m for t, m in body.meta.items() if t not in known or t in read},
    )
