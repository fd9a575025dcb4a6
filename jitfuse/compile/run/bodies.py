"""Runs the bodies of loops and branches repeatedly, in memory that stays where it is.

A body's kernel arguments, arena and results are laid out once; later runs write only the addresses that change. Results
alternate between two buffers, so that a body can read carried values while it writes the next ones: they are valid
until the run after the next. A result written over its carried value (an array that is updated in place) lies in the
body's own memory, and is valid until the next run. Does not own what a loop does with its body
(`jitfuse.ir.semantics.control`).
"""
from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.compile.bind.host_functions import host_function
from jitfuse.compile.call_plans.call_plan import BodyPlan, KernelCall, LibraryCall, Window
from jitfuse.compile.call_plans.literals import literal_arrays
from jitfuse.compile.call_plans.status import kernel_error
from jitfuse.compile.objects.kernel_object import KERNEL, Kernels
from jitfuse.dtypes import itemsize, numpy_dtype

_KNOWN: Final = 64
"""Operands whose addresses are remembered."""

Array = np.ndarray[Any, Any]


def window(address: int, operand: Window, owner: object) -> Array:
    """Return memory at an address as an array that keeps its owner alive."""
    interface = {
        "shape": operand.shape, "strides": operand.strides, "typestr": f"|V{itemsize(operand.dtype)}",
        "data": (address, False), "version": 3,
    }
    memory = np.asarray(type("Memory", (), {"__array_interface__": interface, "owner": owner})())
    return memory.view(numpy_dtype(operand.dtype))


class CompiledBody:
    """A program that a step holds: takes operands, returns the results. Not thread-safe.

    `name` is the function's, for errors.
    """

    def __init__(self, body: BodyPlan, kernels: Kernels | None, name: str) -> None:
        plan = body.plan
        self._plan, self._name = plan, name
        self._kernels = kernels
        self._constants = literal_arrays(plan.literals)
        self._arena, self._arena_at = _aligned(plan.arena_bytes)
        self._scratch, self._scratch_at = _aligned(max((s.scratch for s in _launches(body)), default=0))
        self._feeds = [("feed", feed) for feed, _ in body.feeds]
        self._cells = [np.zeros((), numpy_dtype(dtype)) for _, dtype in body.feeds]
        self._outputs: tuple[dict[int, Array], ...] = tuple(
            {v: np.empty(shape, numpy_dtype(dtype)) for v, (dtype, shape) in plan.outputs.items()} for _ in range(2)
        )
        self._carried = {
            ("feed", feed): np.empty(plan.views[value].shape, numpy_dtype(dtype))
            for feed, dtype in body.feeds for value, _ in plan.results.values()
            if value in plan.views and plan.views[value].buffer == ("feed", feed)
        }  # what a run overwrites with its result
        results = [value for value, _ in plan.results.values()]
        self._returned = tuple(tuple(self._result(outputs, v) for v in results) for outputs in self._outputs)
        self._turn = 0
        self._at: dict[Any, int] = {}
        self._arrays: dict[Any, Array] = {}
        self._known: dict[int, tuple[Any, Array, int]] = {}
        self._uses: dict[Any, list[tuple[Any, int, int]]] = {}
        self._words: list[Any] = []
        self._addresses = [{("value", v): _address(array) for v, array in outputs.items()} for outputs in self._outputs]
        self._steps = [self._kernel(s) if isinstance(s, KernelCall) else self._host(s) for s in plan.steps]

    @property
    def results(self) -> list[tuple[tuple[int, ...], str]]:
        """Shape and dtype of each result."""
        return [(array.shape, dtype) for array, (_, dtype) in zip(
            self._returned[0], self._plan.results.values(), strict=True)]

    def forget(self) -> CompiledBody:
        """Prepare for another run of the step, with other operands."""
        self._known.clear()
        return self

    def __call__(self, *operands: Any) -> tuple[Array, ...]:
        """Return the results, which are valid until the run after the next."""
        for buffer, cell, operand in zip(self._feeds, self._cells, operands, strict=True):
            own = self._carried.get(buffer)
            if own is not None and own is not operand:
                own[...] = operand
            self._bind(buffer, cell, operand if own is None else own)
        self._turn = turn = 1 - self._turn
        for buffer, address in self._addresses[turn].items():
            self._move(buffer, address)
        for run in self._steps:
            run()
        return self._returned[turn]

    # ------------------------------------------------------------------ memory
    def _bind(self, buffer: Any, cell: Array, operand: Any) -> None:
        if type(operand) is not np.ndarray:
            cell[()] = operand
            operand = cell
        known = self._known.get(id(operand))
        if known is None:
            array = operand if operand.flags.c_contiguous else np.ascontiguousarray(operand)
            if len(self._known) >= _KNOWN:
                self._known.clear()
            known = self._known[id(operand)] = operand, array, _address(array)
        self._arrays[buffer] = known[1]
        self._move(buffer, known[2])

    def _move(self, buffer: Any, address: int) -> None:
        if self._at.get(buffer) != address:
            self._at[buffer] = address
            for words, position, offset in self._uses.get(buffer, ()):
                words[position] = address + offset

    def _result(self, outputs: dict[int, Array], value: int) -> Array:
        view = self._plan.views.get(value)
        if view is None:
            return outputs[value]
        if view.buffer in self._carried:
            return self._carried[view.buffer]
        whole = outputs[view.buffer[1]]
        return np.ndarray(view.shape, whole.dtype, whole, view.offset, view.strides)

    def _fixed(self, buffer: Any) -> int | None:
        """Return the address of a buffer that does not move."""
        if buffer[0] == "const":
            return _address(self._constants[buffer[1]])
        moves = buffer in self._addresses[0] or buffer[0] == "feed"
        return None if moves else self._arena_at + self._plan.offsets[buffer]

    # ------------------------------------------------------------------ steps
    def _kernel(self, launch: KernelCall) -> Callable[[], None]:
        assert self._kernels is not None
        count = len(launch.buffers)
        words = (ctypes.c_int64 * max(count + len(launch.words), 1))(*[0] * count, *map(_signed, launch.words))
        self._words.append(words)  # kernels hold only its address
        for k, (buffer, offset) in enumerate(launch.buffers):
            fixed = self._fixed(buffer)
            if fixed is None:
                self._uses.setdefault(buffer, []).append((words, k, offset))
            else:
                words[k] = fixed + offset
        kernel, at = KERNEL(self._kernels.address(launch.kernel)), ctypes.addressof(words)
        units, scratch, checks = launch.units, self._scratch_at, launch.checks

        def run() -> None:
            status = kernel(at, 0, units, scratch)
            if status:
                raise kernel_error(self._name, checks, status)

        return run

    def _host(self, call: LibraryCall) -> Callable[[], None]:
        function = host_function(call, bodies_of(call, self._kernels, self._name, alone=True))
        windows = [
            (w, None if (fixed := self._fixed(w.buffer)) is None else window(fixed + w.offset, w, self))
            for w in (*call.inputs, *call.outputs)
        ]
        return lambda: function(*[self._window(w) if array is None else array for w, array in windows])

    def _window(self, operand: Window) -> Array:
        outputs = self._outputs[self._turn]
        array = self._arrays[operand.buffer] if operand.buffer[0] == "feed" else outputs[operand.buffer[1]]
        if operand.contiguous and operand.shape == array.shape:
            return array
        return window(self._at[operand.buffer] + operand.offset, operand, array)


def _launches(body: BodyPlan) -> list[KernelCall]:
    return [s for s in body.plan.steps if isinstance(s, KernelCall)]


def _aligned(nbytes: int) -> tuple[Array, int]:
    """Allocate memory; return it, and the address of `nbytes` bytes in it aligned to 64."""
    memory = np.empty(nbytes + 64, np.uint8)
    return memory, -(-memory.ctypes.data // 64) * 64


def _address(array: Array) -> int:
    return int(array.ctypes.data)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >= 1 << 63 else word


def bodies_of(
    call: LibraryCall, kernels: Kernels | None, name: str, *, alone: bool = False
) -> Callable[[], dict[str, Any]] | None:
    """Return a factory of a step's bodies, by attribute, for one run of it; None for a step without bodies.

    `alone`: no two runs of the step overlap, so one set of bodies serves them all.
    """
    if not call.bodies:
        return None

    def made() -> dict[str, Any]:
        return {held: CompiledBody(body, kernels, name) for held, body in call.bodies}

    if not alone:
        return made
    kept: dict[str, Any] = {}

    def again() -> dict[str, Any]:
        kept.update({} if kept else made())
        return {held: body.forget() for held, body in kept.items()}

    return again
