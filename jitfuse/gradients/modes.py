"""The two modes over the steps of a program under construction.

`pull_back` takes cotangents of results to operands, `push_forward` tangents of operands to results; both append steps
to the builder. Where a rule knows tangents alone, the reverse mode is its transpose: what is linear in tangents is
recorded over placeholders, and pulled back. Own neither rules nor whole programs (`jitfuse.gradients.programs`).
"""
from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from jitfuse.errors import DerivativeError
from jitfuse.gradients.findings import raise_or_note
from jitfuse.gradients.rule import Call, Parts, Rule, chooses, rule_of
from jitfuse.gradients.values import Tensor, fitted, is_smooth, zeros_like
from jitfuse.ir.program import OpStep
from jitfuse.ir.schema import ProgramData
from jitfuse.tracing.program_builder import ProgramBuilder


def pull_back(
    builder: ProgramBuilder, steps: Sequence[OpStep], cotangents: dict[int, Tensor], wanted: Collection[int],
    choices: set[int],
) -> dict[int, Tensor]:
    """Return the cotangents of the wanted values, of those that have any, given those of results of the steps.

    `choices`: the values whose cotangents a choice has set to zero; those of the steps come in.
    """
    active, totals = depending(builder, steps, wanted), dict(cotangents)
    for step in reversed(steps):
        if active.isdisjoint(step.result_ids) or totals.keys().isdisjoint(step.result_ids):
            continue
        found = [totals.get(r) if r in wanted else totals.pop(r, None) for r in step.result_ids]
        call = _call(builder, step, active, not choices.isdisjoint(step.result_ids))
        try:
            with _named_line(builder, step):
                parts, chosen = _reversed(builder, _rule(step), call, found)
        except DerivativeError as error:
            raise_or_note(error, step.op_name)
            continue
        held = any(isinstance(value, ProgramData) and chooses(value) for _, value in step.attrs)
        reached = call.masked or rule_of(step.op_name).masks or chosen or held
        for i, part in zip(step.input_ids, parts, strict=True):
            if part is None or i not in active:
                continue
            part = fitted(part, builder.tensor(i))
            totals[i] = totals[i].add(part) if i in totals else part
            if reached:
                choices.add(i)
    return {i: totals[i] for i in wanted if i in totals}


def push_forward(builder: ProgramBuilder, steps: Sequence[OpStep], tangents: dict[int, Tensor]) -> dict[int, Tensor]:
    """Return the tangents of all values of the steps that have any, given those of some values before them."""
    known = dict(tangents)
    for step in steps:
        if known.keys().isdisjoint(step.input_ids):
            continue
        ys = [builder.tensor(r) for r in step.result_ids]
        call = _call(builder, step, known, False)
        if not any(map(is_smooth, ys)) or not any(call.wanted):
            continue
        with _named_line(builder, step):
            found = _forwarded(builder, _rule(step), call, [known.get(i) for i in step.input_ids])
        for r, y, part in zip(step.result_ids, ys, found, strict=True):
            if part is not None and is_smooth(y):
                known[r] = fitted(part, y)
    return known


def depending(builder: ProgramBuilder, steps: Sequence[OpStep], on: Collection[int]) -> set[int]:
    """Return the values that change smoothly with some values, these among them."""
    found = set(on)
    for step in steps:
        if not found.isdisjoint(step.input_ids) and not rule_of(step.op_name).constant:
            found.update(r for r in step.result_ids if is_smooth(builder.tensor(r)))
    return found


def _call(builder: ProgramBuilder, step: OpStep, active: Collection[int], masked: bool) -> Call:
    xs = tuple([builder.tensor(i) for i in step.input_ids])
    ys = tuple([builder.tensor(r) for r in step.result_ids])
    wanted = tuple([i in active and is_smooth(x) for i, x in zip(step.input_ids, xs, strict=True)])
    return Call(step.op_name, xs, ys, dict(step.attrs), wanted, masked)


@contextlib.contextmanager
def _named_line(builder: ProgramBuilder, step: OpStep) -> Iterator[None]:
    """Give the steps of a rule the line of the step that they differentiate, and its errors too."""
    source = builder.old.sources.get(step.step_id)
    builder.source = source or builder.source
    try:
        yield
    except DerivativeError as error:
        named = source is None or source in str(error) or "(at " in str(error)  # a line in a body is nearer
        if not named:
            error.args = (f"{error} (at {source})",)
        raise


def _rule(step: OpStep) -> Rule:
    """Return a step's rule; raise DerivativeError with the reason where there is none."""
    rule = rule_of(step.op_name)
    if rule.reason:
        raise DerivativeError(f"{step.op_name} has no derivative: {rule.reason}")
    return rule


# ---------------------------------------------------------------- one step
def _reversed(builder: ProgramBuilder, rule: Rule, call: Call, cotangents: Parts) -> tuple[Parts, bool]:
    """Return the cotangents of operands, and whether a choice in place of the step has set some to zero."""
    if rule.constant:
        return [None] * len(call.xs), False
    if rule.reverse is not None:
        return rule.reverse(call, cotangents), False
    if rule.through is not None:
        inner, made = _recorded(builder, lambda: rule.through(*call.xs, **call.attrs))
        given = {made[0].id: fitted(cotangents[0], made[0])}
        found, chosen = _pulled(builder, inner, given, [x for x, w in zip(call.xs, call.wanted, strict=True) if w],
                                call.masked)
        return _at(found, call), chosen
    ahead = rule.transposed or rule.forward
    assert ahead is not None
    places = [_placeholder(builder, x) if w else None for x, w in zip(call.xs, call.wanted, strict=True)]
    inner, made = _recorded(builder, lambda: ahead(call, places))
    found, chosen = _pulled(builder, inner, _given(made, cotangents, call.ys), [p for p in places if p is not None],
                            call.masked)
    return [None if p is None else found.get(p.id) for p in places], chosen


def _pulled(
    builder: ProgramBuilder, steps: Sequence[OpStep], given: dict[int, Tensor], wanted: Sequence[Tensor], masked: bool
) -> tuple[dict[int, Tensor], bool]:
    """Pull back through the steps in place of one; return whether choices have set cotangents to zero there too."""
    choices, ids = set(given) if masked else set(), {x.id for x in wanted}
    found = pull_back(builder, steps, given, ids, choices)
    return found, not choices.isdisjoint(ids)


def _forwarded(builder: ProgramBuilder, rule: Rule, call: Call, tangents: Parts) -> Parts:
    if rule.constant:
        return [None] * len(call.ys)
    if rule.forward is not None:
        return rule.forward(call, tangents)
    through = rule.through
    assert through is not None, "a rule has a forward mode, or is of simpler operators"
    inner, made = _recorded(builder, lambda: through(*call.xs, **call.attrs))
    known = push_forward(builder, inner, {x.id: t for x, t in zip(call.xs, tangents, strict=True) if t is not None})
    return [known.get(made[0].id)]


def _recorded(builder: ProgramBuilder, make: Any) -> tuple[tuple[OpStep, ...], Any]:
    """Return the steps that `make` appends, and its tensors."""
    before = builder.count
    made = make()
    return builder.steps_from(before), made if isinstance(made, list | tuple) else [made]


def _placeholder(builder: ProgramBuilder, like: Tensor) -> Any:
    """Return a value that stands for any: only what does not depend on it is kept."""
    return builder.tensor(builder.placeholder(builder.meta[like.id]._replace(weak=False)))


def _given(made: Parts, given: Parts, likes: Sequence[Tensor]) -> dict[int, Tensor]:
    """Return the cotangents of values that steps over placeholders have made; equal values add up."""
    found: dict[int, Tensor] = {}
    for value, cotangent in zip(made, given, strict=True):
        if value is None or cotangent is None:
            continue
        part = fitted(cotangent, value)
        found[value.id] = found[value.id].add(part) if value.id in found else part
    return found


def _at(found: dict[int, Tensor], call: Call) -> Parts:
    """Return cotangents by operand; one that is given twice gets its own once."""
    taken: set[int] = set()
    made: list[Tensor | None] = []
    for x in call.xs:
        made.append(None if x.id in taken else found.get(x.id))
        taken.add(x.id)
    return made


def or_zeros(change: Tensor | None, like: Tensor) -> Tensor:
    """Return a change, or zeros of a value's shape and dtype."""
    return zeros_like(like) if change is None else change
