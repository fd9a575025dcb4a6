"""Run a call plan from Python: its kernels launched one after the other over NumPy's memory.

Slower by some microseconds a launch than the native driver and on one thread, with the same bits: the kernels are the
same. Owns the buffers of a run, and the runs of the programs that loops and branches hold. Does not own plans,
kernels, or where a call's feeds come from.
"""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from jitfuse.compile.call_plan import BodyPlan, CallPlan, KernelCall, LibraryCall, Window
from jitfuse.compile.host_functions import host_function
from jitfuse.compile.objects import KernelObject
from jitfuse.compile.plan_literals import literal_arrays
from jitfuse.compile.status import kernel_error
from jitfuse.dtypes import itemsize, numpy_dtype

# holds the GIL, so that nothing comes between the launches that reserve random numbers
_KERNEL: Final = ctypes.PYFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
)

Arrays = Mapping[int, np.ndarray[Any, Any]]
OnStatus = Callable[[int, Any, int], Any]
"""What raises for a kernel's status: called with 0, the launch's checks and the status."""


class PlanCall:
    """Runs of one plan, one after the other; not for several threads. `name` is the function's, for errors."""

    def __init__(self, plan: CallPlan, kernels: KernelObject | None, constants: Arrays, name: str) -> None:
        self.plan = plan
        self._kernels = kernels
        self._name = name
        self._arena = np.empty(plan.arena_bytes + 64, np.uint8)
        self._arena_at = -(-self._arena.ctypes.data // 64) * 64
        self._arrays: dict[Any, np.ndarray[Any, Any]] = {("const", v): data for v, data in constants.items()}
        self._host: dict[int, Callable[..., None]] = {}

    def run(self, feeds: Arrays, on_status: OnStatus) -> None:
        """Run all steps over these feeds; `on_status` raises for a kernel's status. Results have new memory."""
        for feed, array in feeds.items():
            self._arrays["feed", feed] = array
        for value, (dtype, shape) in self.plan.outputs.items():
            self._arrays["value", value] = np.empty(shape, numpy_dtype(dtype))
        for number, step in enumerate((*self.plan.steps, *self.plan.commits)):
            if isinstance(step, LibraryCall):
                if number not in self._host:
                    self._host[number] = host_function(step, bodies_of(step, self._kernels, self._name))
                self._host[number](*map(self._window, (*step.inputs, *step.outputs)))
            else:
                status = self._launch(step)
                if status:
                    on_status(0, step.checks, status)

    def output(self, value: int) -> np.ndarray[Any, Any]:
        """Return the array of a delivered value of the last run."""
        view = self.plan.views.get(value)
        whole = self._arrays["value", value] if view is None else self._arrays[view.buffer]
        if view is None:
            return whole
        return np.ndarray(view.shape, whole.dtype, whole, view.offset, view.strides)

    def _address(self, buffer: Any, offset: int) -> int:
        array = self._arrays.get(buffer)
        if array is not None:
            return int(array.ctypes.data) + offset
        return self._arena_at + int(self.plan.offsets[buffer]) + offset

    def _launch(self, launch: KernelCall) -> int:
        assert self._kernels is not None
        words = np.array([*(self._address(b, o) for b, o in launch.buffers), *launch.words], np.int64)
        scratch = np.empty(launch.scratch + 64, np.uint8)
        kernel = _KERNEL(self._kernels.address(launch.kernel))
        aligned = -(-scratch.ctypes.data // 64) * 64
        return int(kernel(words.ctypes.data, 0, launch.units, aligned))

    def _window(self, operand: Window) -> np.ndarray[Any, Any]:
        interface = {
            "shape": operand.shape, "strides": operand.strides, "typestr": f"|V{itemsize(operand.dtype)}",
            "data": (self._address(operand.buffer, operand.offset), False), "version": 3,
        }
        memory = np.asarray(type("Memory", (), {"__array_interface__": interface, "owner": self})())
        return memory.view(numpy_dtype(operand.dtype))


# ---------------------------------------------------------------- what loops and branches hold
class Body:
    """A program that a step holds, for one run of that step: called with operands, returns the results."""

    def __init__(self, body: BodyPlan, kernels: KernelObject | None, constants: Arrays, name: str) -> None:
        self._body = body
        self._name = name
        self._call = PlanCall(body.plan, kernels, constants, name)
        self._feeds = [(feed, numpy_dtype(dtype)) for feed, dtype in body.feeds]

    @property
    def results(self) -> list[tuple[tuple[int, ...], str]]:
        """Shape and dtype of each result."""
        plan = self._body.plan
        shapes = [plan.views[v].shape if v in plan.views else plan.outputs[v][1] for v, _ in plan.results.values()]
        return list(zip(shapes, (dtype for _, dtype in plan.results.values()), strict=True))

    def __call__(self, *operands: Any) -> tuple[np.ndarray[Any, Any], ...]:
        """Return the results in memory of their own."""
        feeds = {
            feed: np.ascontiguousarray(value, dtype).reshape(np.shape(value))
            for (feed, dtype), value in zip(self._feeds, operands, strict=True)
        }
        self._call.run(feeds, self._raise)
        return tuple(self._call.output(value) for value, _ in self._body.plan.results.values())

    def _raise(self, _: int, checks: Any, status: int) -> None:
        raise kernel_error(self._name, checks, status)


def bodies_of(call: LibraryCall, kernels: KernelObject | None, name: str) -> Callable[[], dict[str, Any]]:
    """Return what makes the bodies of a step, by attribute, for one run of it."""
    constants = {held: literal_arrays(body.plan.literals) for held, body in call.bodies}
    return lambda: {held: Body(body, kernels, constants[held], name) for held, body in call.bodies}
