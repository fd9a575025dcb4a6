"""Carried values that are also in a carried array: they are read from there.

A trace knows the value that it has written into a region of an array, so a loop would carry both. Owns finding such
values. Does not own what else is carried (`jitfuse.tracing.control.reroll.loop_step`).
"""
from __future__ import annotations

from collections.abc import Iterator

from jitfuse.base.records import NamedTuple
from jitfuse.ir.program import Attrs, Meta, make_attrs
from jitfuse.tracing.control.reroll.arrays import MovingRegion
from jitfuse.tracing.control.reroll.run import Carry, Inner, Iterations, attr
from jitfuse.tracing.record.graph import OpNode


class Stored(NamedTuple):
    """The carried array that holds a carried value, and the region of it."""

    array: Carry
    region: Attrs
    counts: tuple[int, ...]

    def views(self, array: Meta, value: Meta) -> Iterator[tuple[str, Attrs, Meta]]:
        """Yield the operators (name, attributes, result) that read the value from the array."""
        yield "slice", self.region, Meta(self.counts, array.dtype, array.device)
        if value.shape != self.counts:
            yield "reshape", make_attrs({"shape": value.shape}), Meta(value.shape, array.dtype, array.device)


def stored_values(run: Iterations) -> dict[Carry, Stored]:
    """Return the values carried over one iteration that are also in a carried array."""
    found: dict[Carry, Stored] = {}
    for phase, op in enumerate(run.ops):
        if op.op_name != "update_slice" or any(run.moves[phase] or ()):
            continue
        key = _value(run, phase)
        last = _last(run, phase)
        array = (last, 0, 1)
        if key is None or key in found or (*key[:2], 2) in run.initial or array not in run.initial:
            continue
        if key in run.initial and _lies_in(run, run.initial[key], run.initial[array], op):
            found[key] = Stored(array, op.attrs, attr(op, "counts"))
    return found


def _value(run: Iterations, phase: int) -> Carry | None:
    """Return the carried value that an update writes unchanged; None where it is changed first."""
    source, metas = run.inputs[phase][1], run.tensors.metas
    while isinstance(source, Inner) and not source.lag and run.ops[source.phase].op_name == "reshape":
        source = run.inputs[source.phase][0]
    if not isinstance(source, Inner) or source.lag:
        return None
    meta, array = metas[run.ops[source.phase].result_ids[source.result]], metas[run.ops[phase].result_ids[0]]
    size = 1
    for n in attr(run.ops[phase], "counts"):
        size *= n
    same = (meta.dtype, meta.weak, meta.size) == (array.dtype, False, size)
    return (source.phase, source.result, 1) if same else None


def _last(run: Iterations, phase: int) -> int:
    """Return the last of the updates that follow in the same iteration and are disjoint from this one."""
    region = _region(run.ops[phase])
    for later in range(phase + 1, run.period):
        updates = run.inputs[later][:1] == [Inner(phase, 0, 0)] and run.ops[later].op_name == "update_slice"
        if updates and not any(run.moves[later] or ()) and region.is_disjoint(_region(run.ops[later]), 1):
            phase = later
    return phase


def _lies_in(run: Iterations, value: int, array: int, update: OpNode) -> bool:
    """Return whether the array holds this value, before the loop, where an update writes."""
    region = _region(update)
    while True:
        op = _maker(run, array)
        if op is None or op.op_name != "update_slice":
            return _is_view(run, value, array, update)
        if op.attrs == update.attrs:
            return _before_reshapes(run, op.input_ids[1]) == _before_reshapes(run, value)
        if not region.is_disjoint(_region(op), 1):
            return False
        array = op.input_ids[0]


def _is_view(run: Iterations, value: int, array: int, update: OpNode) -> bool:
    op = _maker(run, _before_reshapes(run, value))
    return op is not None and op.op_name == "slice" and op.input_ids == (array,) and op.attrs == update.attrs


def _before_reshapes(run: Iterations, value: int) -> int:
    op = _maker(run, value)
    while op is not None and op.op_name == "reshape":
        value = op.input_ids[0]
        op = _maker(run, value)
    return value


def _maker(run: Iterations, tensor: int) -> OpNode | None:
    position = run.position(tensor)
    return None if position < 0 else run.line[position]


def _region(op: OpNode) -> MovingRegion:
    counts = attr(op, "counts")
    return MovingRegion(counts, attr(op, "starts"), attr(op, "steps"), (0,) * len(counts))
