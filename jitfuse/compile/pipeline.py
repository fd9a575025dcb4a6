"""From a trace to native code: passes, plan, kernels, and native tables.

`Specialisation` is one signature of a fused function: its trace, a plan per mode, compiled at that mode's first call,
and its native entry, made when native code can try it. Owns the order of the stages, not the stages themselves.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jitfuse.backends.llvm.runtime.entries import Handler, NativeEntry
from jitfuse.base import background
from jitfuse.base.gc_pause import PAUSED
from jitfuse.base.lazy import cached_property
from jitfuse.base.records import NamedTuple, Record, fresh
from jitfuse.cache import default_store, nothing_stored, publish, sources_known, sources_now
from jitfuse.compile.bind.plan import PlanBinder
from jitfuse.compile.call_plans.call_plan import CallPlan
from jitfuse.compile.call_plans.literals import literal_arrays
from jitfuse.compile.debugging import debugging
from jitfuse.compile.guards.guard_tables import BoundEntry, Entrance
from jitfuse.compile.objects.kernel_object import Kernels
from jitfuse.compile.objects.objects import kernels_for
from jitfuse.compile.objects.origin import Origin
from jitfuse.compile.objects.stored_plans import PlanName, find_plan, plan_entry, plan_name
from jitfuse.tracing.trace import Trace

if TYPE_CHECKING:
    from jitfuse.compile.guards.matching import Conditions
    from jitfuse.ir.kernels.form import KernelForm
    from jitfuse.plans import RuntimePlan


class ModePlan:
    """One compiled mode: the call plan, its kernels, and the literal arrays, to whose memory the tables point."""

    def __init__(
        self, call: CallPlan, kernels: Kernels | None, trace: Trace, training: bool, schedule: str,
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
        """The plan with its reasons, for reports; made anew if the call plan came from the disk."""
        from jitfuse.compile.planning import runtime_plan

        return runtime_plan(*self._planned)

    @property
    def forms(self) -> tuple[KernelForm, ...]:
        """The forms of the kernels, in the order of their numbers."""
        from jitfuse.compile.planning import lowered

        return lowered(self.runtime)[1]


class Binding(NamedTuple):
    """What native code needs beside the trace; `tensors` and `torch` as in `BoundEntry`."""

    state: Mapping[str, np.ndarray[Any, Any]]
    handler: Handler
    tensors: Collection[int] = ()
    torch: bool = False


class Specialisation(Record):
    """One signature of a fused function."""

    trace: Trace
    binding: Binding
    plans: dict[bool, ModePlan] = fresh(default_factory=dict)
    gpu_plans: dict[Any, Any] = fresh(default_factory=dict)
    """The GPU plans, by mode and by what lies on the host (`jitfuse.gpu.call`)."""

    @property
    def tensors(self) -> bool:
        """Whether native calls take or return torch tensors."""
        return self.binding.torch

    @cached_property
    def bound(self) -> BoundEntry:
        """The native entry, without tables of any mode at first; made when native code can try it."""
        return BoundEntry(Entrance.of(self.trace), *self.binding)

    def matches(self, args: Sequence[Any], kwargs: Mapping[str, Any], training: bool | None = None) -> bool:
        """Return whether a call matches this signature, and the mode if one is given."""
        trace = self.trace
        if len(args) != trace.positional or tuple(kwargs) != trace.keywords:
            return False
        if training is not None and trace.mode not in (None, training):
            return False
        return self.conditions.hold(args, kwargs)

    @cached_property
    def conditions(self) -> Conditions:
        """The conditions of a call that matches this signature."""
        from jitfuse.compile.guards.matching import Conditions

        return Conditions.of(self.trace)


def compile_mode(
    spec: Specialisation, training: bool, origin: Origin, *, use_cache: bool, keep_plan: bool = True,
    schedule: str = "slack", chosen: dict[int, Any] | None = None,
) -> ModePlan:
    """Compile one mode: passes -> plan -> kernels. Modes that agree share one plan.

    With `keep_plan`, the plan and its kernels come from the disk if it has the program, else they are stored there.
    `chosen` holds lowerings of the same function's programs (`jitfuse.compile.planning`). Raises CompileError if a
    kernel cannot be built.
    """
    made = None if spec.trace.mode_sensitive else spec.plans.get(not training)
    if made is None:
        with PAUSED:
            made = _mode_plan(spec.trace, training, origin, schedule, use_cache, keep_plan, chosen)
    spec.plans[training] = made
    return made


def native_entry(spec: Specialisation, training: bool) -> tuple[NativeEntry, bool]:
    """Return a signature's native entry with the tables of a compiled mode, and whether these are new.

    Raises CompileError if the kernels cannot be linked.
    """
    entry, made = spec.bound.entry, spec.plans[training]
    if entry.plan(training) is not None:
        return entry, False
    tables = entry.plan(not training) if spec.plans.get(not training) is made else None
    if tables is None:
        with PAUSED:
            tables = PlanBinder(spec.bound, spec.trace.result, made.call, made.kernels, made.constants).build()
    entry.set_plan(training=training, plan=tables)
    return entry, True


def _mode_plan(
    trace: Trace, training: bool, origin: Origin, schedule: str, use_cache: bool, keep_plan: bool,
    chosen: dict[int, Any] | None,
) -> ModePlan:
    uses_disk = use_cache and keep_plan and not debugging()
    name = functools.cache(functools.partial(plan_name, trace, training, schedule))
    known = name() if uses_disk and not nothing_stored(default_store()) else None
    found = find_plan(known, origin) if known is not None else None
    if found is not None:
        return ModePlan(found.call, found.kernels, trace, training, schedule)
    from jitfuse.compile.planning import lowered, runtime_plan

    runtime = runtime_plan(trace, training, schedule, chosen)
    call, forms = lowered(runtime)
    made_for = origin.replace(program=trace.program)
    kernels = kernels_for(forms, made_for, use_cache=use_cache) if forms else None
    _store(name if uses_disk else None, call, kernels, origin, use_cache)
    return ModePlan(call, kernels, trace, training, schedule, runtime)


def _store(
    name: Callable[[], PlanName | None] | None, call: CallPlan, kernels: Kernels | None, origin: Origin, use_cache: bool
) -> None:
    """Store a new plan and its kernels in the cache: in the background if sources must be read for their keys.

    Stores the kernels that this process compiled, even those made for a function that uses no cache.
    """
    made = [one for one in kernels.objects if one.unpublished] if use_cache and kernels is not None else []
    for one in made:
        one.unpublished = False
    if not made and name is None:
        return

    def store() -> None:
        known = name() if name is not None else None
        planned = None if known is None else plan_entry(known, call, kernels, origin)
        entries = [entry for one in made for entry in one.entries()]
        publish(*entries, *(() if planned is None else (planned,)), now=sources_now())

    if sources_known():
        store()
    else:
        background.do(store)
