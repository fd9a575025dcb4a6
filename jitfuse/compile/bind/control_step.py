"""A loop or branch in a plan's table: the memory of its operands, its results and its bodies.

The ops of a body are written once. Carried values are driver values whose address changes: a body reads one buffer and
writes another, and both are swapped after each iteration, so nothing is copied. Does not own the ops of each kind of
loop or branch (`jitfuse.compile.bind.control_ops`).
"""
from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np

from jitfuse.compile.bind.copies import copy_window, transfer_window, window_bytes
from jitfuse.compile.bind.launch_loops import Course
from jitfuse.compile.bind.loop_memory import results_of
from jitfuse.compile.bind.steps import Location, PlanMemory, StepBinder
from jitfuse.compile.call_plans.call_plan import BodyPlan, LibraryCall, Window
from jitfuse.compile.call_plans.literals import literal_arrays
from jitfuse.dtypes import itemsize


class HeldBody:
    """A program that a step holds; its memory is reserved, except for feeds and outputs that the step places."""

    def __init__(self, step: ControlStep, name: str) -> None:
        self.step, self.binder = step, step.binder
        self.body: BodyPlan = dict(step.call.bodies)[name]
        plan = self.body.plan
        constants = literal_arrays(plan.literals)
        self.binder.builder.hold(constants)
        self._constants = self.binder.constants(constants)
        self._arena = self.binder.reserve(plan.arena_bytes)
        self.outputs: dict[int, Location] = {}
        self.results = results_of(self.body)

    def claim(self, k: int) -> int | None:
        """Return the value whose buffer is result k, if that buffer is not placed yet; else None."""
        value, _, whole = self.results[k]
        return value if whole and value not in self.outputs else None

    def in_place(self, k: int) -> bool:
        """Return whether result k is written over the carried value that it replaces."""
        return self.results[k].value is None

    def settle(self) -> None:
        """Place the outputs that the step has not placed in the arena."""
        for value, (dtype, shape) in self.body.plan.outputs.items():
            if value not in self.outputs:
                self.outputs[value] = self.binder.room(itemsize(dtype) * math.prod(shape))

    def run(self, feeds: Sequence[Location], repeated: int) -> None:
        """Write the body's steps."""
        self.binder.steps(self.body.plan.steps, self._memory(feeds), repeated)

    def sweep(
        self, feeds: Sequence[Location], course: Course, bounds: tuple[Location, Location], repeated: int
    ) -> None:
        """Write the iterations of the body, whose launches loop over them, as `StepBinder.sweep`."""
        self.binder.sweep(self.body.plan.steps, self._memory(feeds), course, bounds, repeated)

    def _memory(self, feeds: Sequence[Location]) -> PlanMemory:
        plan = self.body.plan
        assert not plan.commits, "bodies write no arguments"
        locations = {feed: at for (feed, _), at in zip(self.body.feeds, feeds, strict=True)}
        return PlanMemory(plan, locations, self.outputs, self._constants, self._arena)

    def deliver(self, k: int, location: Location) -> None:
        """Copy result k to a location."""
        window = self.results[k].window
        self.step.copy(location, window, self.location(k))

    def location(self, k: int) -> Location:
        """Return the location of result k."""
        value, window, _ = self.results[k]
        assert value is not None, "it lies where it was carried"
        at, offset = self.outputs[value]
        return at, offset + window.offset


class CarriedBuffers:
    """The carried values of a loop: where an iteration reads them, and where the next one does."""

    def __init__(
        self, step: ControlStep, body: HeldBody, count: int, first: int, rows: Collection[int] = (),
        kept: Collection[int] = (),
    ) -> None:
        """`first` is the operand with the first carried value. `rows` are outputs already placed, which the next
        iteration does not write. `kept` are the numbers of values that only the first iteration reads."""
        builder = step.binder.builder
        self.step, self.body, self.count, self.kept = step, body, count, kept
        self.locations: list[Location] = []
        """Where the body reads the values."""
        self.later: list[tuple[int, int]] = []  # (where the body writes, where it writes next time)
        self.pairs: list[tuple[int, int]] = []  # (result, where it is copied to)
        self.moves: list[tuple[int, int, int]] = []
        self.starts: list[tuple[int, int, int]] = []
        for k in range(count):
            made = body.results[k]
            if body.in_place(k):
                if step.operand(first + k) != step.results[k]:
                    builder.copy(step.results[k], step.operand(first + k), window_bytes(step.call.outputs[k]))
                self.locations.append(step.results[k])
                continue
            start = step.start(first + k, k)
            value = body.claim(k)
            if k in kept:
                self.locations.append(start)
                if value is not None:
                    body.outputs[value] = step.results[k]
                continue
            now = builder.value()
            self.locations.append((now, 0))
            self.starts.append((now, *start))
            if made.whole and made.value is not None and made.value in rows:
                self.moves.append((now, *body.outputs[made.value]))
                continue
            locations = step.results[k], step.binder.room(window_bytes(made.window))
            out, spare = builder.value(), builder.value()
            self.starts += [(out, *locations[0]), (spare, *locations[1])]
            self.moves.append((now, out, 0))
            self.later.append((out, spare))
            if value is None:
                self.pairs.append((k, out))
            else:
                body.outputs[value] = out, 0

    def begin(self) -> None:
        """Begin the first iteration."""
        self.step.binder.builder.move(self.starts)

    def turn(self) -> None:
        """End an iteration: the next one reads what it has written."""
        builder = self.step.binder.builder
        for k, out in self.pairs:
            self.body.deliver(k, (out, 0))
        builder.move(self.moves)
        builder.swap(self.later)

    def end(self, last: Callable[[Location], Location] = lambda location: location) -> None:
        """Copy the last values to the step's results; `last` maps a location to the one after the loop."""
        for k, location in enumerate(self.locations):
            if not self.body.in_place(k):
                nbytes = window_bytes(self.step.call.outputs[k])
                where = last(self.body.location(k) if k in self.kept else location)
                self.step.binder.builder.copy(self.step.results[k], where, nbytes)


class ControlStep:
    """A loop or branch being written to a table."""

    def __init__(self, binder: StepBinder, call: LibraryCall, memory: PlanMemory, repeated: int) -> None:
        self.binder, self.call, self.memory, self.repeated = binder, call, memory, repeated
        self.attrs = dict(call.attrs)
        assert all(w.contiguous for w in call.outputs), "results have buffers of their own"
        self.results = [memory.location(w.buffer, w.offset) for w in call.outputs]
        self._operands: dict[int, Location] = {}

    def operand(self, k: int) -> Location:
        """Return the location of an operand in C order, which is copied if it is not."""
        found = self._operands.get(k)
        if found is None:
            window = self.call.inputs[k]
            found = self.memory.location(window.buffer, window.offset)
            if not window.contiguous:
                location = self.binder.room(window_bytes(window))
                self.copy(location, window, found)
                found = location
            self._operands[k] = found
        return found

    def start(self, k: int, result: int) -> Location:
        """Return the location of a carried operand, which is copied if it lies in the memory of its result."""
        location, window = self.operand(k), self.call.inputs[k]
        if location != self.results[result]:
            return location
        found = self.binder.room(window_bytes(window))
        self.binder.builder.copy(found, location, window_bytes(window))
        return found

    def operands(self, first: int) -> list[Location]:
        """Return the locations of the operands from `first` on."""
        return [self.operand(k) for k in range(first, len(self.call.inputs))]

    def copy(self, location: Location, window: Window, source: Location) -> None:
        """Copy a window into C order at a location."""
        copy_window(self.binder, location, window, source, self.call.step)

    def transfer(self, target: Window, location: Location, window: Window, source: Location) -> None:
        """Copy a window to another of the same shape."""
        transfer_window(self.binder, target, location, window, source, self.call.step)

    def times(self, length: int, body: Callable[[Location], None]) -> None:
        """Write a loop with `length` iterations."""
        self.counted(*self.bounds(length), body)

    def bounds(self, length: int) -> tuple[Location, Location]:
        """Return the locations of the numbers 0 and `length`."""
        bounds = {0: np.array([0, length], np.int64)}
        self.binder.builder.hold(bounds)
        value, offset = self.binder.constants(bounds)(0)
        return (value, offset), (value, offset + 8)

    def counted(self, low: Location, high: Location, body: Callable[[Location], None]) -> None:
        """Write a loop over the integers from `low` to below `high`."""
        builder, counter = self.binder.builder, self.binder.room(8)
        again, test = builder.label(), builder.label()
        builder.copy(counter, low, 8)
        builder.jump(test)
        builder.place(again)
        body(counter)
        builder.count(counter[0], 1, offset=counter[1])
        builder.place(test)
        builder.branch_less(counter, high, again)
