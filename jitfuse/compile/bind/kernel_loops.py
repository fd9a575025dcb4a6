"""Kernels that run a whole loop: launches of a loop's body become launches of forms with a loop over its iterations.

A call plan whose loop bodies are launches alone is rewritten before its kernels are compiled, so that each is compiled
once. The lengths of loops and launches do not change the forms. Owns these forms, and what an iteration keeps in
registers for the next one. Does not own how buffers move (`jitfuse.compile.bind.loop_memory`), how the launches are
bound (`jitfuse.compile.bind.control_ops`), or the code (`jitfuse.backends.llvm.codegen.sweeps`).
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from jitfuse.backends.llvm.codegen.analysis import POINT, analysis_of
from jitfuse.compile.bind.loop_memory import LoopLayout, Motion, layout_of
from jitfuse.compile.call_plans.call_plan import BodyPlan, CallPlan, KernelCall, LibraryCall
from jitfuse.ir.kernels.form import KernelAxis, KernelForm, Sweep
from jitfuse.ir.kernels.stages import Instr
from jitfuse.ir.kernels.values import access

Pairs = tuple[tuple[int, int], ...]

_CONSTANT: Final = Motion(fixed=True)
_WRITTEN: Final = Motion()


def with_sweeps(plan: CallPlan, forms: Sequence[KernelForm]) -> tuple[CallPlan, tuple[KernelForm, ...]]:
    """Return a plan whose loops run in kernels where possible, and the forms of its kernels, in their order."""
    sweeping = _Sweeping(forms)
    swept = sweeping.plan(plan)
    if len(sweeping.forms) == len(forms):
        return plan, tuple(forms)
    used = sorted(set(_kernels(swept)), key=lambda k: sweeping.forms[k].content_hash)
    return _renumbered(swept, {k: number for number, k in enumerate(used)}), tuple([sweeping.forms[k] for k in used])


class _Sweeping:
    """The rewriting of one plan; forms with a loop over iterations are added to `forms`."""

    def __init__(self, forms: Sequence[KernelForm]) -> None:
        self.forms = list(forms)
        self._numbers: dict[Any, int] = {}

    def plan(self, plan: CallPlan) -> CallPlan:
        """Return a plan with its loops rewritten."""
        steps = [self._step(s) if isinstance(s, LibraryCall) and s.bodies else s for s in plan.steps]
        return plan.replace(steps=tuple(steps))

    def _step(self, step: LibraryCall) -> LibraryCall:
        step = step.replace(bodies=tuple([(n, body.replace(plan=self.plan(body.plan))) for n, body in step.bodies]))
        layout = layout_of(step) if len(step.bodies) == 1 and _is_launches(step.bodies[0][1]) else None
        if layout is None or not layout.stays:
            return step
        launches: Any = layout.body.plan.steps
        counted = [self._counted(launch, layout.counter) for launch in launches]
        if None in counted or any(map(self._is_chained, launches)):
            return step
        pairs = self._pairs(layout, launches)
        kept = {launches[j].buffers[a][0] for j in range(len(launches)) for a, _ in pairs[j]}
        motions = layout.motions(kept | layout.unread())
        if layout.length is None and any(motion.turns for motion in motions.values()):
            return step
        swept = tuple([
            self._launch(s, motions, Sweep(p, (), c or ()), layout.length or 0)
            for s, p, c in zip(launches, pairs, counted, strict=True)
        ])
        body = layout.body.replace(plan=layout.body.plan.replace(steps=swept))
        return step.replace(bodies=(("body", body),))

    def _counted(self, launch: KernelCall, counter: int | None) -> tuple[int, ...] | None:
        """Return the operands of a launch that are the iteration number; None if they are not read as plain numbers."""
        form = self.forms[launch.kernel]
        found = tuple([o for o, (buffer, _) in enumerate(launch.buffers) if buffer == ("feed", counter)])
        loads = [access(i) for i in form.instructions if isinstance(i, Instr) and i.op == "load"]
        plain = all(form.operands[o].dtype == "int64" and not set(form.operands[o].strides) - {"0"} for o in found)
        return found if plain and not any(a.operand in found and (a.offset or a.mask) for a in loads) else None

    def _launch(self, launch: KernelCall, motions: Mapping[Any, Motion], sweep: Sweep, length: int) -> KernelCall:
        """Return a launch of the form with a loop over iterations; fills in the steps of `sweep`."""
        form, read = self.forms[launch.kernel], {a for a, _ in sweep.carried}
        moved = [
            motions.get(buffer, _CONSTANT if buffer[0] == "const" else _WRITTEN) for buffer, _ in launch.buffers
        ]
        moved = [_CONSTANT if o in read else m for o, m in enumerate(moved)]
        # arrays of equal extents have equal steps by chance: the form must not depend on that
        steps = list(dict.fromkeys((m.operand, m.step) for m in moved if m.step))
        sources = [steps.index((m.operand, m.step)) if m.step else None for m in moved]
        sweep = sweep._replace(steps=tuple(sources))
        stays = tuple([
            not (m.step or m.turns) and (m.fixed or operand.out)
            for m, operand in zip(moved, form.operands, strict=True)
        ])
        key = launch.kernel, stays, sweep
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.forms)
            self.forms.append(swept_form(form, stays, sweep))
        own = len(form.words.strides)
        words = (*launch.words[:own], *(step for _, step in steps), length, *launch.words[own:])
        return launch.replace(kernel=number, words=words, sweep=sweep.carried)

    # ------------------------------------------------------------------ what stays in registers
    def _pairs(self, layout: LoopLayout, launches: Sequence[KernelCall]) -> list[Pairs]:
        """Return for each launch the operands that it need not load, because it stored them one iteration before."""
        found: list[list[tuple[int, int]]] = [[] for _ in launches]
        for feed, value in layout.handed_on():
            touching = [
                (j, o) for j, launch in enumerate(launches)
                for o, (buffer, _) in enumerate(launch.buffers)
                if buffer == feed or (buffer == value and self._operand(launch, o).out)
            ]
            if len({j for j, _ in touching}) == 1:
                j = touching[0][0]
                found[j] += self._kept(launches[j], feed, value)
        return [tuple(sorted(pairs)) for pairs in found]

    def _is_chained(self, launch: KernelCall) -> bool:
        form = self.forms[launch.kernel]
        return bool(form.contracted) or form.then is not None

    def _operand(self, launch: KernelCall, o: int) -> Any:
        return self.forms[launch.kernel].operands[o]

    def _kept(self, launch: KernelCall, feed: Any, value: Any) -> Pairs:
        """Return the pairs of a launch that reads a number and writes the next one; none if it is no single number."""
        form = self.forms[launch.kernel]
        reads = [o for o, (buffer, _) in enumerate(launch.buffers) if buffer == feed]
        writes = [o for o, (buffer, _) in enumerate(launch.buffers) if buffer == value]
        if any(axis.extent != 1 for axis in form.grid) or len(writes) != 1 or not form.operands[writes[0]].out:
            return ()
        touching = {*reads, *writes}
        if any(launch.buffers[o][1] or set(form.operands[o].strides) - {"0"} for o in touching):
            return ()
        stores = 0
        for number, instr in enumerate(form.instructions):
            if not isinstance(instr, Instr) or instr.op not in ("load", "store"):
                continue
            if access(instr).operand not in touching:
                continue
            info = analysis_of(form).info[instr.args[0] if instr.op == "store" else number]
            if access(instr).offset or access(instr).mask or not info.uniform or info.scope >= POINT:
                return ()
            stores += instr.op == "store"
        return tuple([(o, writes[0]) for o in reads]) if stores == 1 else ()


def swept_form(form: KernelForm, stays: Sequence[bool], sweep: Sweep) -> KernelForm:
    """Return a form with one more axis, before all others, that counts iterations.

    `stays` says of each operand whether its address is fixed. A fixed operand that is read is not written in the loop.
    """
    operands = [o._replace(strides=("0" if s else "n", *o.strides)) for o, s in zip(form.operands, stays, strict=True)]
    stages = [
        stage._replace(body=tuple([i._replace(imm=i.imm + 1) if i.op == "index" else i for i in stage.body]))
        for stage in form.stages
    ]
    return form.replace(
        grid=(KernelAxis(None), *form.grid), lane_axis=form.lane_axis + 1, operands=tuple(operands),
        stages=tuple(stages), sweep=sweep,
    )


def _is_launches(body: BodyPlan) -> bool:
    """Return whether a body consists of launches without scratch."""
    return all(isinstance(s, KernelCall) and not s.scratch for s in body.plan.steps)


# ---------------------------------------------------------------------- plans within plans
def _kernels(plan: CallPlan) -> Iterator[int]:
    for step in (*plan.steps, *plan.commits):
        if isinstance(step, KernelCall):
            yield step.kernel
        else:
            for _, body in step.bodies:
                yield from _kernels(body.plan)


def _renumbered(plan: CallPlan, numbers: Mapping[int, int]) -> CallPlan:
    """Return the plan with its kernels renumbered."""

    def changed(step: Any) -> Any:
        if isinstance(step, KernelCall):
            return step.replace(kernel=numbers[step.kernel])
        if not step.bodies:
            return step
        bodies = tuple([(name, body.replace(plan=_renumbered(body.plan, numbers))) for name, body in step.bodies])
        return step.replace(bodies=bodies)

    return plan.replace(steps=tuple(map(changed, plan.steps)), commits=tuple(map(changed, plan.commits)))
