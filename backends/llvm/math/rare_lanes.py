"""Code for the rare lanes: behind a branch that ordinary data do not take, with the same bits for all others.

Owns: the test whether any lane needs it, the call of scalar code on the lanes that do.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from jitfuse.backends.llvm.builder import Value, element, lanes
from jitfuse.backends.llvm.math.lockstep import Batch, Context


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
    """Return what `rare` makes where some lane fulfills the condition, else `usual`.

    It is behind a branch, so that ordinary data pay for one test. Its lanes in which the condition does not
    hold must have the bits of `usual`.
    """
    def made() -> list[Value]:
        return [v for b in rare() for v in b.values]

    values = condition.context.f.branch(any_lane(condition), [v for b in usual for v in b.values], made)
    found = iter(values)
    return [Batch(b.context, tuple([next(found) for _ in b.values])) for b in usual]


LaneBody = Callable[[Context, list[Value]], Sequence[Value]]
"""Writes the code of one lane: from its inputs, float64 scalars, to its outputs."""


def patch_lanes(
    function: str | LaneBody, condition: Batch, inputs: Sequence[Batch], outputs: Sequence[Batch]
) -> list[Batch]:
    """Replace the outputs of the rare lanes in which the condition holds by those of a `lane_function`.

    The other lanes keep their bits.
    """

    def patched() -> list[Batch]:
        if not isinstance(function, str):
            context = condition.context
            return [context.batch([v]) for v in function(context, [b.values[0] for b in inputs])]
        stored = [condition.cast("sext", "i64"), *inputs, *outputs]
        slots = [_spill(b, k) for k, b in enumerate(stored)]
        count = lanes(condition.type) * len(condition.values)
        condition.context.f.call(function, "void", [Value(str(count), "i64"), *slots])
        return [_reload(b, p) for b, p in zip(outputs, slots[1 + len(inputs) :], strict=True)]

    return unless_rare(condition, outputs, patched)


def lane_function(
    context: Context, name: str, inputs: int, outputs: int, body: LaneBody
) -> str | LaneBody:
    """Define, once in the module, what `patch_lanes` calls, and return its name; the body itself for single numbers.

    It takes the number of lanes and pointers to the lanes' conditions, inputs and outputs, all of 8 bytes.
    """
    if context.scalar:
        return body
    module = context.f.module
    if module.defines(name):
        return name
    params = [("count", "i64"), *((f"p{k}", "ptr") for k in range(1 + inputs + outputs))]
    f = module.function(name, "void", params, internal=True, attributes="nounwind noinline cold optsize")
    count, *pointers = f.args
    zero = Value("0", "i64")
    with f.loop(zero, count) as loop:
        condition, *at = [f.offset(p, loop.index, "i64") for p in pointers]
        with f.if_(f.icmp("ne", f.load("i64", condition), zero)):
            results = body(Context(f, context.has_fma), [f.load("double", p) for p in at[:inputs]])
            for result, p in zip(results, at[inputs:], strict=True):
                f.store(result, p)
    f.ret()
    return name


def _spill(batch: Batch, slot: int) -> Value:
    """Store a batch of 8-byte elements to scratch memory; returns the pointer."""
    f = batch.context.f
    type_ = element(batch.type)
    n = lanes(batch.type)
    pointer = f.scratch(type_, n * len(batch.values), slot)
    for k, v in enumerate(batch.values):
        f.store(v, f.offset(pointer, k * n, type_), 8)
    return pointer


def _reload(batch: Batch, pointer: Value) -> Batch:
    f = batch.context.f
    n = lanes(batch.type)
    return Batch(batch.context, tuple([
        f.load(batch.type, f.offset(pointer, k * n, element(batch.type)), 8) for k in range(len(batch.values))
    ]))
