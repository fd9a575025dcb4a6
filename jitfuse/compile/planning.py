"""Planning: from a traced program to a runtime plan, and from that to the call plan.

Imported for programs that are not on disk, or that are explained. Owns the order of the stages between a trace and its
kernels, not the stages themselves.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from jitfuse.backends.llvm.codegen.layout import cost_ns, scratch_bytes, units
from jitfuse.compile.call_plans.call_plan import BodyPlan, CallPlan, IndexCheck, KernelCall, LibraryCall, Window
from jitfuse.compile.debugging import debugging, verified, verified_forms
from jitfuse.compile.objects.stored_plans import step_lines
from jitfuse.dtypes import itemsize
from jitfuse.ir.kernels.form import KernelForm
from jitfuse.ir.program import FusedProgram
from jitfuse.passes.pipeline import run_passes
from jitfuse.plans import HostCall, HostOperand, Launch, ProgramPlan, RuntimePlan
from jitfuse.plans.layout import Layout, strided

if TYPE_CHECKING:
    from jitfuse.tracing.trace import Trace


def runtime_plan(
    trace: Trace, training: bool, schedule: str, chosen: dict[int, Any] | None = None
) -> RuntimePlan:
    """Return the plan of one mode of a trace: passes, then the best of the competing plans.

    `chosen` holds the best choices for programs that probably have the same structure, and is added to.
    """
    return _Planning(training, schedule, chosen).planned(trace.program, feed_layouts(trace))


class _Planning:
    """Plans one program and those that its steps hold, at any depth; equal ones are planned once."""

    def __init__(self, training: bool, schedule: str, chosen: dict[int, Any] | None) -> None:
        self._training, self._schedule, self._chosen = training, schedule, chosen
        self._bodies: dict[Any, RuntimePlan] = {}

    def planned(
        self, program: FusedProgram, layouts: Mapping[int, Layout], donated: Mapping[int, int] | None = None
    ) -> RuntimePlan:
        """Return the best plan of a program, or of a body with `donated`: feeds with the number of the output that may
        reuse their memory. A body's launches run one after the other: each may write over what those before it read."""
        program = run_passes(program, self._training, verified if debugging() else None)
        chosen = None if donated else self._chosen
        plan = ProgramPlan(
            program, layouts, self._schedule, donated=donated or {}, batches=donated is None, chosen=chosen).best()
        steps = tuple(self._with_bodies(s) if isinstance(s, HostCall) else s for s in plan.steps)
        return plan._replace(steps=steps)

    def _with_bodies(self, step: HostCall) -> HostCall:
        held = [(name, value) for name, value in step.attrs if isinstance(value, FusedProgram)]
        return step._replace(bodies=tuple((name, self._body(step, name, value)) for name, value in held))

    def _body(self, step: HostCall, name: str, body: FusedProgram) -> RuntimePlan:
        """Return the plan of a body; equal ones share it if their steps are in the same source lines."""
        donated = _carried(step, name, body)
        key = body, tuple(step_lines(body)), tuple(donated.items())
        found = self._bodies.get(key)
        if found is None:
            found = self._bodies[key] = self.planned(body, {}, donated)
        return found


def _carried(step: HostCall, name: str, body: FusedProgram) -> dict[int, int]:
    """Return the carried feeds of a body, each with the output that replaces it."""
    carries: Any = dict(step.attrs).get("carries", 0) if name == "body" else 0
    first = int(step.name == "fori_loop")  # the iteration number comes first
    return {body.ordered_feeds[first + k]: k for k in range(carries)}


def feed_layouts(trace: Trace) -> dict[int, Layout]:
    """Return the layout of every array feed of a trace."""
    layouts = {}
    for feed, source in trace.feeds.items():
        if source.kind == "array":
            layouts[feed] = strided(source.meta.shape, source.strides, itemsize(source.meta.dtype))
    return layouts


def lowered(plan: RuntimePlan) -> tuple[CallPlan, tuple[KernelForm, ...]]:
    """Return the call plan of a plan, and the forms of its kernels, in the order of their numbers."""
    forms = forms_of(plan)
    call = call_plan(plan, forms)
    if any(isinstance(step, HostCall) and step.bodies for step in plan.steps):
        from jitfuse.compile.bind.kernel_loops import with_sweeps

        call, forms = with_sweeps(call, forms)
    if debugging():
        verified_forms(forms)
    return call, forms


def forms_of(plan: RuntimePlan) -> tuple[KernelForm, ...]:
    """Return the forms of a plan's launches, each once.

    Sorted by hash: sizes may change the order in which kernels run, but the object stays the same.
    """
    distinct = {launch.form.content_hash: launch.form for launch in all_launches(plan)}
    return tuple(distinct[key] for key in sorted(distinct))


def all_launches(plan: RuntimePlan) -> Iterator[Launch]:
    """Yield the launches of a plan and of all plans within its steps."""
    yield from plan.launches
    for step in plan.steps:
        if isinstance(step, HostCall):
            for _, body in step.bodies:
                yield from all_launches(body)


def call_plan(plan: RuntimePlan, forms: Sequence[KernelForm]) -> CallPlan:
    """Return the call plan of a plan; kernels are numbered as the forms are."""
    index = {form.content_hash: k for k, form in enumerate(forms)}
    program = plan.program
    delivered = program.outputs.values()
    return CallPlan(
        steps=tuple(_kernel(s, index) if isinstance(s, Launch) else _library(s, forms) for s in plan.steps),
        commits=tuple(_kernel(s, index) for s in plan.commits),
        results={path: (value, program.meta[value].dtype) for path, value in program.outputs.items()},
        outputs={v: (program.meta[v].dtype, program.meta[v].shape) for v in plan.outputs},
        views={
            v: _window((_kind(program, view.base), view.base), view.offset, program.meta[v].dtype, view.layout)
            for v, view in plan.views.items() if v in delivered
        },
        offsets=plan.offsets, arena_bytes=plan.arena_bytes, literals=literals_of(program),
    )


def _kind(program: FusedProgram, value: int) -> str:
    return "feed" if value in program.feeds else "value"


def _kernel(launch: Launch, index: Mapping[str, int]) -> KernelCall:
    form, sizes = launch.form, launch.sizes
    checks = tuple(IndexCheck(*check) for check in launch.checks)
    division = _division(form, sizes)
    return KernelCall(
        index[form.content_hash], *division, launch.buffers, launch.words, checks, _turns(form), _loads_first(form),
        batched=launch.batched)


@lru_cache(maxsize=64)
def _division(form: KernelForm, sizes: tuple[int, ...]) -> tuple[int, int, int]:
    """Return units, estimated nanoseconds and bytes of scratch of a launch."""
    return units(form, sizes), cost_ns(form, sizes), scratch_bytes(form, sizes)


@lru_cache(maxsize=64)
def _turns(form: KernelForm) -> tuple[int, ...]:
    """Return the order in which a one-axis kernel loads each operand last, or stores it first; () for other kernels.

    Operands with cells are not in step with the others.
    """
    if len(form.stages) != 1 or len(form.axes) != 1 or form.then is not None or form.stages[0].kind != "point":
        return ()
    in_step = "1" if form.grid[0].extent is None else "0" if form.grid[0].extent == 1 else None
    turns = [-1] * len(form.operands)
    other = {k for k, operand in enumerate(form.operands) if operand.strides != (in_step,) or operand.cell > 1}
    for number, instr in enumerate(form.stages[0].body):
        if instr.op in ("load", "store"):
            operand, offset, *_ = instr.imm
            if offset:
                other.add(operand)
            if instr.op == "load" or turns[operand] < 0:
                turns[operand] = number
    return tuple(-1 if k in other else turn for k, turn in enumerate(turns))


@lru_cache(maxsize=64)
def _loads_first(form: KernelForm) -> bool:
    """Return whether a kernel has a single grid point, and loads everything there before it stores anything."""
    if form.then is not None or form.contracted or any(axis.extent != 1 for axis in form.grid):
        return False
    loads, stores = [-1.0], [float(len(form.stages))]
    for number, stage in enumerate(form.stages):
        for position, instr in enumerate(stage.body):
            at = number + position / len(stage.body) if stage.kind == "point" else number  # other stages loop
            (loads if instr.op == "load" else stores if instr.op == "store" else []).append(at)
    return max(loads) < min(stores)


def _library(call: HostCall, forms: Sequence[KernelForm]) -> LibraryCall:
    inputs, outputs = (tuple(_operand(o) for o in side) for side in (call.inputs, call.outputs))
    attrs = tuple((name, value) for name, value in call.attrs if not isinstance(value, FusedProgram))
    bodies = tuple((name, _body(plan, forms)) for name, plan in call.bodies)
    return LibraryCall(call.name, attrs, inputs, outputs, call.step, call.source, bodies)


def _body(plan: RuntimePlan, forms: Sequence[KernelForm]) -> BodyPlan:
    feeds = tuple((feed, plan.program.meta[feed].dtype) for feed in plan.program.ordered_feeds)
    return BodyPlan(feeds, call_plan(plan, forms))


def _operand(operand: HostOperand) -> Window:
    return _window(operand.buffer, operand.offset, operand.dtype, operand.layout)


def _window(buffer: tuple[str, int], offset: int, dtype: str, layout: Layout) -> Window:
    return Window(buffer, offset, dtype, layout.shape, layout.strides, layout.contiguous)


def literals_of(program: FusedProgram) -> dict[int, tuple[str, bytes]]:
    """Return dtype and bytes of a program's literal arrays, by value."""
    return {
        s.result_id: (s.attr("dtype"), s.attr("data")) for s in program.steps if s.op_name == "constant"
    }
