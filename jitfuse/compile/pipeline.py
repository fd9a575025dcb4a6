"""The whole pipeline, from a trace to something that runs: passes, plan, kernels, tables.

`Specialisation` is one signature of a fused function: its trace, its native entry, a plan per mode, compiled
at that mode's first call. Owns the order of the stages and nothing of what is inside them.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jitfuse import behind
from jitfuse.backends.llvm.runtime.entries import Handler
from jitfuse.cache import publish, sources_known, sources_now
from jitfuse.collecting import PAUSED
from jitfuse.compile.bind import BoundEntry, Entrance
from jitfuse.compile.call_plan import CallPlan
from jitfuse.compile.debugging import debugging
from jitfuse.compile.kernel_object import Kernels
from jitfuse.compile.objects import kernels_for
from jitfuse.compile.origin import Origin
from jitfuse.compile.plan_binding import PlanBinder
from jitfuse.compile.plan_literals import literal_arrays
from jitfuse.compile.stored_plans import PlanName, find_plan, plan_entry, plan_name
from jitfuse.lazy import cached_property
from jitfuse.records import Record, fresh
from jitfuse.tracing.found import Trace

if TYPE_CHECKING:
    from jitfuse.compile.matching import Conditions
    from jitfuse.ir.kernel import KernelForm
    from jitfuse.plans import RuntimePlan


class ModePlan:
    """What one mode compiled to: the call plan, its kernels, and the memory of the literal arrays.

    The tables point at that memory.
    """

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
        """The plan with its reasons, for reports; made now where the call plan came from the disk."""
        from jitfuse.compile.planning import runtime_plan

        return runtime_plan(*self._planned)

    @property
    def forms(self) -> tuple[KernelForm, ...]:
        """The forms of the kernels, in the order of their numbers."""
        from jitfuse.compile.planning import lowered

        return lowered(self.runtime)[1]


class Specialisation(Record):
    """One signature of a fused function."""

    trace: Trace
    bound: BoundEntry
    tensors: bool = False
    """Whether native calls take or return torch tensors."""
    plans: dict[bool, ModePlan] = fresh(default_factory=dict)
    gpu_plans: dict[Any, Any] = fresh(default_factory=dict)
    """What the modes compiled to on a GPU, by mode and by what lies on the host (`jitfuse.gpu.call`)."""

    def matches(self, args: Sequence[Any], kwargs: Mapping[str, Any], training: bool | None = None) -> bool:
        """Return whether a call belongs to this signature, in a mode where one is given."""
        trace = self.trace
        if len(args) != trace.positional or tuple(kwargs) != trace.keywords:
            return False
        if training is not None and trace.mode not in (None, training):
            return False
        return self.conditions.hold(args, kwargs)

    @cached_property
    def conditions(self) -> Conditions:
        """What must hold of a call that belongs to this signature."""
        from jitfuse.compile.matching import Conditions

        return Conditions.of(self.trace)


def specialise(
    trace: Trace, state: Mapping[str, np.ndarray[Any, Any]], handler: Handler, tensors: Collection[int] = (),
    torch: bool = False,
) -> Specialisation:
    """Return the signature's native entry, with no mode compiled yet; `tensors` and `torch` as in `BoundEntry`."""
    return Specialisation(trace, BoundEntry(Entrance.of(trace), state, handler, tensors, torch), tensors=torch)


def compile_mode(
    spec: Specialisation, training: bool, origin: Origin, *, use_cache: bool, keep_plan: bool = True,
    schedule: str = "slack", chosen: dict[int, Any] | None = None,
) -> ModePlan:
    """Compile one mode: passes -> plan -> kernels -> tables. Modes that agree share one plan.

    Where the disk knows the program, its plan and kernels come from there (`keep_plan`: and are put there). `chosen`
    is what `jitfuse.compile.planning` knows of programs of the same function. Raises CompileError where a kernel cannot
    be built.
    """
    tables = spec.bound.entry.plan(not training)
    if tables is not None and not spec.trace.mode_sensitive:
        made = spec.plans[not training]
    else:
        with PAUSED:
            made = _mode_plan(spec.trace, training, origin, schedule, use_cache, keep_plan, chosen)
            tables = PlanBinder(
                spec.bound, spec.trace.result, made.call, made.kernels, made.constants, origin.function
            ).build()
    spec.plans[training] = made
    spec.bound.entry.set_plan(training=training, plan=tables)
    return made


def _mode_plan(
    trace: Trace, training: bool, origin: Origin, schedule: str, use_cache: bool, keep_plan: bool,
    chosen: dict[int, Any] | None,
) -> ModePlan:
    name = plan_name(trace, training, schedule) if use_cache and not debugging() else None
    found = find_plan(name, origin) if name is not None else None
    if found is not None:
        return ModePlan(found.call, found.kernels, trace, training, schedule)
    from jitfuse.compile.planning import lowered, runtime_plan

    runtime = runtime_plan(trace, training, schedule, chosen)
    call, forms = lowered(runtime)
    made_for = origin.replace(program=trace.program)
    kernels = kernels_for(forms, made_for, use_cache=use_cache) if forms else None
    _store(name if keep_plan else None, call, kernels, origin, use_cache)
    return ModePlan(call, kernels, trace, training, schedule, runtime)


def _store(name: PlanName | None, call: CallPlan, kernels: Kernels | None, origin: Origin, use_cache: bool) -> None:
    """Put what has been made into the cache: behind the answer where the sources are still to be read for its keys.

    Of the kernels that is what this process compiled, be it for a function that uses no cache.
    """
    made = [one for one in kernels.objects if one.unpublished] if use_cache and kernels is not None else []
    for one in made:
        one.unpublished = False
    if not made and name is None:
        return

    def store() -> None:
        planned = None if name is None else plan_entry(name, call, kernels, origin)
        entries = [entry for one in made for entry in one.entries()]
        publish(*entries, *(() if planned is None else (planned,)), now=sources_now())

    if sources_known():
        store()
    else:
        behind.do(store)
