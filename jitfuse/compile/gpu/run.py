"""One run of a plan on the GPU: the blocks of a call, the commands being recorded, library calls between them.

Does not own what is the same for all calls (`jitfuse.compile.gpu.plan`).
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from jitfuse.backends.wgsl.runtime.buffers import Block, Pool
from jitfuse.backends.wgsl.runtime.device import Device
from jitfuse.backends.wgsl.runtime.pipelines import BufferRange, workgroups
from jitfuse.base.records import NamedTuple
from jitfuse.compile.bind.host_functions import host_function
from jitfuse.compile.gpu.kernels import GpuKernel
from jitfuse.compile.gpu.records import RecordStep
from jitfuse.compile.gpu.step import GpuStep
from jitfuse.dtypes import numpy_dtype
from jitfuse.plans import HostCall, HostOperand, RuntimePlan

Buffer = tuple[str, int]


class Resident(NamedTuple):
    """An array on the GPU: the location of its first element."""

    block: Block
    offset: int


class Running(Protocol):
    """What a run needs of its plan."""

    plan: RuntimePlan
    device: Device
    pool: Pool
    sizes: dict[Buffer, int]

    def constants(self) -> dict[int, Block]:
        """Return the literal arrays of the program."""

    def bind_arguments(self, scalars: Mapping[int, int], offsets: Mapping[int, int]) -> list[BufferRange]:
        """Return the location of each launch's kernel arguments."""

    def kernel(self, step: GpuStep, scalars: Mapping[int, int]) -> GpuKernel:
        """Return the kernel of a launch."""


class GpuRun:
    """One run: the blocks of this call, and the commands being recorded."""

    def __init__(
        self, plan: Running, arrays: Mapping[int, Resident], scalars: Mapping[int, int], states: Mapping[int, bytes]
    ) -> None:
        self.plan, self.arrays, self.scalars = plan, arrays, scalars
        self.blocks: dict[Buffer, Block] = {("const", v): b for v, b in plan.constants().items()}
        for feed, data in states.items():
            block = plan.pool.get(len(data))
            plan.pool.write(block, data)
            self.blocks["reserved", feed] = block
        self.written: dict[int, Block] = {}
        offsets = {feed: r.offset for feed, r in arrays.items()}
        self._windows = iter(plan.bind_arguments(scalars, offsets))
        self._encoder: Any = None
        self._pass: Any = None
        copies: dict[int, Block] = {}
        for feed in sorted(_written_feeds(plan.plan)):
            block = arrays[feed].block
            if id(block) not in copies:
                copies[id(block)] = self._copied(block)
            self.written[feed] = copies[id(block)]  # one copy for all views of a buffer, so that all see all writes
        for value in plan.plan.outputs:
            self.block(("value", value), out=True)

    def block(self, buffer: Buffer, *, out: bool) -> Block:
        """Return the block of a buffer; a temporary gets one at its first use."""
        kind, number = buffer
        if kind == "feed":
            return self.written[number] if out else self.arrays[number].block
        found = self.blocks.get(buffer)
        if found is None:
            found = self.blocks[buffer] = self.plan.pool.get(self.plan.sizes[buffer])
        return found

    def _copied(self, block: Block) -> Block:
        new = self.plan.pool.get(block.size)
        self._outside().copy_buffer_to_buffer(block.handle, 0, new.handle, 0, min(block.size, new.size))
        return new

    def step(self, step: GpuStep | RecordStep | HostCall) -> None:
        """Encode a launch or a query, or run a library call on the host."""
        if isinstance(step, HostCall):
            self._host(step)
        elif isinstance(step, RecordStep):
            self._query(step)
        else:
            self._dispatch(step)

    def _dispatch(self, step: GpuStep) -> None:
        form, launch = step.launch.form, step.launch
        kernel, variant = self.plan.kernel(step, self.scalars), step.variant(self.scalars)
        bound: dict[int, Block] = {}
        for o, (b, (buffer, _)) in enumerate(zip(variant.bindings, launch.buffers, strict=True)):
            if b >= 0 and b not in bound:
                bound[b] = self.block(buffer, out=form.operands[o].out)
        buffers = [bound[b] for b in range(len(bound))]
        buffers += [self.plan.pool.get(n) for n in step.scratch]
        count = workgroups(variant, launch.sizes, len(form.grid))
        kernel.pipeline.encode(self._inside(), next(self._windows), buffers, count)

    def _query(self, step: RecordStep) -> None:
        """Encode a table of records: the operands' way into its memory, its dispatches, the result's way out."""
        memory = self.plan.pool.get(step.bytes)
        outside = self._outside()
        outside.copy_buffer_to_buffer(step.table.handle, 0, memory.handle, 0, step.one_bytes)
        for operand, start, to, size in step.copies:
            kind, number = operand.buffer
            at = start + (self.arrays[number].offset if kind == "feed" else 0)
            block = self.block(operand.buffer, out=False)
            outside.copy_buffer_to_buffer(block.handle, at, memory.handle, to, size)
        for kernel, words, count in step.launches():
            kernel.pipeline.encode(self._inside(), words, [step.table, memory], count)
        start, size = step.result
        result = self.block(step.call.outputs[0].buffer, out=True)
        self._outside().copy_buffer_to_buffer(memory.handle, start, result.handle, 0, size)

    # ------------------------------------------------------------------ commands
    def _outside(self) -> Any:
        """Return the encoder, outside of a compute pass."""
        if self._pass is not None:
            self._pass.end()
            self._pass = None
        if self._encoder is None:
            self._encoder = self.plan.device.handle.create_command_encoder()
        return self._encoder

    def _inside(self) -> Any:
        """Return the current compute pass."""
        if self._pass is None:
            self._pass = self._outside().begin_compute_pass()
        return self._pass

    def submit(self) -> None:
        """Hand the commands to the queue."""
        if self._encoder is not None:
            encoder = self._outside()
            self.plan.device.queue.submit([encoder.finish()])
            self._encoder = None

    # ------------------------------------------------------------------ library calls
    def _host(self, call: HostCall) -> None:
        """Run a library call in NumPy, a loop or branch in the interpreter: gather operands, upload results."""
        self.submit()
        operands = [self._gathered(o) for o in call.inputs]
        results: list[Any] = [np.empty(o.layout.shape, numpy_dtype(o.dtype)) for o in call.outputs]
        host_function(call)(*operands, *results)
        for output, result in zip(call.outputs, results, strict=True):
            self.blocks[output.buffer] = self.plan.pool.upload(result)

    def _gathered(self, operand: HostOperand) -> np.ndarray[Any, Any]:
        kind, number = operand.buffer
        if kind == "feed" and number in self.scalars:
            word = self.scalars[number] & (2**64 - 1)
            layout = operand.layout
            return np.ndarray(layout.shape, numpy_dtype(operand.dtype), word.to_bytes(8, "little"), 0, layout.strides)
        block = self.block(operand.buffer, out=False)
        start = operand.offset + (self.arrays[number].offset if kind == "feed" else 0)
        data = self.plan.pool.download(block, block.size)
        return np.ndarray(operand.layout.shape, numpy_dtype(operand.dtype), data, start, operand.layout.strides)


def _written_feeds(plan: RuntimePlan) -> set[int]:
    return {
        b[1] for launch in plan.commits
        for (b, _), o in zip(launch.buffers, launch.form.operands, strict=True) if o.out and b[0] == "feed"
    }
