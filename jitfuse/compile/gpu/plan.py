"""A runtime plan on the GPU: the same plan as the CPU's, its launches as dispatches of one compute pass.

Owns the placing of buffers. Every value has a buffer of its own: one buffer cannot be read and written in one dispatch,
so there is no arena. Scalars of the call are kernel arguments. Written arguments get new buffers, which replace the old
ones at the end. RNG states are advanced by the host. Does not own tensors.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jitfuse.backends.wgsl.runtime.buffers import UNIFORM, Block, Pool, pool_of
from jitfuse.backends.wgsl.runtime.device import Device
from jitfuse.backends.wgsl.runtime.pipelines import BufferRange, workgroups
from jitfuse.base.records import NamedTuple
from jitfuse.compile.call_plans.literals import literal_arrays
from jitfuse.compile.gpu.kernels import FormSource, GpuKernel, gpu_kernel
from jitfuse.compile.gpu.records import RecordStep, record_step
from jitfuse.compile.gpu.run import Buffer, GpuRun, Resident
from jitfuse.compile.gpu.step import GpuStep
from jitfuse.compile.objects.origin import Origin
from jitfuse.compile.planning import literals_of
from jitfuse.dtypes import itemsize
from jitfuse.plans import HostCall, Launch, RuntimePlan
from jitfuse.plans.kernels import partial_bytes


class GpuResults(NamedTuple):
    """The results of a run: the buffers of the plan's outputs by value, and the new ones of written feeds."""

    outputs: dict[int, Block]
    written: dict[int, Block]


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
        self.steps: list[GpuStep | RecordStep | HostCall] = [
            GpuStep(s, scalars) if isinstance(s, Launch) else record_step(s, device, scalars) or s
            for s in (*plan.steps, *plan.commits) if not (isinstance(s, Launch) and self._reserves(s))
        ]
        self.host_calls = [s for s in self.steps if isinstance(s, HostCall)]
        self.launches = [s for s in self.steps if isinstance(s, GpuStep)]
        self.queries = [s for s in self.steps if isinstance(s, RecordStep)]
        touched = {b[1] for step in self.steps for b, _ in _buffers(step) if b[0] == "feed"}
        self.scalar_feeds = tuple(sorted(touched & scalars))
        self.array_feeds = tuple(sorted(touched - scalars))
        self._constants: dict[int, Block] = {}
        self.sizes = self._temporary_sizes()
        self._last = self._last_uses()
        self._uniform: Block | None = None
        self._bound: tuple[Any, list[BufferRange]] | None = None

    def _reserves(self, launch: Launch) -> bool:
        """Return whether a launch advances the RNG state: the host does that."""
        outs = [b for (b, _), o in zip(launch.buffers, launch.form.operands, strict=True) if o.out]
        return any(b[0] == "reserved" or (b[0] == "feed" and b[1] in self.random) for b in outs)

    def _temporary_sizes(self) -> dict[Buffer, int]:
        program = self.plan.program
        sizes: dict[Buffer, int] = {}
        for step in self.steps:
            if isinstance(step, GpuStep):
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
        """Return for each step the temporaries that no later step touches."""
        kept = {("value", v) for v in self.plan.outputs}
        last: dict[Buffer, int] = {}
        for k, step in enumerate(self.steps):
            for buffer, _ in _buffers(step):
                if buffer in self.sizes and buffer not in kept:
                    last[buffer] = k
        found: list[list[Buffer]] = [[] for _ in self.steps]
        for buffer, k in last.items():
            found[k].append(buffer)
        return found

    @property
    def kernels(self) -> list[GpuKernel]:
        """Every kernel that the plan has used so far."""
        made = [*(k for step in self.launches for k in step.kernels.values()),
                *(k for query in self.queries for k in query.kernels)]
        return list(dict.fromkeys(made))

    @property
    def dispatches(self) -> int:
        """How many kernels a run launches."""
        return len(self.launches) + sum(len(query.dispatches) for query in self.queries)

    def prepare(self, scalars: Mapping[int, int]) -> None:
        """Make the kernels for these scalars; raises CompileError if one is unsupported."""
        for step in self.launches:
            self.kernel(step, scalars)
        for query in self.queries:
            query.prepare(self.pool, self._origin, use_cache=self._use_cache)

    def kernel(self, step: GpuStep, scalars: Mapping[int, int]) -> GpuKernel:
        """Return the kernel of a launch for these scalars, made once."""
        variant = step.variant(scalars)
        found = step.kernels.get(variant)
        if found is None:
            found = step.kernels[variant] = gpu_kernel(
                FormSource(step.launch.form, variant), self.device, self._origin, use_cache=self._use_cache
            )
            workgroups(variant, step.launch.sizes, len(step.launch.form.grid))
        return found

    # ------------------------------------------------------------------ running
    def run(
        self, arrays: Mapping[int, Resident], scalars: Mapping[int, int], states: Mapping[int, bytes]
    ) -> GpuResults:
        """Run the plan on resident arrays, with scalars as kernel arguments, and the RNG states of the call.

        Waits for nothing. Raises CompileError and DeviceError before anything is written.
        """
        self.prepare(scalars)
        with self.device.lock:
            run = GpuRun(self, arrays, scalars, states)
            for step, done in zip(self.steps, self._last, strict=True):
                run.step(step)
                for buffer in done:
                    run.blocks.pop(buffer, None)
            run.submit()
        return GpuResults({v: run.blocks["value", v] for v in self.plan.outputs}, run.written)

    def constants(self) -> dict[int, Block]:
        """Return the literal arrays of the program, uploaded once."""
        if not self._constants:
            arrays = literal_arrays(literals_of(self.plan.program))
            self._constants = {v: self.pool.upload(data) for v, data in arrays.items()}
        return self._constants

    def bind_arguments(self, scalars: Mapping[int, int], offsets: Mapping[int, int]) -> list[BufferRange]:
        """Write changed kernel arguments to the uniform buffer; return each launch's window."""
        key = (tuple(scalars.items()), tuple(offsets.items()))
        if self._bound is not None and self._bound[0] == key:
            return self._bound[1]
        data = bytearray()
        ranges: list[tuple[int, int]] = []
        for step in self.launches:
            data.extend(bytes(-len(data) % self.device.alignment))
            packed = step.packed(scalars, offsets)
            ranges.append((len(data), len(packed)))
            data += packed
        windows: list[BufferRange] = []
        if data:
            if self._uniform is None:
                self._uniform = self.pool.get(len(data), UNIFORM)
            self.pool.write(self._uniform, bytes(data))
            windows = [BufferRange(self._uniform, at, size) for at, size in ranges]
        self._bound = key, windows
        return windows


def _buffers(step: GpuStep | RecordStep | HostCall) -> Sequence[tuple[Any, int]]:
    if isinstance(step, GpuStep):
        return step.launch.buffers
    call = step.call if isinstance(step, RecordStep) else step
    return [(o.buffer, o.offset) for o in (*call.inputs, *call.outputs)]
