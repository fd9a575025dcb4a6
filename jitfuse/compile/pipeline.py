"""The whole pipeline, from a trace to something that runs: passes, plan, kernels, tables.

`Specialisation` is one signature of a fused function: its trace, its native entry, a plan per mode, compiled
at that mode's first call. Owns the order of the stages and nothing of what is inside them.
"""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jitfuse.backends.llvm.runtime.tables import Handler
from jitfuse.compile.bind import BoundEntry, is_c_order
from jitfuse.compile.objects import KernelObject, Origin, kernel_object
from jitfuse.compile.plan_binding import PlanBinder, literal_arrays
from jitfuse.dtypes import itemsize
from jitfuse.ir.program import FusedProgram
from jitfuse.passes import run_passes
from jitfuse.plans import AbstractPlan, RuntimePlan
from jitfuse.plans.layout import Layout, strided
from jitfuse.tracing.device_array import seen
from jitfuse.tracing.tracer import FeedSource, Trace
from jitfuse.tracing.view import Chain


@dataclass
class ModePlan:
    """What one mode compiled to."""

    program: FusedProgram
    runtime: RuntimePlan
    kernels: KernelObject | None
    constants: Mapping[int, np.ndarray[Any, Any]]
    """The memory of the literal arrays: the tables point there."""


@dataclass
class Specialisation:
    """One signature of a fused function."""

    trace: Trace
    bound: BoundEntry
    plans: dict[bool, ModePlan] = field(default_factory=dict)
    gpu_plans: dict[Any, Any] = field(default_factory=dict)
    """What the modes compiled to on a GPU, by mode and by what lies on the host (`jitfuse.gpu.call`)."""

    def matches(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Return whether a call belongs to this signature; the slow twin of the native guards."""
        trace = self.trace
        if len(args) != trace.positional or tuple(kwargs) != trace.keywords:
            return False
        if not all(guard.check(args, kwargs) for guard in trace.guards):
            return False
        if not all(self._feed_matches(feed, args, kwargs) for feed in trace.feeds):
            return False
        return self._same(args, kwargs) and self.apart(args, kwargs)

    def _same(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Return whether arrays that were one object in the trace are one object again."""
        feeds = self.trace.feeds
        return all(
            chain.resolve(args, kwargs) is feeds[feed].source.resolve(args, kwargs)
            for chain, feed in self.trace.aliases
        )

    def apart(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Return whether written arrays share memory with no other, as they did in the trace."""
        writes, feeds = self.trace.program.writes, self.trace.feeds
        found = [f for f in feeds if feeds[f].kind == "array"] if writes else []
        arrays = {f: seen(feeds[f].source.resolve(args, kwargs)) for f in found}
        return not any(
            np.may_share_memory(arrays[a], arrays[b]) for a in writes if a in arrays for b in arrays if a != b
        )

    def _feed_matches(self, feed: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        source = self.trace.feeds[feed]
        if not isinstance(source.source, Chain):
            return True
        try:
            value = seen(source.source.resolve(args, kwargs))
        except Exception:
            return False
        if source.kind == "array":
            return (
                type(value) is np.ndarray and value.dtype.name == source.meta.dtype and value.dtype.isnative
                and value.shape == source.meta.shape and value.flags.aligned
                and (value.flags.writeable or feed not in self.trace.program.writes)
                and (value.strides == source.strides or _both_c_order(value, source))
            )
        if source.kind == "numpy":
            return isinstance(value, np.generic) and value.dtype.name == source.meta.dtype
        wanted = {"float64": float, "int64": int, "bool": bool, "complex128": complex}[source.meta.dtype]
        if type(value) is not wanted:
            return False
        assert isinstance(value, bool | int | float | complex)
        if feed in self.trace.guarded_values and repr(value) != repr(self.trace.guarded_values[feed]):
            return False
        low, high = self.trace.int_ranges.get(feed, (-(1 << 63), (1 << 63) - 1))
        return not isinstance(value, int) or low <= value <= high


def _both_c_order(value: np.ndarray[Any, Any], source: FeedSource) -> bool:
    return value.flags.c_contiguous and is_c_order(source.meta, source.strides)


def specialise(
    trace: Trace, state: Mapping[str, np.ndarray[Any, Any]], handler: Handler
) -> Specialisation:
    """Return the signature's native entry, with no mode compiled yet."""
    return Specialisation(trace, BoundEntry(trace, state, handler))


def compile_mode(
    spec: Specialisation, training: bool, origin: Origin, *, use_cache: bool, schedule: str = "slack"
) -> ModePlan:
    """Compile one mode: passes -> plan -> kernels -> tables. Modes that agree share one plan.

    Raises CompileError where a kernel cannot be built.
    """
    tables = spec.bound.entry.plan(not training)
    if tables is not None and not spec.trace.mode_sensitive:
        made = spec.plans[not training]
    else:
        program = run_passes(spec.trace.program, training, verified if debugging() else None)
        runtime = AbstractPlan(program, feed_layouts(spec.trace), schedule).best()
        # by their hash, for kernels may run in another order where sizes differ, and the object is the same
        distinct = {launch.form.content_hash: launch.form for launch in runtime.launches}
        forms = [distinct[key] for key in sorted(distinct)]
        made_for = replace(origin, program=spec.trace.program)
        kernels = kernel_object(forms, made_for, use_cache=use_cache) if forms else None
        made = ModePlan(runtime.program, runtime, kernels, literal_arrays(runtime.program))
        index = {form.content_hash: k for k, form in enumerate(forms)}
        tables = PlanBinder(spec.bound, runtime, kernels, index, made.constants).build()
    spec.plans[training] = made
    spec.bound.entry.set_plan(training=training, plan=tables)
    return made


def feed_layouts(trace: Trace) -> dict[int, Layout]:
    """Return the layout of every array feed of a trace."""
    layouts = {}
    for feed, source in trace.feeds.items():
        if source.kind == "array":
            layouts[feed] = strided(source.meta.shape, source.strides, itemsize(source.meta.dtype))
    return layouts


def debugging() -> bool:
    """Return whether JITFUSE_DEBUG asks for checks after every pass."""
    return bool(os.environ.get("JITFUSE_DEBUG"))


def verified(name: str, program: FusedProgram) -> None:
    """Check a program after a pass; only debugging pays for the verifier's import."""
    from jitfuse.ir.verify import verify

    verify(program)


