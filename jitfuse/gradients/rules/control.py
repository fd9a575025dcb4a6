"""Loops and branches: their derivatives are loops and branches over the derivatives of the programs in them."""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jitfuse.base.records import NamedTuple
from jitfuse.errors import DerivativeError
from jitfuse.gradients.bodies import arranged
from jitfuse.gradients.loops import BEFORE
from jitfuse.gradients.modes import or_zeros
from jitfuse.gradients.programs import Derivative, forward, reverse
from jitfuse.gradients.rule import RULES, Call, Parts, Rule, chooses, without
from jitfuse.gradients.values import Tensor, is_smooth
from jitfuse.ir.program import FusedProgram, Meta
from jitfuse.tracing.program_builder import ProgramBuilder


def _smooth(values: Sequence[Tensor]) -> list[int]:
    return [k for k, value in enumerate(values) if is_smooth(value)]


def _meta(x: Tensor) -> Meta:
    return Meta(x.shape, str(x.dtype))


# ---------------------------------------------------------------- branches
def _cond_reverse(call: Call, cotangents: Parts) -> Parts:
    wanted = [k for k, w in enumerate(call.wanted) if w]
    given = [or_zeros(ct, y) for ct, y in zip(cotangents, call.ys, strict=True) if is_smooth(y)]
    found = _branched(call, wanted, given, functools.partial(reverse, masked=call.masked))
    return _spread(dict(zip(wanted, found, strict=True)), len(call.xs))


def _cond_forward(call: Call, tangents: Parts) -> Parts:
    moved = [k for k, t in enumerate(tangents) if t is not None]
    found = _branched(call, moved, [tangents[k] for k in moved], forward)
    return _spread(dict(zip(_smooth(call.ys), found, strict=True)), len(call.ys))


def _branched(
    call: Call, by: Sequence[int], given: Sequence[Tensor], mode: Callable[[FusedProgram, list[int]], Derivative]
) -> list[Tensor]:
    """Return the changes that the chosen branch gives, by a mode of both with respect to some operands."""
    bodies = {}
    for side in ("on_true", "on_false"):
        feeds = call.attrs[side].ordered_feeds
        made = mode(call.attrs[side], [feeds[k] for k in by])
        bodies[side] = _changes(made, [*feeds, *made.changes])
    return list(call.x.call_all("cond", *call.xs[1:], *given, **bodies))


def _changes(made: Derivative, feeds: Sequence[int]) -> FusedProgram:
    outputs = {name: i for name, i in made.program.outputs.items() if name.startswith("d")}
    return arranged(made.program, feeds, {str(k): i for k, i in enumerate(outputs.values())})


def _spread(found: dict[int, Any], count: int) -> Parts:
    return [found.get(k) for k in range(count)]


RULES["cond"] = Rule(_cond_forward, _cond_reverse, masks=True)


# ---------------------------------------------------------------- scans
def _scan_reverse(call: Call, cotangents: Parts) -> Parts:
    """Run the scan the other way round: cotangents are carried, and those of captured values add up."""
    body: FusedProgram = call.attrs["body"]
    carries, scanned = call.attrs["carries"], call.attrs["scanned"]
    names, feeds = list(body.outputs), body.ordered_feeds
    stored = [k for k, name in enumerate(names) if name.startswith(BEFORE)]
    moving = [k for k in range(carries) if is_smooth(call.xs[k])]
    parts, captured = ([k for k in where if call.wanted[k]] for where in (
        range(carries, carries + scanned), range(carries + scanned, len(call.xs))))
    smooth = [k for k in _smooth(call.ys) if k < carries or cotangents[k] is not None]
    made = reverse(body, [feeds[k] for k in (*moving, *parts, *captured)], [names[k] for k in smooth],
                   masked=call.masked or chooses(body))  # a choice in one round is around the round before it
    back = _backward_body(made, feeds, carries, scanned, moving, parts, captured, smooth)
    stacked = [k for k in smooth if k >= carries]
    operands = [
        *(or_zeros(cotangents[k], call.ys[k]) for k in moving),
        *(or_zeros(None, call.xs[k]) for k in captured),
        *(call.ys[k] for k in stored), *call.xs[carries : carries + scanned],
        *(cotangents[k] for k in stacked),
        *call.xs[carries + scanned :]]
    found = operands[0].call_all(
        "scan", *operands[1:], body=back, carries=len(moving) + len(captured), length=call.attrs["length"],
        scanned=len(stored) + scanned + len(stacked), reverse=not call.attrs["reverse"])
    places = [*moving, *captured, *parts]
    return _spread(dict(zip(places, found, strict=True)), len(call.xs))


def _backward_body(
    made: Derivative, feeds: Sequence[int], carries: int, scanned: int, moving: list[int], parts: list[int],
    captured: list[int], smooth: list[int],
) -> FusedProgram:
    """Return (cotangents of carries, sums, carries, parts, cotangents of stacked, captured) -> one round earlier."""
    builder = ProgramBuilder.behind(made.program)
    changes = [made.program.outputs[f"d{k}"] for k in range(len(moving) + len(parts) + len(captured))]
    new_carries, new_parts = changes[: len(moving)], changes[len(moving) : len(moving) + len(parts)]
    sums = [builder.placeholder(made.program.meta[i]) for i in changes[len(moving) + len(parts) :]]
    added = zip(sums, changes[len(moving) + len(parts) :], strict=True)
    totals = [builder.step("add", pair, ()) for pair in added]
    given = dict(zip(smooth, made.changes, strict=True))
    order = [
        *(given[k] for k in moving), *sums, *feeds[: carries + scanned],
        *(given[k] for k in smooth if k >= carries), *feeds[carries + scanned :]]
    outputs = {str(k): i for k, i in enumerate([*new_carries, *totals, *new_parts])}
    return arranged(builder.finish({}, outputs=outputs, feeds=frozenset(order)), order, outputs)


def _scan_forward(call: Call, tangents: Parts) -> Parts:
    """Carry tangents beside the values."""
    body: FusedProgram = call.attrs["body"]
    carries, scanned = call.attrs["carries"], call.attrs["scanned"]
    feeds = body.ordered_feeds
    moving = [k for k in range(carries) if is_smooth(call.xs[k])]
    parts, captured = ([k for k in where if tangents[k] is not None] for where in (
        range(carries, carries + scanned), range(carries + scanned, len(call.xs))))
    made = forward(body, [feeds[k] for k in (*moving, *parts, *captured)])
    given = dict(zip((*moving, *parts, *captured), made.changes, strict=True))
    order = [*feeds[:carries], *(given[k] for k in moving), *feeds[carries : carries + scanned],
             *(given[k] for k in parts), *feeds[carries + scanned :], *(given[k] for k in captured)]
    smooth = _smooth(call.ys)
    values = list(body.outputs.values())
    new = [made.program.outputs[f"d{k}"] for k in range(len(smooth))]
    outputs = [*values[:carries], *(i for k, i in zip(smooth, new, strict=True) if k < carries),
               *(i for k, i in zip(smooth, new, strict=True) if k >= carries)]
    operands = [
        *call.xs[:carries], *(or_zeros(tangents[k], call.xs[k]) for k in moving),
        *call.xs[carries : carries + scanned], *(tangents[k] for k in parts), *call.xs[carries + scanned :],
        *(tangents[k] for k in captured)]
    found = operands[0].call_all(
        "scan", *operands[1:], body=arranged(made.program, order, {str(k): i for k, i in enumerate(outputs)}),
        carries=carries + len(moving), scanned=scanned + len(parts), length=call.attrs["length"],
        reverse=call.attrs["reverse"])
    return _spread(dict(zip(smooth, found[carries:], strict=True)), len(call.ys))


RULES["scan"] = Rule(_scan_forward, _scan_reverse)


# ---------------------------------------------------------------- loops without a known end
class _Moving(NamedTuple):
    """A loop that carries tangents beside its values.

    smooth   the carried values that have tangents
    extra    the metas of the tangents that are carried, and of those that are captured
    """

    body: FusedProgram
    operands: list[Tensor]
    smooth: list[int]
    extra: tuple[list[Meta], list[Meta]]

    def tangents(self, found: Sequence[Tensor], carries: int) -> Parts:
        """Return the tangents of a loop's carried values."""
        return _spread(dict(zip(self.smooth, found[carries:], strict=True)), carries)


def _moving(call: Call, tangents: Parts, bounds: int, counters: int) -> _Moving:
    """Return the loop with tangents; its `bounds` come before the carried operands, `counters` before the feeds."""
    body, carries = call.attrs["body"], call.attrs["carries"]
    feeds, begin = body.ordered_feeds, bounds + carries
    smooth = _smooth(call.xs[bounds:begin])
    captured = [k for k in range(len(call.xs) - begin) if tangents[begin + k] is not None]
    made = forward(body, [*(feeds[counters + k] for k in smooth), *(feeds[counters + carries + k] for k in captured)])
    carried, others = made.changes[: len(smooth)], made.changes[len(smooth) :]
    order = [*feeds[: counters + carries], *carried, *feeds[counters + carries :], *others]
    new = [made.program.outputs[f"d{k}"] for k in range(len(smooth))]
    outputs = {str(k): i for k, i in enumerate([*list(body.outputs.values())[:carries], *new])}
    started = [or_zeros(tangents[bounds + k], call.xs[bounds + k]) for k in smooth]
    held: list[Tensor] = [tangents[begin + k] for k in captured]
    operands = [*call.xs[:begin], *started, *call.xs[begin:], *held]
    extra = [_meta(t) for t in started], [_meta(t) for t in held]
    return _Moving(arranged(made.program, order, outputs), operands, smooth, extra)


def _while_forward(call: Call, tangents: Parts) -> Parts:
    condition, carries = call.attrs["condition"], call.attrs["carries"]
    moving, feeds = _moving(call, tangents, 0, 0), condition.ordered_feeds
    carried, captured = moving.extra
    tested = arranged(condition, [*feeds[:carries], *carried, *feeds[carries:], *captured], condition.outputs)
    first, *others = moving.operands
    found = first.call_all("while_loop", *others, condition=tested, body=moving.body, carries=carries + len(carried))
    return moving.tangents(found, carries)


def _fori_forward(call: Call, tangents: Parts) -> Parts:
    carries, moving = call.attrs["carries"], _moving(call, tangents, 2, 1)
    first, *others = moving.operands
    found = first.call_all("fori_loop", *others, body=moving.body, carries=carries + len(moving.extra[0]))
    return moving.tangents(found, carries)


def _endless(call: Call, cotangents: Parts) -> Parts:
    raise DerivativeError(
        f"{call.op_name} has no reverse-mode derivative: how many rounds it runs is known only at the end. Use "
        "jf.scan, or jf.fori_loop between Python's ints, or the forward mode (jf.jvp).")


RULES["while_loop"] = Rule(_while_forward, _endless, note="forward mode")
RULES["fori_loop"] = Rule(_fori_forward, _endless, note="both modes; reverse between known integers")
without("the loop was made of a long Python loop that reads what it writes; write it with jf.scan or jf.fori_loop",
        "rolled_loop")


# ---------------------------------------------------------------- results with derivatives of their own
def _operands(call: Call) -> tuple[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]]:
    """Return the operands as results, captured values and inputs."""
    begin, end = call.attrs["results"], call.attrs["results"] + call.attrs["captured"]
    return call.xs[:begin], call.xs[begin:end], call.xs[end:]


def _of_inputs(call: Call, found: Sequence[Any]) -> Parts:
    return [*[None] * (len(call.xs) - len(found)), *found]


def _custom_reverse(call: Call, cotangents: Parts) -> Parts:
    results, captured, _ = _operands(call)
    given = [or_zeros(ct, y) for ct, y in zip(cotangents, results, strict=True)]
    return _of_inputs(call, call.x.builder.inlined(call.attrs["rule"], [*given, *captured]))


def _custom_forward(call: Call, tangents: Parts) -> Parts:
    _, captured, inputs = _operands(call)
    given = [or_zeros(t, x) for t, x in zip(tangents[len(tangents) - len(inputs) :], inputs, strict=True)]
    return list(call.x.builder.inlined(call.attrs["rule"], [*given, *captured]))


def _no_forward(call: Call, tangents: Parts) -> Parts:
    raise DerivativeError("a function with a custom_vjp has no forward-mode derivative (jf.jvp, jf.hvp): define it "
                          "with jf.custom_jvp, which has both modes")


def _checkpoint_reverse(call: Call, cotangents: Parts) -> Parts:
    """Compute the results again from copies of the inputs, which no pass takes for the first computation."""
    _, captured, inputs = _operands(call)
    rule: FusedProgram = call.attrs["rule"]
    made = reverse(rule, rule.ordered_feeds, masked=call.masked, checkpointed=True)
    held = [x.call("copy") for x in (*inputs, *captured)]
    given = [or_zeros(ct, y) for ct, y in zip(cotangents, call.ys, strict=True) if is_smooth(y)]
    found = call.x.builder.inlined(made.program, [*held, *given])[len(rule.outputs) :]
    count = len(inputs)
    return [*[None] * call.attrs["results"], *found[count:], *found[:count]]


def _checkpoint_forward(call: Call, tangents: Parts) -> Parts:
    _, captured, inputs = _operands(call)
    rule: FusedProgram = call.attrs["rule"]
    begin = call.attrs["results"]
    ts = [*tangents[begin + len(captured) :], *tangents[begin : begin + len(captured)]]
    moved = [k for k, t in enumerate(ts) if t is not None]
    made = forward(rule, [rule.ordered_feeds[k] for k in moved])
    found = call.x.builder.inlined(made.program, [*inputs, *captured, *[ts[k] for k in moved]])
    return _spread(dict(zip(_smooth(call.ys), found[len(rule.outputs) :], strict=True)), len(call.ys))


RULES["custom_vjp"] = Rule(_no_forward, _custom_reverse, note="reverse mode")
RULES["custom_jvp"] = Rule(_custom_forward)
RULES["checkpoint"] = Rule(_checkpoint_forward, _checkpoint_reverse)
