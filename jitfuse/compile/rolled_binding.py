"""Bind rolled loops as ops of the native driver: windows of arrays are values that move on with each iteration.

A window that lies in one piece is read and written where it is; another is copied from and to the arena. The body
writes a window directly where nothing else of the iteration touches it, or one kernel reads each element before it
writes it; else it is copied there in the end, for all windows are read before any is written. A loop whose iterations
are launches alone is one op (`jitfuse.compile.sweep_binding`). Does not own loops in general
(`jitfuse.compile.control_binding`).
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from jitfuse.compile.call_plan import CallPlan, KernelCall, Window
from jitfuse.compile.control_step import Carried, ControlStep, HeldBody
from jitfuse.compile.copying import window_bytes
from jitfuse.compile.step_binding import Place
from jitfuse.compile.sweep_binding import Course, NoCourseError, is_swept
from jitfuse.dtypes import itemsize
from jitfuse.ir.rolled import Access, accesses

_NEVER: Final = 1 << 60


def bind_rolled(step: ControlStep) -> None:
    """Write the ops of a rolled loop."""
    _Rolled(step).bind()


class _Rolled:
    """A rolled loop that is written."""

    def __init__(self, step: ControlStep) -> None:
        attrs = step.attrs
        self.step, self.builder = step, step.binder.builder
        self.carries, self.arrays, self.length = attrs["carries"], attrs["arrays"], attrs["length"]
        self.reads, self.writes = accesses(attrs["reads"]), accesses(attrs["writes"])
        self.body = HeldBody(step, "body")
        self.sources = step.results[self.carries :] + step.operands(self.carries + self.arrays)
        self.sizes = [itemsize(w.dtype) for w in step.call.inputs[self.carries :]]
        self.starts: list[tuple[int, int, int]] = []
        self.moves: list[tuple[int, int, int]] = []
        self._values: dict[tuple[Place, int], int] = {}

    def bind(self) -> None:
        """Write the loop."""
        step, carries = self.step, self.carries
        for k in range(carries, carries + self.arrays):
            self.builder.copy(step.results[k], step.operand(k), window_bytes(step.call.outputs[k]))
        parts, packed = [], []
        for access in self.reads:
            place = self.moving(access)
            if not access.contiguous:
                source, place = place, step.binder.room(window_bytes(self.window(access)))
                packed.append((access, source, place))
            parts.append(place)
        copied: list[tuple[int, Access, Place]] = []
        rows = []
        for k, access in enumerate(self.writes, carries):
            place, value = self.moving(access), self.body.claim(k)
            if value is not None and self.alone(k - carries):
                self.body.outputs[value] = place
                rows.append(value)
            else:
                copied.append((k, access, place))
        carried = Carried(step, self.body, carries, 0, rows)
        self.body.settle()
        if not packed and not copied and self.swept(carried, parts):
            return
        self.builder.move(self.starts)
        carried.begin()

        def iteration(counter: Place) -> None:
            for access, source, place in packed:
                step.copy(place, self.window(access), source)
            self.body.run([*carried.places, *parts, *self.sources], step.repeated * self.length)
            for k, access, place in copied:
                self.write(k, access, place)
            carried.turn()
            self.builder.move(self.moves)

        step.times(self.length, iteration)
        carried.end()

    def swept(self, carried: Carried, parts: Sequence[Place]) -> bool:
        """Write the loop as one op, where its iterations are launches alone; returns whether they are."""
        if carried.pairs or self.length < 2 or not is_swept(self.body.body.plan.steps):
            return False
        course = Course([*self.starts, *carried.starts], carried.moves, carried.later, self.moves)
        try:
            self.body.sweep([*carried.places, *parts, *self.sources], course, self.length, self.step.repeated)
        except NoCourseError:
            return False
        carried.end(lambda place: course.last(place, self.length))
        return True

    def moving(self, access: Access) -> Place:
        """Return where a window begins in each iteration."""
        size, source = self.sizes[access.operand], self.sources[access.operand]
        if not access.step:
            return source[0], source[1] + access.offset * size
        key = source, access.step * size
        moved = self._values.get(key)
        if moved is None:
            moved = self._values[key] = self.builder.value()
            self.starts.append((moved, *source))
            self.moves.append((moved, moved, access.step * size))
        return moved, access.offset * size

    def window(self, access: Access) -> Window:
        """Return how a window's elements lie."""
        size = self.sizes[access.operand]
        dtype = self.step.call.inputs[self.carries + access.operand].dtype
        strides = tuple(s * size for s in access.strides)
        return Window(("value", 0), 0, dtype, access.shape, strides, access.contiguous)

    def write(self, k: int, access: Access, place: Place) -> None:
        """Copy a result to its window."""
        target, made = self.window(access), self.body.results[k].window
        if target.contiguous and made.contiguous:
            self.builder.copy(place, self.body.place(k), window_bytes(target))
            return
        self.step.transfer(target, place, made, self.body.place(k))

    # ------------------------------------------------------------------ what may be written directly
    def alone(self, number: int) -> bool:
        """Return whether a window is touched by nothing else that an iteration reads or writes."""
        access = self.writes[number]
        if not access.contiguous or self.reads_whole(access.operand):
            return False
        beside = [w for k, w in enumerate(self.writes) if k != number and w.operand == access.operand]
        if self.carried(number):  # the next iteration reads it where it was written
            low, high = access.reach
            if beside or abs(access.step) < high - low:
                return False
        return all(_apart(access, w) for w in beside) and all(
            _apart(access, r) or (r == access and self.read_before(k, number))
            for k, r in enumerate(self.reads) if r.operand == access.operand
        )

    def read_before(self, k: int, number: int) -> bool:
        """Return whether each element of a window is read before it is written, in one kernel for all."""
        steps, value = self.body.body.plan.steps, self.body.results[self.carries + number].value
        if len(steps) != 1 or not isinstance(steps[0], KernelCall) or not steps[0].turns:
            return False
        feed, _ = self.body.body.feeds[self.carries + k]
        loads, stores = [-1], []
        for ((kind, buffer), offset), turn in zip(steps[0].buffers, steps[0].turns, strict=True):
            if (kind, buffer) == ("value", value):
                stores.append(-1 if offset else turn)
            elif (kind, buffer) == ("feed", feed):
                loads.append(_NEVER if offset or turn < 0 else turn)
        return max(loads) < min(stores)

    def carried(self, number: int) -> bool:
        """Return whether what is written is carried too."""
        results = self.body.results
        return any(results[k].value == results[self.carries + number].value for k in range(self.carries))

    def reads_whole(self, array: int) -> bool:
        """Return whether the body reads all of an array that it writes."""
        feed, _ = self.body.body.feeds[self.carries + len(self.reads) + array]
        return ("feed", feed) in set(_touched(self.body.body.plan))


def _apart(a: Access, b: Access) -> bool:
    """Return whether two windows never overlap within one iteration."""
    if a.step != b.step:
        return False
    (low_a, high_a), (low_b, high_b) = a.reach, b.reach
    return a.offset + high_a <= b.offset + low_b or b.offset + high_b <= a.offset + low_a


def _touched(plan: CallPlan) -> Iterator[tuple[str, int]]:
    for step in plan.steps:
        if isinstance(step, KernelCall):
            yield from (buffer for buffer, _ in step.buffers)
        else:
            yield from (window.buffer for window in _windows(step.inputs, step.outputs))


def _windows(*sides: Sequence[Window]) -> Iterator[Window]:
    for side in sides:
        yield from side
