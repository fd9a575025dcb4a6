"""Code for rare lanes, behind a branch that ordinary data do not take; all other lanes keep their bits.

Owns: the test whether any lane needs it, the call of scalar code on the lanes that do.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from jitfuse.backends.llvm.math.lockstep import Batch, Context
from jitfuse.backends.llvm.text.builder import Function, Value, element, lanes


def any_lane(condition: Batch) -> Value:
    """Return an i1: whether the condition holds in any lane of any value of the batch."""
    f = condition.context.f
    total = condition.values[0]
    for v in condition.values[1:]:
        total = f.or_(total, v)
    if lanes(total.type) == 1:
        return total
    return f.intrinsic("vector.reduce.or", "i1", total, overload=[total.type])


def unless_rare(
    condition: Batch, usual: Sequence[Batch], rare: Callable[[], Sequence[Batch]]
) -> list[Batch]:
    """Return the result of `rare` where some lane fulfills the condition, else `usual`.

    `rare` is behind a branch, so that ordinary data pay for one test. Its lanes in which the condition does not
    hold must have the bits of `usual`.
    """
    def made() -> list[Value]:
        return [v for b in rare() for v in b.values]

    values = condition.context.f.branch(any_lane(condition), [v for b in usual for v in b.values], made)
    found = iter(values)
    return [Batch(b.context, tuple([next(found) for _ in b.values])) for b in usual]


LaneBody = Callable[[Context, list[Value]], Sequence[Value]]
"""Writes the code of one lane: from its inputs, scalars, to its outputs."""


def patch_lanes(
    function: str | LaneBody, condition: Batch, inputs: Sequence[Batch], outputs: Sequence[Batch]
) -> list[Batch]:
    """Replace the outputs of the rare lanes in which the condition holds by those of a `lane_function`.

    The other lanes keep their bits. The stores for the call almost never run, but take time to compile: pass few and
    narrow inputs and outputs.
    """

    def patched() -> list[Batch]:
        if not isinstance(function, str):
            context = condition.context
            return [context.batch([v]) for v in function(context, [b.values[0] for b in inputs])]
        slots = [(_spill(b, k), element(b.type)) for k, b in enumerate([*inputs, *outputs])]
        f, width = condition.context.f, lanes(condition.type)
        together = _WORD // width
        for first in range(0, len(condition.values), together):
            at = [f.offset(p, first * width, type_) if first else p for p, type_ in slots]
            f.call(function, "void", [_bits(f, condition.values[first : first + together]), *at])
        return [_reload(b, p) for b, (p, _) in zip(outputs, slots[len(inputs) :], strict=True)]

    return unless_rare(condition, outputs, patched)


_WORD: Final = 64
"""Lanes of one call: the bits of an integer."""


def _bits(f: Function, conditions: Sequence[Value]) -> Value:
    """Return the lanes in which conditions hold, as the bits of an integer."""
    width = lanes(conditions[0].type)
    total: Value | None = None
    for k, condition in enumerate(conditions):
        mine = f.cast("bitcast", condition, f"i{width}")
        mine = mine if width == _WORD else f.cast("zext", mine, f"i{_WORD}")
        total = mine if total is None else f.or_(total, f.shl(mine, Value(str(k * width), mine.type)))
    assert total is not None
    return total


def lane_function(
    context: Context, name: str, inputs: Sequence[str], outputs: Sequence[str], body: LaneBody
) -> str | LaneBody:
    """Define, once in the module, the function for `patch_lanes`, and return its name; the body for single numbers.

    It takes the lanes to compute as bits, then pointers to the lanes' inputs and outputs, whose types are given.
    """
    if context.scalar:
        return body
    module = context.f.module
    if module.defines(name):
        return name
    types = [*inputs, *outputs]
    params = [("lanes", f"i{_WORD}"), *((f"p{k}", "ptr") for k in range(len(types)))]
    # not optimised: it runs a tenth slower, and compiles in half of the time
    f = module.function(name, "void", params, internal=True, attributes="nounwind noinline cold optnone")
    wanted, *pointers = f.args
    with f.loop(Value("0", wanted.type), f.intrinsic("ctpop", wanted.type, wanted)) as loop:
        left = loop.carry(wanted)
        lane = f.intrinsic("cttz", wanted.type, left, Value("true", "i1"), overload=[wanted.type])
        loop.update(0, f.and_(left, f.sub(left, Value("1", left.type))))
        at = [f.offset(p, lane, type_) for p, type_ in zip(pointers, types, strict=True)]
        given = [f.load(type_, p) for type_, p in zip(inputs, at, strict=False)]
        results = body(Context(f, context.has_fma), given)
        for result, p in zip(results, at[len(inputs) :], strict=True):
            f.store(result, p)
    f.ret()
    return name


def _spill(batch: Batch, slot: int) -> Value:
    """Store a batch to scratch memory; returns the pointer."""
    f = batch.context.f
    type_ = element(batch.type)
    n = lanes(batch.type)
    pointer = f.scratch(type_, n * len(batch.values), slot)
    for k, v in enumerate(batch.values):
        f.store(v, f.offset(pointer, k * n, type_), _ALIGNMENT)
    return pointer


def _reload(batch: Batch, pointer: Value) -> Batch:
    f = batch.context.f
    n = lanes(batch.type)
    return Batch(batch.context, tuple([
        f.load(batch.type, f.offset(pointer, k * n, element(batch.type)), _ALIGNMENT)
        for k in range(len(batch.values))
    ]))


_ALIGNMENT: Final = 4
