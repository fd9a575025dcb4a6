"""Kernel forms as text for people. Does not own what they mean (`jitfuse.ir.kernels.form`) or their canonical bytes."""
from __future__ import annotations

from collections.abc import Sequence

from jitfuse.ir.kernels.form import KernelForm


def form_text(form: KernelForm) -> str:
    """Return the form as text for people: the index space, the operands, the stages line by line."""
    letters = [f"{c}{k}" for c, axes in zip("gic", (form.grid, form.inner, form.contracted)) for k in range(len(axes))]
    extents = [str(a.extent) if a.extent else "n" for a in form.axes]
    space = ", ".join(
        f"{name}<{n}{' lanes' if k == form.lane_axis else ''}" for k, (name, n) in enumerate(zip(letters, extents))
    )
    lines = [f"kernel over {space}"]
    if form.sweep is not None:
        moving = [f"#{k} by step {step}" for k, step in enumerate(form.sweep.steps) if step is not None]
        carried = [f"#{read} is #{written} of the one before" for read, written in form.sweep.carried]
        counted = [f"#{k} plus g0" for k in form.sweep.counted]
        lines.append(f"  g0 in order: {', '.join(moving + carried + counted)}")
    for k, o in enumerate(form.operands):
        lines.append(f"  {'out' if o.out else 'in '} #{k}: {o.dtype} strides {' '.join(o.strides)}")
    for stage, body, reductions in form.numbered:
        lines.append(f"  {stage.kind}")
        for number, i in body:
            imm = "" if i.imm is None else f" {i.imm}"
            lines.append(f"    v{number}: {i.dtype} = {i.op}{imm}({_listed(i.args)})")
        for number, r in reductions:
            lines.append(f"    v{number}: {r.result_dtype} = reduce {r.combine} {r.phase}({_listed(r.values)})")
        if (c := stage.contraction) is not None:
            lines.append(f"    row 0: {c.dtype} = {c.combine} of {c.multiply}(v{c.left}, v{c.right})")
    if form.then is not None:
        lines.append(f"then, where #{form.link[1]} is #{form.link[0]} in scratch, for the same rows:")
        lines.append(form_text(form.then))
    return "\n".join(lines)


def _listed(values: Sequence[int]) -> str:
    return ", ".join(f"v{a}" for a in values)
