"""A runtime plan on the GPU: the same plan as the CPU's, its launches as dispatches of one compute pass.

Owns the placing of buffers: every value has a buffer of its own (one buffer cannot be read and written in one
dispatch, so there is no arena), scalars of the call stand in the words, arguments that are written get new buffers,
which take the place of the old ones at the end. Random states are moved on by the host. Does not own tensors.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from jitfuse.backends.wgsl.codegen import words
from jitfuse.backends.wgsl.codegen.host_values import HostValues
from jitfuse.backends.wgsl.codegen.variant import Variant, choose, scratch_bytes
from jitfuse.backends.wgsl.runtime.buffers import UNIFORM, Block, Pool, pool_of
from jitfuse.backends.wgsl.runtime.device import Device
from jitfuse.backends.wgsl.runtime.pipelines import Window, workgroups
from jitfuse.compile.gpu_kernels import GpuKernel, gpu_kernel
from jitfuse.compile.host_functions import host_function
from jitfuse.compile.objects import Origin
from jitfuse.compile.plan_literals import literal_arrays
from jitfuse.compile.planning import literals_of
from jitfuse.dtypes import itemsize, numpy_dtype
from jitfuse.plans import HostCall, HostOperand, Launch, RuntimePlan
from jitfuse.plans.kernels import partial_bytes

Buffer = tuple[str, int]

_MANY_SCALARS: Final = 256


class Resident(NamedTuple):
    """An array on the GPU: where its first element is."""

    block: Block
    offset: int


class Results(NamedTuple):
    """What a run made: the buffers of the plan's outputs by value, and the new ones of written feeds."""

    outputs: dict[int, Block]
    written: dict[int, Block]


class _Step:
    """One launch: its kernels by variant, and where its words lie in the plan's uniform buffer."""

    def __init__(self, launch: Launch, scalars: frozenset[int]) -> None:
        self.launch = launch
        form = launch.form
        self.kernels: dict[Variant, GpuKernel] = {}
        self.scratch = scratch_bytes(form, launch.sizes)
        self.scalar_of = {
            o: buffer[1] for o, (buffer, _) in enumerate(launch.buffers) if buffer[0] == "feed" and buffer[1] in scalars
        }
        at = len(form.stride_words) + len(form.size_words)
        self.params = launch.words[at : at + len(form.params)]
        self._wide = [o for o in self.scalar_of if form.operands[o].dtype == "int64"]
        self._variants: dict[tuple[int, ...], Variant] = {}
        self._host: HostValues | None = None

    def variant(self, scalars: Mapping[int, int]) -> Variant:
        """Return the variant for the scalars of a call, of which only the sizes of integers count."""
        key = tuple(scalars[self.scalar_of[o]] for o in self._wide)
        found = self._variants.get(key)
        if found is None:
            if len(self._variants) >= _MANY_SCALARS:
                self._variants.clear()
            buffers = [buffer for buffer, _ in self.launch.buffers]
            found = choose(self.launch.form, self.launch.sizes, self.params, buffers, self._known(scalars))
            self._variants[key] = found
        return found

    def _known(self, scalars: Mapping[int, int]) -> dict[int, int]:
        return {o: scalars[feed] for o, feed in self.scalar_of.items()}

    def _host_words(self, scalars: Mapping[int, int]) -> list[int]:
        if self._host is None:
            self._host = HostValues(self.launch.form, self.variant(scalars).inline)
        return self._host.evaluate(self.params, self._known(scalars))

    def packed(self, scalars: Mapping[int, int], offsets: Mapping[int, int]) -> bytes:
        """Return the launch's words: offsets into buffers, or the values of scalars, first."""
        first = [
            scalars[self.scalar_of[o]] if o in self.scalar_of
            else offset + (offsets.get(buffer[1], 0) if buffer[0] == "feed" else 0)
            for o, (buffer, offset) in enumerate(self.launch.buffers)
        ]
        further = self._host_words(scalars)
        return words.pack(self.launch.form, self.launch.sizes, [*first, *self.launch.words, *further])


class GpuPlan:
    """The plan of one mode on one device. `scalars` are the feeds that come as numbers."""

    def __init__(
        self, plan: RuntimePlan, device: Device, scalars: frozenset[int], origin: Origin, *, use_cache: bool
    ) -> None:
        self.plan = plan
        self.device = device
        self.pool: Pool = pool_of(device)
        self._origin, self._use_cache = origin, use_cache
        self.random = [f for f in plan.program.state_out if plan.program.is_random_state(f)]
        self.steps = [
            _Step(s, scalars) if isinstance(s, Launch) else s for s in (*plan.steps, *plan.commits)
            if not (isinstance(s, Launch) and self._reserves(s))
        ]
        self.host_calls = [s for s in self.steps if isinstance(s, HostCall)]
        self.launches = [s for s in self.steps if isinstance(s, _Step)]
        touched = {b[1] for step in self.steps for b, _ in _buffers(step) if b[0] == "feed"}
        self.scalar_feeds = tuple(sorted(touched & scalars))
        self.array_feeds = tuple(sorted(touched - scalars))
        self._constants: dict[int, Block] = {}
        self._sizes = self._temporary_sizes()
        self._last = self._last_uses()
        self._uniform: Block | None = None
        self._bound: tuple[Any, list[Window]] | None = None

    def _reserves(self, launch: Launch) -> bool:
        """Return whether a launch takes the call's random numbers: the host does that."""
        outs = [b for (b, _), o in zip(launch.buffers, launch.form.operands, strict=True) if o.out]
        return any(b[0] == "reserved" or (b[0] == "feed" and b[1] in self.random) for b in outs)

    def _temporary_sizes(self) -> dict[Buffer, int]:
        program = self.plan.program
        sizes: dict[Buffer, int] = {}
        for step in self.steps:
            if isinstance(step, _Step):
                sizes.update(partial_bytes(step.launch))
            for buffer, _ in _buffers(step):
                if buffer[0] == "value":
                    meta = program.meta[buffer[1]]
                    sizes[buffer] = meta.size * itemsize(meta.dtype)
        for value in self.plan.outputs:
            meta = program.meta[value]
            sizes["value", value] = meta.size * itemsize(meta.dtype)
        return sizes

    def _last_uses(self) -> list[list[Buffer]]:
        """Return for each step the temporaries that nobody touches after it."""
        kept = {("value", v) for v in self.plan.outputs}
        last: dict[Buffer, int] = {}
        for k, step in enumerate(self.steps):
            for buffer, _ in _buffers(step):
                if buffer in self._sizes and buffer not in kept:
                    last[buffer] = k
        found: list[list[Buffer]] = [[] for _ in self.steps]
        for buffer, k in last.items():
            found[k].append(buffer)
        return found

    @property
    def kernels(self) -> list[GpuKernel]:
        """Every kernel that the plan has had so far."""
        return [k for step in self.launches for k in step.kernels.values()]

    def prepare(self, scalars: Mapping[int, int]) -> None:
        """Have the kernels for these scalars; raises CompileError where one cannot be had."""
        for step in self.launches:
            self._kernel(step, scalars)

    def _kernel(self, step: _Step, scalars: Mapping[int, int]) -> GpuKernel:
        variant = step.variant(scalars)
        found = step.kernels.get(variant)
        if found is None:
            found = step.kernels[variant] = gpu_kernel(
                step.launch.form, variant, self.device, self._origin, use_cache=self._use_cache
            )
            workgroups(variant, step.launch.sizes, len(step.launch.form.grid))
        return found

    # ------------------------------------------------------------------ running
    def run(
        self, arrays: Mapping[int, Resident], scalars: Mapping[int, int], states: Mapping[int, bytes]
    ) -> Results:
        """Run the plan on resident arrays, the words of scalars, and the random states that the call has taken.

        Nothing is waited for. Raises CompileError and DeviceError before anything is written.
        """
        self.prepare(scalars)
        with self.device.lock:
            run = _Run(self, arrays, scalars, states)
            for step, done in zip(self.steps, self._last, strict=True):
                run.step(step)
                for buffer in done:
                    run.blocks.pop(buffer, None)
            run.submit()
        return Results({v: run.blocks["value", v] for v in self.plan.outputs}, run.written)

    def constants(self) -> dict[int, Block]:
        """Return the literal arrays of the program, uploaded once."""
        if not self._constants:
            arrays = literal_arrays(literals_of(self.plan.program))
            self._constants = {v: self.pool.upload(data) for v, data in arrays.items()}
        return self._constants

    def bind_words(self, scalars: Mapping[int, int], offsets: Mapping[int, int]) -> list[Window]:
        """Put the words of all launches into the uniform buffer, where they are new; return each launch's window."""
        key = (tuple(scalars.items()), tuple(offsets.items()))
        if self._bound is not None and self._bound[0] == key:
            return self._bound[1]
        data = bytearray()
        places: list[tuple[int, int]] = []
        for step in self.launches:
            data.extend(bytes(-len(data) % self.device.alignment))
            packed = step.packed(scalars, offsets)
            places.append((len(data), len(packed)))
            data += packed
        windows: list[Window] = []
        if data:
            if self._uniform is None:
                self._uniform = self.pool.get(len(data), UNIFORM)
            self.pool.write(self._uniform, bytes(data))
            windows = [Window(self._uniform, at, size) for at, size in places]
        self._bound = key, windows
        return windows


class _Run:
    """One run: the blocks of this call, and the commands under way."""

    def __init__(
        self, plan: GpuPlan, arrays: Mapping[int, Resident], scalars: Mapping[int, int], states: Mapping[int, bytes]
    ) -> None:
        self.plan, self.arrays, self.scalars = plan, arrays, scalars
        self.blocks: dict[Buffer, Block] = {("const", v): b for v, b in plan.constants().items()}
        for feed, data in states.items():
            block = plan.pool.get(len(data))
            plan.pool.write(block, data)
            self.blocks["reserved", feed] = block
        self.written: dict[int, Block] = {}
        offsets = {feed: r.offset for feed, r in arrays.items()}
        self._windows = iter(plan.bind_words(scalars, offsets))
        self._encoder: Any = None
        self._pass: Any = None
        copies: dict[int, Block] = {}
        for feed in sorted(_written_feeds(plan.plan)):
            block = arrays[feed].block
            if id(block) not in copies:
                copies[id(block)] = self._copied(block)
            self.written[feed] = copies[id(block)]  # one for all views of a buffer, which are all to see all writes
        for value in plan.plan.outputs:
            self.block(("value", value), out=True)

    def block(self, buffer: Buffer, *, out: bool) -> Block:
        """Return the block of a buffer; a temporary gets one when it is first met."""
        kind, number = buffer
        if kind == "feed":
            return self.written[number] if out else self.arrays[number].block
        found = self.blocks.get(buffer)
        if found is None:
            found = self.blocks[buffer] = self.plan.pool.get(self.plan._sizes[buffer])
        return found

    def _copied(self, block: Block) -> Block:
        new = self.plan.pool.get(block.size)
        self._outside().copy_buffer_to_buffer(block.handle, 0, new.handle, 0, min(block.size, new.size))
        return new

    def step(self, step: _Step | HostCall) -> None:
        """Encode a launch, or carry out a library call on the host."""
        if isinstance(step, HostCall):
            self._host(step)
        else:
            self._dispatch(step)

    def _dispatch(self, step: _Step) -> None:
        form, launch = step.launch.form, step.launch
        kernel = self.plan._kernel(step, self.scalars)
        bound: dict[int, Block] = {}
        for o, (b, (buffer, _)) in enumerate(zip(kernel.variant.bindings, launch.buffers, strict=True)):
            if b >= 0 and b not in bound:
                bound[b] = self.block(buffer, out=form.operands[o].out)
        buffers = [bound[b] for b in range(len(bound))]
        buffers += [self.plan.pool.get(n) for n in step.scratch]
        groups = workgroups(kernel.variant, launch.sizes, len(form.grid))
        kernel.pipeline.encode(self._inside(), next(self._windows), buffers, groups)

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
        """Return the compute pass under way."""
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
        """Carry out a library call in NumPy, a loop or a branch by the interpreter: gather operands, upload results."""
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


def _buffers(step: _Step | HostCall) -> Sequence[tuple[Any, int]]:
    if isinstance(step, _Step):
        return step.launch.buffers
    return [(o.buffer, o.offset) for o in (*step.inputs, *step.outputs)]


def _written_feeds(plan: RuntimePlan) -> set[int]:
    return {
        b[1] for launch in plan.commits
        for (b, _), o in zip(launch.buffers, launch.form.operands, strict=True) if o.out and b[0] == "feed"
    }
