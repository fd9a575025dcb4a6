"""Calls of fused functions on the GPU: bind feeds, run the plan, return tensors.

`jitfuse` hands this module to the pipeline of calls (`jitfuse.function.pipeline`). Owns the test whether a call reads
GPU tensors, uploads of host arrays, writes to arguments, and the fallback to the interpreter where no plan can be
compiled. Does not own tracing or plans.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from jitfuse import reasons
from jitfuse.backends.interpreter.runner import ProgramRunner
from jitfuse.backends.wgsl.runtime.buffers import Block, pool_of
from jitfuse.backends.wgsl.runtime.device import default_device
from jitfuse.compile.debugging import verified
from jitfuse.compile.gpu.plan import GpuPlan
from jitfuse.compile.gpu.run import Resident
from jitfuse.compile.interface import Specialisation, debugging
from jitfuse.compile.native_entries import Returned
from jitfuse.compile.run.delivery import Delivery, bind_feeds
from jitfuse.dtypes import itemsize, numpy_dtype
from jitfuse.errors import CompileError
from jitfuse.function.call import Call
from jitfuse.function.counters import Counters
from jitfuse.gpu.tensor import GpuStorage, GpuTensor
from jitfuse.passes.pipeline import run_passes
from jitfuse.plans import ProgramPlan
from jitfuse.plans.launch import bits
from jitfuse.plans.layout import Layout, contiguous, strided
from jitfuse.plans.policy import LoweringPolicy
from jitfuse.random_state import state_feeds
from jitfuse.reasons import Why
from jitfuse.tracing.results.returned import AccessPathLeaf, ConstantLeaf, OutputLeaf, SameLeaf, ViewLeaf, window

POLICY: Final = LoweringPolicy(chain=False, keep=False)
"""The lowering policy for a GPU, where computing again costs less than rows of scratch memory. Scores are the CPU's."""


def reads_tensors(call: Call, spec: Specialisation) -> bool:
    """Return whether a call of a signature reads a GPU tensor."""
    return any(
        isinstance(source.source.resolve(call.args, call.kwargs), GpuTensor)
        for source in spec.trace.feeds.values() if source.kind == "array"
    )


class GpuCall:
    """One call of a signature on the GPU."""

    def __init__(self, call: Call, spec: Specialisation) -> None:
        """Raises DeviceError if there is no GPU."""
        definition = call.table.definition
        self.spec, self.trace, self.training = spec, spec.trace, call.training
        self.device = default_device()
        self.pool = pool_of(self.device)
        self._origin, self._use_cache = definition.origin.replace(program=spec.trace.program), definition.options.cache
        self._args, self._kwargs = call.args, call.kwargs
        self.bound = bind_feeds(self.trace, call.args, call.kwargs, state_feeds())
        self.launches = 0
        """The number of kernels that the call has launched."""
        self._on_host = frozenset(f for f, v in self.bound.items() if isinstance(v, np.ndarray))

    # ------------------------------------------------------------------ the plan
    def plan(self) -> GpuPlan:
        """Return the cached or new plan of this mode; raises CompileError if there can be none."""
        key = (self.training, self._on_host)
        found = self.spec.gpu_plans.get(key)
        if found is None:
            program = run_passes(self.trace.program, self.training, verified if debugging() else None)
            scalars = frozenset(f for f, s in self.trace.feeds.items() if s.kind in ("python", "numpy"))
            lowered = ProgramPlan(program, self._layouts(), in_place=False, batches=False).lower(POLICY).specialise(())
            found = GpuPlan(lowered, self.device, scalars, self._origin, use_cache=self._use_cache)
            self.spec.gpu_plans[key] = found
        assert isinstance(found, GpuPlan)
        return found

    def _layouts(self) -> dict[int, Layout]:
        """Return the layouts of array feeds: those of tensors in memory, contiguous ones for uploaded host arrays."""
        layouts = {}
        for feed, source in self.trace.feeds.items():
            if source.kind == "array":
                size = itemsize(source.meta.dtype)
                shape = source.meta.shape
                host = feed in self._on_host
                layouts[feed] = contiguous(shape, size) if host else strided(shape, source.strides, size)
        return layouts

    def prepare(self) -> GpuPlan:
        """Return the plan, with its kernels compiled."""
        plan = self.plan()
        plan.prepare(self._scalars(plan))
        return plan

    # ------------------------------------------------------------------ running
    def run(self) -> Any:
        """Run the plan and return the call's result; raises CompileError before anything is written."""
        plan = self.prepare()
        arrays = {f: self._resident(f) for f in plan.array_feeds}
        results = plan.run(arrays, self._scalars(plan), self._take_random(plan))
        self.launches = plan.dispatches
        for feed, block in results.written.items():
            self._write(feed, block)
        views = plan.plan.views
        outputs: dict[str, Any] = {}
        made: dict[int, GpuStorage] = {}
        for path, value in plan.plan.program.outputs.items():
            view = views.get(value)
            base = value if view is None else view.base
            meta = plan.plan.program.meta[base]
            storage = made.get(base)
            if storage is None:
                storage = made[base] = GpuStorage(self.device, results.outputs[base], meta.size * itemsize(meta.dtype))
            outputs[path] = self._tensor(storage, plan.plan.program.meta[value], view)
        return self._result(outputs)

    @staticmethod
    def _tensor(storage: GpuStorage, meta: Any, view: Any) -> GpuTensor:
        strides = None if view is None else view.layout.strides
        offset = 0 if view is None else view.offset
        like: np.ndarray[Any, Any] = np.ndarray(meta.shape, numpy_dtype(meta.dtype), storage.host, offset, strides)
        return GpuTensor(like, storage=storage)

    def _resident(self, feed: int) -> Resident:
        value = self.bound[feed]
        if isinstance(value, GpuTensor):
            return Resident(value.storage_.block, value.offset)
        return Resident(self.pool.upload(value), 0)

    def _scalars(self, plan: GpuPlan) -> dict[int, int]:
        feeds = self.trace.feeds
        return {f: bits(feeds[f].meta.dtype, self.bound[f]) for f in plan.scalar_feeds}

    def _take_random(self, plan: GpuPlan) -> dict[int, bytes]:
        """Take the call's random numbers: copy the RNG state, and move it on."""
        taken = {}
        for feed in plan.random:
            taken[feed] = self.bound[feed].tobytes()
            self.bound[feed][1] += 1
        return taken

    def _write(self, feed: int, block: Block) -> None:
        """Store a written argument's new value: a new buffer for a tensor, elements for an array."""
        value = self.bound[feed]
        if isinstance(value, GpuTensor):
            value.storage_.block = block
            return
        data = self.pool.download(block, value.nbytes)
        np.copyto(value, np.ndarray(value.shape, value.dtype, data))

    # ------------------------------------------------------------------ results
    def _result(self, outputs: Mapping[str, Any]) -> Any:
        tree = self.trace.result
        made = Delivery(tree, [self._leaf(leaf, outputs) for leaf in tree.leaves])
        return made.to(self._args, self._kwargs)

    def _leaf(self, leaf: Any, outputs: Mapping[str, Any]) -> Any:
        if isinstance(leaf, AccessPathLeaf):
            return leaf
        if isinstance(leaf, ConstantLeaf):
            return leaf.value
        if isinstance(leaf, SameLeaf):
            return self.bound[leaf.feed]
        if isinstance(leaf, ViewLeaf):
            return self._view(leaf)
        assert isinstance(leaf, OutputLeaf)
        return outputs[leaf.path].item() if leaf.kind == "python" else outputs[leaf.path]

    def _view(self, leaf: ViewLeaf) -> Any:
        """Return a view of an argument: a tensor for a tensor, an array for an array."""
        value = self.bound[leaf.feed]
        if not isinstance(value, GpuTensor):
            return window(value, leaf)
        storage, dtype = value.storage_, value.placeholder.dtype
        at = value.offset + leaf.offset
        like: np.ndarray[Any, Any] = np.ndarray(leaf.shape, dtype, storage.host, at, leaf.strides)
        return GpuTensor(like, storage=storage)

    # ------------------------------------------------------------------ in the interpreter
    def interpret(self) -> Any:
        """Run the program step by step in NumPy, and upload its results."""
        feeds = {f: self._gathered(f) for f in self.trace.program.feeds}
        ran = ProgramRunner(self.trace.program)(feeds, training=self.training)
        for feed, new in {**ran.writes, **ran.state}.items():
            value = self.bound[feed]
            if isinstance(value, GpuTensor):
                self._overwrite(value, new)
            else:
                np.copyto(value, new)
        return self._result({path: GpuTensor(np.asarray(v)) for path, v in ran.outputs.items()})

    def _gathered(self, feed: int) -> Any:
        value = self.bound[feed]
        return np.asarray(value) if isinstance(value, GpuTensor) else value

    def _overwrite(self, tensor: GpuTensor, new: Any) -> None:
        storage = tensor.storage_
        data = self.pool.download(storage.block, storage.nbytes)
        like = tensor.placeholder
        np.copyto(np.ndarray(like.shape, like.dtype, data, tensor.offset, like.strides), new)
        storage.block = self.pool.upload(np.frombuffer(data, np.uint8))


def run(call: Call, spec: Specialisation) -> Returned:
    """Run a call on the GPU; count it and what it compiles.

    It runs in the interpreter if its kernels cannot be compiled. Raises DeviceError if there is no GPU.
    """
    counters = call.table.counters
    before = counters.counts["cache_misses"]
    with call.table.lock:
        with counters.counting():
            made = GpuCall(call, spec)
            call.hold_generators()
            result = _run_or_interpret(made, counters)
        counters.launches += made.launches
        if counters.counts["cache_misses"] > before:
            kernels = (k for plan in spec.gpu_plans.values() for k in plan.kernels)
            counters.missed = tuple(k for k in kernels if not k.from_cache)
        return Returned(result)


def _run_or_interpret(call: GpuCall, counters: Counters) -> Any:
    try:
        plan = call.prepare()
    except CompileError as error:
        counters.note_fallback("the interpreter", error)
        return call.interpret()
    for host in plan.host_calls:
        counters.note_fallback("NumPy, in part", CompileError(Why(reasons.NO_WGSL, f"{host.name} has no WGSL version")))
    return call.run()
