"""The readable report of a compiled signature, and the list of its kernels.

Owns the texts of `FusedFunction.explain` and `FusedFunction.kernels`. Decides nothing.
"""
from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jitfuse.base.records import NamedTuple
from jitfuse.cache import Entry
from jitfuse.compile.objects.described import Described
from jitfuse.compile.planning import all_launches
from jitfuse.ir.formats.text import report_lines, report_steps
from jitfuse.ir.kernels.form import KernelForm
from jitfuse.plans import HostCall, Launch, RuntimePlan
from jitfuse.reports.phases import phases

_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True)
class Kernel(Described):
    """One compiled kernel: `source` is LLVM IR, `asm` its assembly; `Described` has its cache metadata."""

    key: str
    backend: str
    compile_ms: float
    from_cache: bool
    form: KernelForm = field(repr=False)
    _object: Any = field(repr=False)

    @property
    def entry(self) -> Entry:
        """The cache entry of the object that holds the kernel."""
        entry: Entry = self._object.entry
        return entry

    @property
    def source(self) -> str:
        """The LLVM IR of the object that holds the kernel."""
        return str(self._object.source)

    @functools.cached_property
    def asm(self) -> str:
        """The assembly of the object that holds the kernel: its forms compiled again, never a text from its entry."""
        from jitfuse.compile.rebuild import assembly

        return assembly(self._object.canonical)


def kernels_of(specs: Iterable[Any]) -> tuple[Any, ...]:
    """Return each kernel of some signatures once, in the order in which they were made."""
    found: dict[tuple[str, int], Any] = {}
    for spec in reversed(list(specs)):
        for mode in spec.plans.values():
            members = mode.kernels.members if mode.kernels is not None else ()
            for form, (made, k) in zip(mode.forms if members else (), members, strict=True):
                kernel = Kernel(made.key, "llvm", made.compile_ms, made.from_cache, form, made)
                found.setdefault((made.key, k), kernel)
        for plan in spec.gpu_plans.values():
            for kernel in plan.kernels:
                found.setdefault((kernel.key, 0), kernel)
    return tuple(found.values())


class ReportSection(NamedTuple):
    """A part of the report: its title and its lines."""

    title: str
    lines: Sequence[str]


def heading(function: Any, spec: Any, training: bool) -> str:
    """Return the report's first line."""
    return f"{function.name}, {'training' if training else 'evaluation'}, traced in {spec.trace.trace_ms:.2f} ms"


def report(spec: Any, plan: RuntimePlan, budget: str) -> list[ReportSection]:
    """Return the report of one mode of one signature with its plan; `budget` says what is used of the function's."""
    trace, refused = spec.trace, refusals(plan)
    arrays, numbers = report_lines(trace.program)
    planned = report_lines(plan.program) if refused or plan.offsets else ()
    sections = [
        ReportSection("program (as written)", arrays),
        ReportSection("Python's numbers", numbers),
        ReportSection("feeds", _feeds(trace)),
        ReportSection("guards", [_ADDRESS.sub("", str(g)) for g in trace.guards] + _values(trace)),
        ReportSection("bound by each call", [str(effect.target) for effect in trace.result.effects]),
        ReportSection(f"plan: {plan.kind}", [*_score(plan), *_plan_steps(plan)]),
        ReportSection("phases", phases(plan)),
        ReportSection("program (as planned)", [line for lines in planned for line in lines]),
        ReportSection("refused merges (steps as planned)", refused),
        ReportSection("memory", _memory(plan)),
        ReportSection("kernels", [line for k in _distinct(plan) for line in str(k.form).split("\n")]),
        ReportSection("budget", [budget]),
    ]
    return [section for section in sections if section.lines]


def explain(function: Any, spec: Any, training: bool, plan: RuntimePlan, budget: str) -> str:
    """Return the report as text."""
    parts = ["\n".join([s.title, *("  " + line for line in s.lines)]) for s in report(spec, plan, budget)]
    return "\n\n".join([heading(function, spec, training), *parts])


def _feeds(trace: Any) -> list[str]:
    return [f"%{feed}: {source.meta} from {source.source}" for feed, source in trace.feeds.items()]


def _values(trace: Any) -> list[str]:
    def shown(value: Any) -> str:
        return "the same elements" if isinstance(value, bytes) else repr(value)

    reads = trace.guarded_values.items()
    return [f"{trace.feeds[feed].source} == {shown(value)} (Python read it)" for feed, value in reads]


def _score(plan: RuntimePlan) -> list[str]:
    s = plan.score
    lines = [f"estimated {s.time_ns} ns, {s.kernels} kernel(s) and library calls, peak {s.peak_bytes} B"]
    lines += [f"instead of: {kind}, estimated {lost.time_ns} ns" for kind, lost in plan.losers]
    return lines


def _plan_steps(plan: RuntimePlan) -> list[str]:
    lines = []
    for k, step in enumerate(plan.steps):
        if isinstance(step, HostCall):
            shapes = ", ".join(str(o.layout.shape) for o in step.inputs)
            lines.append(f"{k}: {'step' if step.bodies else 'library call'} {step.name} on {shapes}")
            for name, body in step.bodies:
                lines += [f"  {name}", *(f"    {line}" for line in _plan_steps(body))]
        else:
            lines.append(_launch_line(k, step))
    lines += [_launch_line(len(plan.steps) + k, c) + " (written at the end)" for k, c in enumerate(plan.commits)]
    return lines


def _launch_line(k: int, launch: Launch) -> str:
    space = " x ".join(map(str, launch.sizes))
    operations = sum(1 for s in launch.form.stages for i in s.body if i.op not in ("load", "store", "param", "const"))
    line = f"{k}: kernel {launch.form.content_hash[:12]} over {space}: {operations} ops, {launch.bytes_moved} B moved"
    return line + ", in one launch with the kernel before" * launch.batched


def refusals(plan: RuntimePlan, *, by_line: bool = False) -> list[str]:
    """Return what a plan has not fused, and why: by the step's number, or by the user's line."""
    number = {s.step_id: (k, s) for k, s in enumerate(itertools.chain(*report_steps(plan.program)))}
    refused = {(*number[r.step], str(r.reason)) for r in plan.refusals if r.step in number}
    shown = sorted(refused, key=lambda one: one[0])
    where = {k: f"at {plan.program.sources.get(step.step_id)}" if by_line else f"(step {k})" for k, step, _ in shown}
    return [f"{step.op_name} {where[k]}: {reason}" for k, step, reason in shown]


def _memory(plan: RuntimePlan) -> list[str]:
    lines = [f"arena {plan.arena_bytes} B"] if plan.arena_bytes else []
    lines += [f"{kind} %{number} at {offset}" for (kind, number), offset in plan.offsets.items()]
    return lines


def _distinct(plan: RuntimePlan) -> list[Launch]:
    return list({launch.form.content_hash: launch for launch in all_launches(plan)}.values())
