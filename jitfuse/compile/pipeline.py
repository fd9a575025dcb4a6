"""The whole pipeline, from a trace to something that runs: passes, plan, kernels, tables.

`Specialisation` is one signature of a fused function: its trace, its native entry, a plan per mode, compiled
at that mode's first call. Owns the order of the stages and nothing of what is inside them.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jitfuse.backends.llvm.runtime.entries import Handler
from jitfuse.cache import publish
from jitfuse.compile.bind import BoundEntry, is_c_order
from jitfuse.compile.call_plan import CallPlan
from jitfuse.compile.debugging import debugging
from jitfuse.compile.objects import KernelObject, Origin, kernel_object
from jitfuse.compile.plan_binding import PlanBinder
from jitfuse.compile.plan_literals import literal_arrays
from jitfuse.compile.stored_plans import find_plan, plan_entry, plan_name
from jitfuse.lazy import cached_property
from jitfuse.records import Record, fresh
from jitfuse.tracing.device_array import seen
from jitfuse.tracing.tracer import FeedSource, Trace
from jitfuse.tracing.view import Chain

if TYPE_CHECKING:
    from jitfuse.ir.kernel import KernelForm
    from jitfuse.plans import RuntimePlan


class ModePlan:
    """What one mode compiled to: the call plan, its kernels, and the memory of the literal arrays.

    The tables point at that memory.
    """

    def __init__(
        self, call: CallPlan, kernels: KernelObject | None, trace: Trace, training: bool, schedule: str,
        runtime: RuntimePlan | None = None,
    ) -> None:
        self.call = call
        self.kernels = kernels
        self.constants = literal_arrays(call.literals)
        self._planned = trace, training, schedule
        if runtime is not None:
            self.runtime = runtime

    @cached_property
    def runtime(self) -> RuntimePlan:
        """The plan with its reasons, for reports; made now where the call plan came from the disk."""
        from jitfuse.compile.planning import runtime_plan

        return runtime_plan(*self._planned)

    @property
    def forms(self) -> tuple[KernelForm, ...]:
        """The forms of the kernels, in the order of their numbers."""
        from jitfuse.compile.planning import forms_of

        return forms_of(self.runtime)


class Specialisation(Record):
    """One signature of a fused function."""

    trace: Trace
    bound: BoundEntry
    plans: dict[bool, ModePlan] = fresh(default_factory=dict)
    gpu_plans: dict[Any, Any] = fresh(default_factory=dict)
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
    spec: Specialisation, training: bool, origin: Origin, *, use_cache: bool, keep_plan: bool = True,
    schedule: str = "slack",
) -> ModePlan:
    """Compile one mode: passes -> plan -> kernels -> tables. Modes that agree share one plan.

    Where the disk knows the program, its plan and kernels come from there (`keep_plan`: and are put there). Raises
    CompileError where a kernel cannot be built.
    """
    tables = spec.bound.entry.plan(not training)
    if tables is not None and not spec.trace.mode_sensitive:
        made = spec.plans[not training]
    else:
        made = _mode_plan(spec.trace, training, origin, schedule, use_cache, keep_plan)
        tables = PlanBinder(spec.bound, made.call, made.kernels, made.constants, origin.function).build()
    spec.plans[training] = made
    spec.bound.entry.set_plan(training=training, plan=tables)
    return made


def _mode_plan(
    trace: Trace, training: bool, origin: Origin, schedule: str, use_cache: bool, keep_plan: bool
) -> ModePlan:
    name = plan_name(trace, training, schedule) if use_cache and not debugging() else None
    found = find_plan(name, origin) if name is not None else None
    if found is not None:
        return ModePlan(found.call, found.kernels, trace, training, schedule)
    from jitfuse.compile.planning import call_plan, forms_of, runtime_plan

    runtime = runtime_plan(trace, training, schedule)
    forms = forms_of(runtime)
    call = call_plan(runtime, forms)
    made_for = origin.replace(program=trace.program)
    kernels, compiled = kernel_object(forms, call.kernels, made_for, use_cache=use_cache) if forms else (None, None)
    planned = plan_entry(name, call, kernels, origin) if name is not None and keep_plan else None
    publish(*(entry for entry in (compiled, planned) if entry is not None))
    return ModePlan(call, kernels, trace, training, schedule, runtime)
