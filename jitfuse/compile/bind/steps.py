"""Bind the steps of a plan, and of the programs that its steps hold, as ops of the native driver.

Owns the buffers' locations (`PlanMemory`), the choice of threads, and the host steps. Does not own results
(`jitfuse.compile.bind.plan`), loops and branches (`jitfuse.compile.bind.control_ops`, handed in), nor the ops' format
(`jitfuse.backends.llvm.runtime.tables`).
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse.backends.llvm.runtime.native import expect_threads
from jitfuse.backends.llvm.runtime.plan_table import ARENA, BatchedLaunch, HostStepArray, PlanBuilder, SweptLaunch
from jitfuse.base.later import Later
from jitfuse.compile.call_plans.call_plan import CallPlan, KernelCall, LibraryCall, Window
from jitfuse.compile.guards.guard_tables import BoundEntry
from jitfuse.compile.objects.kernel_object import Kernels
from jitfuse.compile.objects.runtime_object import native_runtime
from jitfuse.dtypes import numpy_dtype

if TYPE_CHECKING:
    from jitfuse.compile.bind.launch_loops import Course

host_functions = Later("jitfuse.compile.bind.host_functions")

PARALLEL_NS: Final = 3_000
"""Launches estimated below this run in the calling thread: waking a hot pool costs a tenth of it."""
RELEASE_GIL_NS: Final = 50_000
"""Launches estimated above this release the GIL."""
PIECE_NS: Final = 10_000
"""Estimated time that a loop in a kernel runs between checks for signals and other threads."""
HOST_NS: Final = 2_000
"""Assumed cost of a host step."""
ALIGN: Final = 64

Location = tuple[int, int]
"""(value, byte offset): a location of memory in a call."""


class PlanMemory:
    """Where the buffers of one plan lie: its feeds and outputs by number, its literal arrays, its arena."""

    def __init__(
        self, plan: CallPlan, feeds: Mapping[int, Location], outputs: Mapping[int, Location],
        constants: Callable[[int], Location], arena: int,
    ) -> None:
        self.plan = plan
        self.feeds = feeds
        self.outputs = outputs
        self._constants = constants
        self._arena = arena

    def location(self, buffer: Any, offset: int = 0) -> Location:
        """Return the location of an offset in a buffer."""
        kind, number = buffer
        if kind == "feed":
            value, at = self.feeds[number]
        elif kind == "const":
            value, at = self._constants(number)
        elif kind == "value" and number in self.outputs:
            value, at = self.outputs[number]
        else:
            value, at = ARENA, self._arena + self.plan.offsets[buffer]
        return value, at + offset


BindControl = Callable[["StepBinder", LibraryCall, PlanMemory, int], None]
"""Writes a loop or branch by a binder; the number estimates how often it runs."""


class StepBinder:
    """Writes the steps of plans into the ops of one mode of a function; `bind_control` writes loops and branches."""

    def __init__(
        self, bound: BoundEntry, builder: PlanBuilder, kernels: Kernels | None, bind_control: BindControl
    ) -> None:
        self.bound = bound
        self.builder = builder
        self.cost = 0
        self.kernels = kernels
        self._bind_control = bind_control
        self._slots = {bound.feed_values[feed]: slot for feed, slot in bound.feed_slots.items()
                       if feed in bound.feed_values}
        self._slots[bound.anchor_value] = bound.anchor_slot
        self._arena = 0

    # ------------------------------------------------------------------ memory
    def reserve(self, nbytes: int) -> int:
        """Reserve bytes of the arena until `release`; return their offset."""
        at, self._arena = self._arena, self._arena + -(-nbytes // ALIGN) * ALIGN
        if nbytes:
            self.builder.arena(self._arena)
        return at

    def room(self, nbytes: int) -> Location:
        """Return a location in the arena with room for this many bytes."""
        return ARENA, self.reserve(max(nbytes, 1))

    @property
    def reserved(self) -> int:
        """How much of the arena is reserved."""
        return self._arena

    def release(self, reserved: int) -> None:
        """Release all that was reserved since this much was."""
        self._arena = reserved

    def constants(self, arrays: Mapping[int, np.ndarray[Any, Any]]) -> Callable[[int], Location]:
        """Return the function that locates literal arrays, which the caller keeps alive."""
        return lambda number: (self.bound.anchor_value, arrays[number].ctypes.data - self.bound.anchor)

    # ------------------------------------------------------------------ steps
    def steps(self, steps: Sequence[KernelCall | LibraryCall], memory: PlanMemory, repeated: int = 1) -> None:
        """Write steps; `repeated` estimates how often they run."""
        for step in _with_batches(steps):
            if isinstance(step, list):
                self.cost += repeated * self._launch(step, memory)
            elif step.bodies:
                self._bind_control(self, step, memory, repeated)
            else:
                self.host(host_functions.host_function(step), step, memory)
                self.cost += repeated * HOST_NS

    def _launch(self, batch: Sequence[KernelCall], memory: PlanMemory) -> int:
        """Write a launch, or a batch as one launch; return its estimated time."""
        assert self.kernels is not None
        cost = sum(launch.cost_ns for launch in batch)
        parallel = cost >= PARALLEL_NS and sum(launch.units for launch in batch) > 1
        if parallel:
            expect_threads()
        kernel = self.kernels.address(batch[0].kernel)
        how: dict[str, Any] = {
            "threads": 0 if parallel else 1, "scratch": max(launch.scratch for launch in batch),
            "gil": cost >= RELEASE_GIL_NS, "site": len(self.bound.checks),
        }
        rows = [
            BatchedLaunch(launch.units, [memory.location(b, o) for b, o in launch.buffers], launch.words)
            # threads take ever smaller chunks of units: the dearest come last
            for launch in sorted(batch, key=lambda launch: launch.cost_ns / launch.units)
        ]
        if len(batch) == 1:
            self.builder.launch(kernel, rows[0].units, operands=rows[0].operands, words=rows[0].words, **how)
        else:
            anchor = self.bound.anchor_value, self.bound.anchor
            self.builder.batch(native_runtime().address("jf_batch"), kernel, rows, anchor, **how)
        self.bound.checks.append(batch[0].checks)
        return cost

    def sweep(
        self, launches: Sequence[KernelCall | LibraryCall], memory: PlanMemory, course: Course,
        bounds: tuple[Location, Location],
        repeated: int,
    ) -> None:
        """Write launches that loop over iterations, one after the other, over operands that move on a course.

        `bounds` locate the number of the first iteration and one past that of the last. The first iteration gets
        launches of its own if its operands are not on the course of the others; there must be one then. `repeated`
        estimates how often the launches run.
        """
        calls = [launch for launch in launches if isinstance(launch, KernelCall)]
        locations = [[memory.location(b, o) for b, o in launch.buffers] for launch in calls]
        first = [[course.first(location) for location in operands] for operands in locations]
        after = [[course.after(location) for location in operands] for operands in locations]
        base = [[(m.location[0], m.location[1] - m.step) for m in operands] for operands in after]
        turns = [{o: m.turn for o, m in enumerate(operands) if m.turn is not None} for operands in after]
        alone = base != first or any(turns)
        swept = []
        for k, launch in enumerate(calls):
            assert self.kernels is not None
            kernel, site = self.kernels.address(launch.kernel), len(self.bound.checks)
            self.bound.checks.append(launch.checks)
            self.cost += repeated * launch.cost_ns
            if alone:
                self.builder.launch(kernel, launch.units, operands=first[k], words=launch.words, site=site)
            swept.append(SweptLaunch(kernel, launch.units, site, base[k], turns[k], launch.words))
        together = len(swept) == 1 and not turns[0]
        piece = max(1, PIECE_NS // calls[0].cost_ns) if together else 1
        if swept:
            self.builder.sweep(int(alone), *bounds, piece, swept)

    def host(self, function: Callable[..., None], step: LibraryCall, memory: PlanMemory) -> None:
        """Write a host step."""
        reads, writes = (
            [(w, memory.location(w.buffer, w.offset)) for w in side] for side in (step.inputs, step.outputs))
        self.builder.host(
            function, [*(self.array(w, at) for w, at in reads), *(self.array(w, at, True) for w, at in writes)],
            site=step.step,
        )

    def array(self, window: Window, location: Location, writeable: bool = False) -> HostStepArray:
        """Return memory as an array for a host step."""
        strides = None if window.contiguous else window.strides
        value, offset = location
        return HostStepArray(value, numpy_dtype(window.dtype), window.shape, strides, offset, self._slots.get(value),
                         writeable)


def _with_batches(steps: Sequence[KernelCall | LibraryCall]) -> list[list[KernelCall] | LibraryCall]:
    """Return the steps with launches in lists: those of a batch in one."""
    made: list[Any] = []
    for step in steps:
        if isinstance(step, LibraryCall):
            made.append(step)
        elif step.batched:
            made[-1].append(step)
        else:
            made.append([step])
    return made
