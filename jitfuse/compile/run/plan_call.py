"""Run a call plan from Python: its kernels launched one after the other over NumPy's memory.

Some microseconds slower per launch than the native driver, and on one thread, with the same bits from the same kernels.
Owns the buffers of a run. Does not own plans, kernels, or where a call's feeds come from.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jitfuse.base.later import Later
from jitfuse.compile.call_plans.call_plan import CallPlan, KernelCall, LibraryCall, Window
from jitfuse.compile.objects.kernel_object import KERNEL, Kernels
from jitfuse.dtypes import numpy_dtype

bodies = Later("jitfuse.compile.run.bodies")
host_functions = Later("jitfuse.compile.bind.host_functions")

Arrays = Mapping[int, np.ndarray[Any, Any]]
OnStatus = Callable[[Any, int], Any]
"""Raises for a kernel's status: called with the launch's checks and the status."""


class PlanCall:
    """A run of one plan. `name` is the function's, for errors."""

    def __init__(self, plan: CallPlan, kernels: Kernels | None, constants: Arrays, name: str) -> None:
        self.plan = plan
        self._kernels = kernels
        self._name = name
        self._arena = np.empty(plan.arena_bytes + 64, np.uint8)
        self._arena_at = -(-self._arena.ctypes.data // 64) * 64
        self._arrays: dict[Any, np.ndarray[Any, Any]] = {("const", v): data for v, data in constants.items()}

    def run(self, feeds: Arrays, on_status: OnStatus) -> None:
        """Run all steps over these feeds; `on_status` raises for a kernel's status. Results have new memory."""
        for feed, array in feeds.items():
            self._arrays["feed", feed] = array
        for value, (dtype, shape) in self.plan.outputs.items():
            self._arrays["value", value] = np.empty(shape, numpy_dtype(dtype))
        for step in (*self.plan.steps, *self.plan.commits):
            if isinstance(step, LibraryCall):
                held = bodies.bodies_of(step, self._kernels, self._name)
                host_functions.host_function(step, held)(*map(self._window, (*step.inputs, *step.outputs)))
            else:
                status = self._launch(step)
                if status:
                    on_status(step.checks, status)

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
        kernel = KERNEL(self._kernels.address(launch.kernel))
        aligned = -(-scratch.ctypes.data // 64) * 64
        return int(kernel(words.ctypes.data, 0, launch.units, aligned))

    def _window(self, operand: Window) -> np.ndarray[Any, Any]:
        return bodies.window(self._address(operand.buffer, operand.offset), operand, self)
