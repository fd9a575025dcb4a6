"""Bind loops and branches as ops of the native driver: a whole loop runs without Python.

Parts of scanned arrays, and places of stacked results, are values that move on by a stride. Owns these ops. Does not
own where a body's memory lies (`jitfuse.compile.control_step`), or what loops and branches mean (`jitfuse.ir.control`),
which the Python path runs (`jitfuse.compile.bodies`).
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from jitfuse.compile.call_plan import LibraryCall
from jitfuse.compile.control_step import Carried, ControlStep, HeldBody
from jitfuse.compile.copying import in_order, window_bytes
from jitfuse.compile.step_binding import Memory, Place, StepBinder
from jitfuse.dtypes import itemsize

GUESSED: Final = 32
"""How many iterations a loop of unknown length is taken to have, in estimates."""


def bind_control(binder: StepBinder, step: LibraryCall, memory: Memory, repeated: int) -> None:
    """Write the ops of a loop or branch that runs so many times, as far as is known."""
    reserved = binder.reserved
    _BINDERS[step.name](ControlStep(binder, step, memory, repeated))
    binder.release(reserved)


def _while_loop(step: ControlStep) -> None:
    builder, carries = step.binder.builder, step.attrs["carries"]
    condition, body = HeldBody(step, "condition"), HeldBody(step, "body")
    others = step.operands(carries)
    carried = Carried(step, body, carries, 0)
    carried.begin()
    condition.settle()
    body.settle()
    again, test = builder.label(), builder.label()
    repeated = step.repeated * GUESSED
    builder.jump(test)
    builder.place(again)
    body.run([*carried.places, *others], repeated)
    carried.turn()
    builder.place(test)
    condition.run([*carried.places, *others], repeated)
    place, offset = condition.place(0)
    builder.branch(place, again, offset=offset)
    carried.end()


def _fori_loop(step: ControlStep) -> None:
    carries = step.attrs["carries"]
    body = HeldBody(step, "body")
    others = step.operands(2 + carries)
    carried = Carried(step, body, carries, 2)
    carried.begin()
    body.settle()

    def iteration(counter: Place) -> None:
        body.run([counter, *carried.places, *others], step.repeated * GUESSED)
        carried.turn()

    step.counted(step.operand(0), step.operand(1), iteration)
    carried.end()


def _scan(step: ControlStep) -> None:
    builder, attrs = step.binder.builder, step.attrs
    carries, scanned, length, reverse = (attrs[k] for k in ("carries", "scanned", "length", "reverse"))
    last, sign = (length - 1, -1) if reverse else (0, 1)
    body = HeldBody(step, "body")
    others = step.operands(carries + scanned)
    parts, starts, moves = [], [], []
    for k in range(carries, carries + scanned):
        place, stride = _parts_of(step, k)
        part = builder.value()
        parts.append((part, 0))
        starts.append((part, place[0], place[1] + max(last, 0) * stride))
        moves.append((part, part, sign * stride))
    rows, copied = [], []
    for k, (stack, window) in enumerate(zip(step.results[carries:], step.call.outputs[carries:], strict=True), carries):
        nbytes = window_bytes(window) // max(length, 1)
        row, value = builder.value(), body.claim(k)
        starts.append((row, stack[0], stack[1] + max(last, 0) * nbytes))
        if value is None:
            copied.append((k, row))
        else:
            body.outputs[value] = row, 0
            rows.append(value)
        moves.append((row, row, sign * nbytes))
    builder.move(starts)
    carried = Carried(step, body, carries, 0, rows)
    carried.begin()
    body.settle()

    def iteration(counter: Place) -> None:
        body.run([*carried.places, *parts, *others], step.repeated * length)
        for k, row in copied:
            body.deliver(k, (row, 0))
        carried.turn()
        builder.move(moves)

    step.times(length, iteration)
    carried.end()


def _parts_of(step: ControlStep, k: int) -> tuple[Place, int]:
    """Return where the first part of a scanned array lies, and the bytes from one part to the next."""
    window = step.call.inputs[k]
    inner = itemsize(window.dtype) * math.prod(window.shape[1:])
    if not window.contiguous and _in_c_order(window.shape[1:], window.strides[1:], itemsize(window.dtype)):
        return step.memory.place(window.buffer, window.offset), window.strides[0]
    return step.operand(k), inner


def _in_c_order(shape: Sequence[int], strides: Sequence[int], expected: int) -> bool:
    return all(
        n == 1 or stride == wanted
        for n, stride, wanted in zip(shape, strides, in_order(shape, expected), strict=True)
    )


def _cond(step: ControlStep) -> None:
    builder = step.binder.builder
    chosen, done = builder.label(), builder.label()
    others = step.operands(0)
    (place, offset), reserved = others[0], step.binder.reserved
    builder.branch(place, chosen, offset=offset)
    for name in ("on_false", "on_true"):
        if name == "on_true":
            builder.jump(done)
            builder.place(chosen)
        body = HeldBody(step, name)
        copied = []
        for k, result in enumerate(step.results):
            value = body.claim(k)
            if value is None:
                copied.append(k)
            else:
                body.outputs[value] = result
        body.settle()
        body.run(others, step.repeated)
        for k in copied:
            body.deliver(k, step.results[k])
        step.binder.release(reserved)
    builder.place(done)


def _rolled_loop(step: ControlStep) -> None:
    from jitfuse.compile.rolled_binding import bind_rolled

    bind_rolled(step)


_BINDERS: Final[dict[str, Callable[[ControlStep], None]]] = {
    "while_loop": _while_loop, "fori_loop": _fori_loop, "scan": _scan, "cond": _cond, "rolled_loop": _rolled_loop,
}
