"""A query of a factor graph on the GPU: a table of records over one buffer, run by the shaders of its semiring.

The operands are copied behind each other into that buffer, and the result out of it: a shader cannot bind a buffer to
read and to write, and a table may have any number of operands. What is no block of memory is gathered by a record more.
Does not own when the step runs (`jitfuse.compile.gpu.run`).
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from jitfuse.backends.wgsl.codegen.record_table import Dispatch, pack, unshared
from jitfuse.backends.wgsl.codegen.records import GROUP
from jitfuse.backends.wgsl.runtime.buffers import UNIFORM, Block, Pool
from jitfuse.backends.wgsl.runtime.device import Device
from jitfuse.backends.wgsl.runtime.pipelines import MAX_GROUPS, BufferRange
from jitfuse.base.records import NamedTuple
from jitfuse.compile.gpu.kernels import GpuKernel, RecordSource, gpu_kernel
from jitfuse.compile.objects.origin import Origin
from jitfuse.dtypes import itemsize, numpy_dtype
from jitfuse.ir.semirings import words as w
from jitfuse.ir.semirings.loops import Axis, Operand
from jitfuse.ir.semirings.tables import Sum, sums
from jitfuse.plans import HostCall, HostOperand

MOST_ELEMENTS: Final = 1 << 31
"""Elements that 32 bits count, with room for the step of a loop."""


class Copy(NamedTuple):
    """Bytes that are copied from an operand's buffer, behind the first element of a feed, to a place of the memory."""

    operand: HostOperand
    start: int
    to: int
    size: int


class RecordStep:
    """A `semiring_sums` step: its table, and where each operand and the result lie in the memory."""

    def __init__(self, call: HostCall) -> None:
        self.call = call
        self._kernels: dict[bool, GpuKernel] = {}
        attrs: dict[str, Any] = dict(call.attrs)
        dtype = call.inputs[0].dtype
        self._carrier, self._dtype, self._size = attrs["carrier"], dtype, itemsize(dtype)
        operands = tuple([prod(o.layout.shape) for o in call.inputs])
        # a table that is not proved to stay in bounds does not run
        checked = sums(attrs["records"], operands, attrs["workspace"], attrs["size"])
        table, workspace = unshared(checked, attrs["workspace"])
        self._bases = {w.ONE: 0}
        self.elements = 1
        self.copies: list[Copy] = []
        gathers = [g for k, o in enumerate(call.inputs) for g in self._placed(k, o)]
        self._place(w.WORKSPACE, workspace)
        self.result: tuple[int, int] = (self._place(w.RESULT, attrs["size"]) * self._size, attrs["size"] * self._size)
        one = np.array([0.0 if attrs["carrier"] == "log" else 1.0], numpy_dtype(dtype))
        self._words: np.ndarray[Any, Any]
        self.dispatches: list[Dispatch]
        self._words, self.dispatches = pack([*gathers, *table], self._bases, one)
        self._bound: tuple[Block, list[BufferRange]] | None = None

    def _place(self, memory: int, count: int) -> int:
        """Give a memory so many elements of the buffer; return the first."""
        first = self._bases[memory] = self.elements
        self.elements += count
        return first

    def _placed(self, number: int, operand: HostOperand) -> Sequence[Sum]:
        """Place an operand, and what its strides span if it is no block; return the record that gathers it."""
        layout, memory = operand.layout, w.STACKS + number
        count = prod(layout.shape)
        if layout.contiguous or not count:
            to = self._place(memory, count)
            self.copies.append(Copy(operand, operand.offset, to * self._size, count * self._size))
            return ()
        extents = [stride * (extent - 1) for stride, extent in zip(layout.strides, layout.shape, strict=True)]
        before, behind = (sum(f(0, x) for x in extents) for f in (min, max))
        spanned = w.STACKS + len(self.call.inputs) + number
        to = self._place(spanned, (behind - before) // self._size + 1)
        self.copies.append(Copy(operand, operand.offset + before, to * self._size, behind - before + self._size))
        self._place(memory, count)
        axes, step = [Axis(1, 0, 0, 0)], 1
        for extent, stride in zip(reversed(layout.shape), reversed(layout.strides), strict=True):
            axes.append(Axis(extent, step, stride // self._size, 0))
            step *= extent
        out, a, b = Operand(memory, 0, ()), Operand(spanned, -before // self._size, ()), Operand(w.ONE, 0, ())
        return [Sum(out, a, b, tuple(axes), np.zeros((1, 2), np.int64), False)]

    @property
    def kernels(self) -> list[GpuKernel]:
        """The kernels, once they are made."""
        return list(self._kernels.values())

    @property
    def bytes(self) -> int:
        """Bytes of the memory."""
        return self.elements * self._size

    @property
    def one_bytes(self) -> int:
        """Bytes of the semiring's one, which begins the table, and the memory."""
        return self._size

    def runs_on(self, device: Device) -> bool:
        """Return whether the device has buffers as large, and 32 bits count their elements."""
        largest = max(self.bytes, self._words.nbytes, len(self.dispatches) * device.alignment)
        return self.elements < MOST_ELEMENTS and largest <= device.binding_bytes

    def prepare(self, pool: Pool, origin: Origin, *, use_cache: bool) -> None:
        """Make the kernels, and write the table and all kernel arguments, once.

        Not while commands are recorded: what is written reaches the GPU before them. Raises CompileError if the adapter
        does not support a kernel.
        """
        for small in {each.small for each in self.dispatches} - self._kernels.keys():
            source = RecordSource(self._carrier, self._dtype, small)
            self._kernels[small] = gpu_kernel(source, pool.device, origin, use_cache=use_cache)
        if self._bound is None:
            alignment = pool.device.alignment
            arguments = np.zeros((max(len(self.dispatches), 1), alignment // 4), np.uint32)
            for row, dispatch in zip(arguments, self.dispatches):
                row[2:4] = dispatch.first, dispatch.last
            table, uniform = pool.get(self._words.nbytes), pool.get(arguments.nbytes, UNIFORM)
            pool.write(table, self._words.tobytes())
            pool.write(uniform, arguments.tobytes())
            self._bound = table, [BufferRange(uniform, k * alignment, 16) for k in range(len(self.dispatches))]

    @property
    def table(self) -> Block:
        """The table on the GPU, once it is written."""
        assert self._bound is not None
        return self._bound[0]

    def launches(self) -> Iterator[tuple[GpuKernel, BufferRange, int]]:
        """Yield the kernel of each dispatch, its arguments, and its number of workgroups."""
        assert self._bound is not None
        for dispatch, words in zip(self.dispatches, self._bound[1], strict=True):
            count = 1 if dispatch.small else min(-(-dispatch.elements // GROUP), MAX_GROUPS)
            yield self._kernels[dispatch.small], words, count


def record_step(call: HostCall, device: Device, scalars: frozenset[int]) -> RecordStep | None:
    """Return a query as a step on the GPU; None for other steps, and for what does not fit there."""
    if call.name != "semiring_sums" or any(o.buffer[0] == "feed" and o.buffer[1] in scalars for o in call.inputs):
        return None
    step = RecordStep(call)
    return step if step.runs_on(device) else None
