"""Bind loops and branches as ops of the native driver: a whole loop runs without Python.

Rows of scanned arrays and of stacked results are values whose address advances by a stride. Owns these ops. Does not
own a body's memory (`jitfuse.compile.bind.control_step`), or the meaning of loops and branches
(`jitfuse.ir.semantics.control`), which the Python path runs (`jitfuse.compile.run.bodies`).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jitfuse.compile.bind.control_step import CarriedBuffers, ControlStep, HeldBody
from jitfuse.compile.bind.copies import window_bytes
from jitfuse.compile.bind.launch_loops import Course
from jitfuse.compile.bind.loop_memory import in_parts, layout_of, part_bytes, scan_layout
from jitfuse.compile.bind.steps import Location, PlanMemory, StepBinder
from jitfuse.compile.call_plans.call_plan import LibraryCall

GUESSED: Final = 32
"""Assumed iterations of a loop of unknown length, for cost estimates."""


def bind_control(binder: StepBinder, step: LibraryCall, memory: PlanMemory, repeated: int) -> None:
    """Write the ops of a loop or branch; `repeated` estimates how often it runs."""
    reserved = binder.reserved
    _BINDERS[step.name](ControlStep(binder, step, memory, repeated))
    binder.release(reserved)


def _while_loop(step: ControlStep) -> None:
    builder, carries = step.binder.builder, step.attrs["carries"]
    condition, body = HeldBody(step, "condition"), HeldBody(step, "body")
    others = step.operands(carries)
    carried = CarriedBuffers(step, body, carries, 0)
    carried.begin()
    condition.settle()
    body.settle()
    again, test = builder.label(), builder.label()
    repeated = step.repeated * GUESSED
    builder.jump(test)
    builder.place(again)
    body.run([*carried.locations, *others], repeated)
    carried.turn()
    builder.place(test)
    condition.run([*carried.locations, *others], repeated)
    location, offset = condition.location(0)
    builder.branch(location, again, offset=offset)
    carried.end()


def _fori_loop(step: ControlStep) -> None:
    carries = step.attrs["carries"]
    body = HeldBody(step, "body")
    others = step.operands(2 + carries)
    layout = layout_of(step.call)
    assert layout is not None
    kept = layout.kept()
    carried = CarriedBuffers(step, body, carries, 2, (), kept or ())
    if kept is not None:
        for k in kept:  # there may be no iteration
            step.binder.builder.copy(step.results[k], step.operand(2 + k), window_bytes(step.call.outputs[k]))
        body.settle()
        course = Course(carried.starts, carried.moves, carried.later, ())
        low, high = step.operand(0), step.operand(1)
        body.sweep([low, *carried.locations, *others], course, (low, high), step.repeated * GUESSED)
        return
    carried.begin()
    body.settle()

    def iteration(counter: Location) -> None:
        body.run([counter, *carried.locations, *others], step.repeated * GUESSED)
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
        location, stride = _parts_of(step, k)
        part = builder.value()
        parts.append((part, 0))
        starts.append((part, location[0], location[1] + max(last, 0) * stride))
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
    kept = scan_layout(step.call).kept() if length else None
    carried = CarriedBuffers(step, body, carries, 0, rows, kept or ())
    body.settle()
    if kept is not None:
        course = Course([*starts, *carried.starts], carried.moves, carried.later, moves)
        feeds = [*carried.locations, *parts, *others]
        body.sweep(feeds, course, step.bounds(length), step.repeated * length)
        carried.end(lambda location: course.last(location, length))
        return
    builder.move(starts)
    carried.begin()

    def iteration(counter: Location) -> None:
        body.run([*carried.locations, *parts, *others], step.repeated * length)
        for k, row in copied:
            body.deliver(k, (row, 0))
        carried.turn()
        builder.move(moves)

    step.times(length, iteration)
    carried.end()


def _parts_of(step: ControlStep, k: int) -> tuple[Location, int]:
    """Return the location of the first row of a scanned array, and the bytes from one row to the next."""
    window = step.call.inputs[k]
    if not window.contiguous and in_parts(window):
        return step.memory.location(window.buffer, window.offset), part_bytes(window)
    return step.operand(k), part_bytes(window)


def _cond(step: ControlStep) -> None:
    builder = step.binder.builder
    chosen, done = builder.label(), builder.label()
    others = step.operands(0)
    (location, offset), reserved = others[0], step.binder.reserved
    builder.branch(location, chosen, offset=offset)
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
    from jitfuse.compile.bind.rerolled_loops import bind_rerolled

    bind_rerolled(step)


_BINDERS: Final[dict[str, Callable[[ControlStep], None]]] = {
    "while_loop": _while_loop, "fori_loop": _fori_loop, "scan": _scan, "cond": _cond, "rolled_loop": _rolled_loop,
}
