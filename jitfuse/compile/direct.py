"""Launch a plan's kernels from Python: what the first calls on a machine do while the native runtime is compiled.

Slower by some microseconds a call and on one thread, with the same bits: the kernels are the same. Owns the buffers
of one call. Does not own plans, kernels or results.
"""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from jitfuse.compile.call_plan import CallPlan, KernelCall, LibraryCall, Window
from jitfuse.compile.delivery import State, bind_feeds, build_result
from jitfuse.compile.host_functions import host_function
from jitfuse.compile.objects import KernelObject
from jitfuse.dtypes import itemsize, numpy_dtype
from jitfuse.tracing.tracer import Trace

# holds the GIL, so that nothing comes between the launches that reserve random numbers
_KERNEL: Final = ctypes.PYFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
)


class DirectCall:
    """One call of a plan."""

    def __init__(
        self, trace: Trace, plan: CallPlan, kernels: KernelObject | None,
        constants: Mapping[int, np.ndarray[Any, Any]], bound: Mapping[int, Any],
    ) -> None:
        self._trace, self._plan, self._kernels = trace, plan, kernels
        self._bound = bound
        self._arrays: dict[Any, np.ndarray[Any, Any]] = {}
        self._arena = np.empty(plan.arena_bytes + 64, np.uint8)
        self._arena_at = -(-self._arena.ctypes.data // 64) * 64
        for value, (dtype, shape) in plan.outputs.items():
            self._arrays["value", value] = np.empty(shape, numpy_dtype(dtype))
        for value, data in constants.items():
            self._arrays["const", value] = data
        for feed, given in bound.items():
            source = trace.feeds[feed]
            kind = numpy_dtype(source.meta.dtype)
            self._arrays["feed", feed] = given if isinstance(given, np.ndarray) else np.array(given, kind)

    def run(self, on_status: Callable[[int, Any, int], Any]) -> Any:
        """Run all steps and return the result; `on_status` raises for a kernel's status."""
        for step in (*self._plan.steps, *self._plan.commits):
            if isinstance(step, LibraryCall):
                operands = [self._window(o) for o in (*step.inputs, step.output)]
                host_function(step)(*operands)
            else:
                status = self._launch(step)
                if status:
                    on_status(0, step.checks, status)
        outputs = {path: self._output(value) for path, (value, _) in self._plan.results.items()}
        return build_result(self._trace, outputs, self._bound)

    def _address(self, buffer: Any, offset: int) -> int:
        array = self._arrays.get(buffer)
        if array is not None:
            return int(array.ctypes.data) + offset
        return self._arena_at + int(self._plan.offsets[buffer]) + offset

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

    def _output(self, value: int) -> np.ndarray[Any, Any]:
        view = self._plan.views.get(value)
        whole = self._arrays["value", value] if view is None else self._arrays[view.buffer]
        if view is None:
            return whole
        return np.ndarray(view.shape, whole.dtype, whole, view.offset, view.strides)


def call_directly(
    trace: Trace, plan: CallPlan, kernels: KernelObject | None, constants: Mapping[int, np.ndarray[Any, Any]],
    args: Sequence[Any], kwargs: Mapping[str, Any], state: State, on_status: Callable[[int, Any, int], Any],
) -> Any:
    """Return what the traced function returns for these arguments, whose signature is the trace's."""
    return DirectCall(trace, plan, kernels, constants, bind_feeds(trace, args, kwargs, state)).run(on_status)
