"""The memory of a loop's body: which windows are read and written in place, and how buffers move.

A contiguous window is read in place. All windows of an iteration are read before any is written, so the body may write
a window in place only if nothing else in the iteration touches it, or if one kernel reads each element before it writes
it, or reads all before it writes any. Other windows are copied at the end of the iteration. Decided from call plans
alone, before there are kernels, and again when they are bound (`jitfuse.compile.bind.rerolled_loops`). Owns how each
buffer of the body moves from one iteration to the next.
"""
from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from jitfuse.base.records import NamedTuple
from jitfuse.compile.bind.copies import in_order
from jitfuse.compile.bind.steps import PARALLEL_NS, RELEASE_GIL_NS
from jitfuse.compile.call_plans.call_plan import BodyPlan, CallPlan, KernelCall, LibraryCall, Window
from jitfuse.dtypes import itemsize, kind
from jitfuse.ir.semantics.rerolled import IterationWindow, accesses

_NEVER: Final = 1 << 60


class BodyResult(NamedTuple):
    """A result of a body: the value whose buffer holds it, its window, and whether it fills the buffer in C order.

    The value is None if the body has written it over the carried value that it replaces.
    """

    value: int | None
    window: Window
    whole: bool


class Motion(NamedTuple):
    """How a buffer moves: by `step` bytes of an operand in each iteration, or back and forth (`turns`). Memory that is
    `fixed` is never written."""

    step: int = 0
    turns: bool = False
    fixed: bool = False
    operand: int = -1


def results_of(body: BodyPlan) -> list[BodyResult]:
    """Return the results of a body in order."""
    plan, found = body.plan, []
    for value, dtype in plan.results.values():
        view = plan.views.get(value)
        if view is None:
            view = Window(("value", value), 0, dtype, plan.outputs[value][1], (), True)
        kind, base = view.buffer
        whole = kind != "feed" and view.contiguous and math.prod(view.shape) == math.prod(plan.outputs[base][1])
        found.append(BodyResult(None if kind == "feed" else base, view, whole))
    return found


class LoopLayout:
    """The windows of a loop, and where its body writes.

    reads    windows of operands; operands below `arrays` are those that the loop writes into
    writes   windows that it writes
    sizes    bytes of an element of each operand
    feeds    the body's: carried values, then read windows, then operands from number `sources` on
    counter  the feed that is the iteration number, or None
    length   the number of iterations; None if only a call knows it
    direct   the values that the body writes to a window, each with the window's number
    copied   the windows that are copied to when an iteration ends
    own      the carried values with buffers of their own, each with its number among the carried values
    """

    def __init__(
        self, body: BodyPlan, carries: int, arrays: int, length: int | None, sizes: Sequence[int],
        reads: Sequence[IterationWindow] = (), writes: Sequence[IterationWindow] = (), *, sources: int = 0,
        counted: bool = False,
    ) -> None:
        self.body, self.carries, self.arrays, self.length = body, carries, arrays, length
        self.reads, self.writes, self.sizes, self.sources = reads, writes, sizes, sources
        self.results = results_of(body)
        feeds = [feed for feed, _ in body.feeds]
        self.counter = feeds[0] if counted else None
        self.feeds = feeds[1:] if counted else feeds
        self.direct: dict[int, int] = {}
        self.copied: list[int] = []
        for number, (value, _, whole) in enumerate(self.results[self.carries :]):
            if value is not None and whole and value not in self.direct and self._alone(number):
                self.direct[value] = number
            else:
                self.copied.append(number)
        self.own: dict[int, int] = {}
        for k, (value, _, whole) in enumerate(self.results[: self.carries]):
            if value is not None and whole and value not in self.direct:
                self.own.setdefault(value, k)

    @property
    def stays(self) -> bool:
        """Whether an iteration copies nothing besides what the body does."""
        carried = all(
            value is None or self.own.get(value) == k or (whole and value in self.direct)
            for k, (value, _, whole) in enumerate(self.results[: self.carries])
        )
        return carried and not self.copied and all(read.contiguous for read in self.reads)

    def motions(self, kept: Collection[Any]) -> dict[Any, Motion]:
        """Return how each buffer of the body moves; only for a loop that `stays`.

        `kept` are the feeds that only the first iteration reads from memory.
        """
        found: dict[Any, Motion] = {}
        for value, number in self.direct.items():
            found["value", value] = self._along(self.writes[number])
        for value, k in self.own.items():
            found["value", value] = Motion(turns=("feed", self.feeds[k]) not in kept)
        following = iter(self.feeds)
        for result, feed in zip(self.results[: self.carries], following):
            found["feed", feed] = Motion() if result.value is None else found["value", result.value]
        for read, feed in zip(self.reads, following):
            found["feed", feed] = self._along(read)
        for operand, feed in enumerate(following, self.sources):
            found["feed", feed] = Motion(fixed=operand >= self.arrays)
        if self.counter is not None:
            found["feed", self.counter] = Motion(fixed=True)
        return found

    def _along(self, access: IterationWindow) -> Motion:
        fixed = not access.step and access.operand >= self.arrays
        return Motion(access.step * self.sizes[access.operand], fixed=fixed, operand=access.operand)

    def kept(self) -> set[int] | None:
        """Return the carried values that only the first iteration reads from memory; None if the driver runs the loop,
        because its launches have no loop over iterations, or are long enough for several threads."""
        limit = min(PARALLEL_NS, RELEASE_GIL_NS)
        launches = [s for s in self.body.plan.steps if isinstance(s, KernelCall) and s.sweep is not None]
        if not launches or len(launches) < len(self.body.plan.steps) or any(s.cost_ns >= limit for s in launches):
            return None
        feeds = {s.buffers[a][0] for s in launches for a, _ in s.sweep or ()} | self.unread()
        return {k for k in range(self.carries) if ("feed", self.feeds[k]) in feeds}

    def unread(self) -> set[Any]:
        """Return the carried feeds that no step of the body reads."""
        return {("feed", feed) for feed in self.feeds[: self.carries]} - set(_touched(self.body.plan))

    def handed_on(self) -> Iterator[tuple[Any, Any]]:
        """Yield (feed, value) of numbers that an iteration makes and the next one reads; only for a loop that `stays`.

        They are carried, or written to a window that the next iteration reads.
        """
        for (value, window, _), feed in zip(self.results[: self.carries], self.feeds):
            if value is not None and math.prod(window.shape) == 1 and kind(window.dtype) != "complex":
                yield ("feed", feed), ("value", value)
        for value, number in self.direct.items():
            write, window = self.writes[number], self.results[self.carries + number].window
            if math.prod(write.shape) != 1 or kind(window.dtype) == "complex":
                continue
            for read, feed in zip(self.reads, self.feeds[self.carries :]):
                following = read.operand, read.offset + read.step, read.step
                if following == (write.operand, write.offset, write.step) and math.prod(read.shape) == 1:
                    yield ("feed", feed), ("value", value)

    # ------------------------------------------------------------------ what may be written directly
    def _alone(self, number: int) -> bool:
        """Return whether the body may write a window in place: see the module."""
        access = self.writes[number]
        if not access.contiguous or self._reads_whole(access.operand):
            return False
        others = [w for k, w in enumerate(self.writes) if k != number and w.operand == access.operand]
        if self._is_carried(number):  # the next iteration reads it in place
            low, high = access.reach
            if others or abs(access.step) < high - low:
                return False
        steps = self.body.plan.steps
        loads_first = len(steps) == 1 and isinstance(steps[0], KernelCall) and steps[0].loads_first
        return all(_disjoint(access, w, self.length) for w in others) and (loads_first or all(
            _disjoint(access, r, self.length) or (r == access and self._read_before(k, number))
            for k, r in enumerate(self.reads) if r.operand == access.operand
        ))

    def _read_before(self, k: int, number: int) -> bool:
        """Return whether one kernel reads each element of a window before it writes it."""
        steps, value = self.body.plan.steps, self.results[self.carries + number].value
        if len(steps) != 1 or not isinstance(steps[0], KernelCall) or not steps[0].turns:
            return False
        feed = self.feeds[self.carries + k]
        loads, stores = [-1], []
        for (buffer, offset), turn in zip(steps[0].buffers, steps[0].turns, strict=True):
            if buffer == ("value", value):
                stores.append(-1 if offset else turn)
            elif buffer == ("feed", feed):
                loads.append(_NEVER if offset or turn < 0 else turn)
        return max(loads) < min(stores)

    def _is_carried(self, number: int) -> bool:
        """Return whether a written value is also carried."""
        written = self.results[self.carries + number].value
        return any(result.value == written for result in self.results[: self.carries])

    def _reads_whole(self, array: int) -> bool:
        """Return whether the body reads all of an array that it writes."""
        if array < self.sources:
            return False
        feed = self.feeds[self.carries + len(self.reads) + array - self.sources]
        return ("feed", feed) in set(_touched(self.body.plan))


def layout_of(call: LibraryCall) -> LoopLayout | None:
    """Return the layout of a loop whose iterations run in a known order; None for all other steps."""
    attrs, bodies = dict(call.attrs), dict(call.bodies)
    if call.name == "rolled_loop":
        return rerolled_layout(call)
    if call.name == "scan":
        return scan_layout(call)
    if call.name != "fori_loop":
        return None
    return LoopLayout(bodies["body"], attrs["carries"], 0, None, [], counted=True)


def rerolled_layout(call: LibraryCall) -> LoopLayout:
    """Return the layout of a re-rolled loop."""
    attrs, carries = dict(call.attrs), dict(call.attrs)["carries"]
    return LoopLayout(
        dict(call.bodies)["body"], carries, attrs["arrays"], attrs["length"],
        [itemsize(w.dtype) for w in call.inputs[carries:]], accesses(attrs["reads"]), accesses(attrs["writes"]),
    )


def scan_layout(call: LibraryCall) -> LoopLayout:
    """Return the layout of a scan: it writes its results row by row."""
    attrs = dict(call.attrs)
    carries, scanned, length = attrs["carries"], attrs["scanned"], attrs["length"]
    stacks, parts = call.outputs[carries:], call.inputs[carries : carries + scanned]
    sizes = [itemsize(w.dtype) for w in (*stacks, *parts)]
    windows = []
    for operand, window in enumerate((*stacks, *parts)):
        shape = window.shape[1:]
        distance = part_bytes(window) // sizes[operand]
        step = -distance if attrs["reverse"] else distance
        offset = (length - 1) * distance if attrs["reverse"] else 0
        windows.append(IterationWindow(operand, offset, step, 0, shape, in_order(shape, 1)))
    reads, writes = windows[len(stacks) :], windows[: len(stacks)]
    sources = len(windows)
    return LoopLayout(dict(call.bodies)["body"], carries, len(stacks), length, sizes, reads, writes, sources=sources)


def part_bytes(window: Window) -> int:
    """Return the bytes from one row of a scanned array to the next: the array's own if its rows are in C order, else
    those of a copy."""
    inner = itemsize(window.dtype) * math.prod(window.shape[1:])
    return window.strides[0] if not window.contiguous and in_parts(window) else inner


def in_parts(window: Window) -> bool:
    """Return whether each row of an array is in C order, and rows are whole elements apart."""
    if window.strides[0] % itemsize(window.dtype):
        return False
    strides = in_order(window.shape[1:], itemsize(window.dtype))
    return all(n == 1 or a == b for n, a, b in zip(window.shape[1:], window.strides[1:], strides, strict=True))


def _disjoint(a: IterationWindow, b: IterationWindow, length: int | None) -> bool:
    """Return whether two windows overlap in no iteration."""
    if a.step != b.step and not length:
        return False
    (low_a, high_a), (low_b, high_b) = a.reach, b.reach
    far = [b.offset - a.offset + k * (b.step - a.step) for k in (0, (length or 1) - 1)]
    return min(far) + low_b >= high_a or max(far) + high_b <= low_a


def _touched(plan: CallPlan) -> Iterator[tuple[str, int]]:
    for step in plan.steps:
        if isinstance(step, KernelCall):
            yield from (buffer for buffer, _ in step.buffers)
        else:
            yield from (window.buffer for window in _windows(step.inputs, step.outputs))


def _windows(*sides: Sequence[Window]) -> Iterator[Window]:
    for side in sides:
        yield from side
