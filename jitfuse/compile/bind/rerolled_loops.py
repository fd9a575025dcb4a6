"""Bind re-rolled loops as ops of the native driver: windows are values whose address advances with each iteration.

A contiguous window is read in place; another is copied to the arena. A loop whose body is launches alone is one op.
Does not own what the body writes in place (`jitfuse.compile.bind.loop_memory`), which loops are one op
(`jitfuse.compile.bind.kernel_loops`), or loops in general (`jitfuse.compile.bind.control_ops`).
"""
from __future__ import annotations

from collections.abc import Sequence

from jitfuse.compile.bind.control_step import CarriedBuffers, ControlStep, HeldBody
from jitfuse.compile.bind.copies import window_bytes
from jitfuse.compile.bind.launch_loops import Course
from jitfuse.compile.bind.loop_memory import rerolled_layout
from jitfuse.compile.bind.steps import Location
from jitfuse.compile.call_plans.call_plan import Window
from jitfuse.ir.semantics.rerolled import IterationWindow


def bind_rerolled(step: ControlStep) -> None:
    """Write the ops of a re-rolled loop."""
    _RerolledWriter(step).bind()


class _RerolledWriter:
    """A re-rolled loop being written."""

    def __init__(self, step: ControlStep) -> None:
        self.layout = layout = rerolled_layout(step.call)
        self.step, self.builder = step, step.binder.builder
        self.carries, self.arrays, self.length = layout.carries, layout.arrays, step.attrs["length"]
        self.body = HeldBody(step, "body")
        self.sources = step.results[self.carries :] + step.operands(self.carries + self.arrays)
        self.starts: list[tuple[int, int, int]] = []
        self.moves: list[tuple[int, int, int]] = []
        self._values: dict[tuple[Location, int], int] = {}

    def bind(self) -> None:
        """Write the loop."""
        step, layout, carries = self.step, self.layout, self.carries
        for k in range(carries, carries + self.arrays):
            if step.operand(k) != step.results[k]:
                self.builder.copy(step.results[k], step.operand(k), window_bytes(step.call.outputs[k]))
        parts, packed = [], []
        for access in layout.reads:
            location = self.moving(access)
            if not access.contiguous:
                source, location = location, step.binder.room(window_bytes(self.window(access)))
                packed.append((access, source, location))
            parts.append(location)
        locations = [self.moving(access) for access in layout.writes]
        for value, number in layout.direct.items():
            self.body.outputs[value] = locations[number]
        copied = [(number, layout.writes[number], locations[number]) for number in layout.copied]
        kept = layout.kept() if self.length else None
        carried = CarriedBuffers(step, self.body, carries, 0, layout.direct, kept or ())
        self.body.settle()
        if kept is not None:
            self.sweep(carried, parts)
            return
        self.builder.move(self.starts)
        carried.begin()

        def iteration(counter: Location) -> None:
            for access, source, location in packed:
                step.copy(location, self.window(access), source)
            self.body.run([*carried.locations, *parts, *self.sources], step.repeated * self.length)
            for number, access, location in copied:
                self.write(carries + number, access, location)
            carried.turn()
            self.builder.move(self.moves)

        step.times(self.length, iteration)
        carried.end()

    def sweep(self, carried: CarriedBuffers, parts: Sequence[Location]) -> None:
        """Write the loop as one op."""
        assert not carried.pairs
        course = Course([*self.starts, *carried.starts], carried.moves, carried.later, self.moves)
        bounds, repeated = self.step.bounds(self.length), self.step.repeated * self.length
        self.body.sweep([*carried.locations, *parts, *self.sources], course, bounds, repeated)
        carried.end(lambda location: course.last(location, self.length))

    def moving(self, access: IterationWindow) -> Location:
        """Return the start of a window in each iteration."""
        size, source = self.layout.sizes[access.operand], self.sources[access.operand]
        if not access.step:
            return source[0], source[1] + access.offset * size
        key = source, access.step * size
        moved = self._values.get(key)
        if moved is None:
            moved = self._values[key] = self.builder.value()
            self.starts.append((moved, *source))
            self.moves.append((moved, moved, access.step * size))
        return moved, access.offset * size

    def window(self, access: IterationWindow) -> Window:
        """Return the layout of a window's elements."""
        size = self.layout.sizes[access.operand]
        dtype = self.step.call.inputs[self.carries + access.operand].dtype
        strides = tuple(s * size for s in access.strides)
        return Window(("value", 0), 0, dtype, access.shape, strides, access.contiguous)

    def write(self, k: int, access: IterationWindow, location: Location) -> None:
        """Copy a result to its window."""
        target, made = self.window(access), self.body.results[k].window
        if target.contiguous and made.contiguous:
            self.builder.copy(location, self.body.location(k), window_bytes(target))
            return
        self.step.transfer(target, location, made, self.body.location(k))
