"""A kernel form as a WGSL compute shader.

Owns: the shader's frame: bindings, kernel arguments, positions of a grid point, the stages in order. Bindings of
group 0: the kernel arguments (uniform), the buffers of the operands, a buffer for each kept row.
"""
from __future__ import annotations

from collections.abc import Sequence

from jitfuse.backends.wgsl import library
from jitfuse.backends.wgsl.codegen import words
from jitfuse.backends.wgsl.codegen.analysis import ShaderAnalysis
from jitfuse.backends.wgsl.codegen.body import Numbered, ShaderBody
from jitfuse.backends.wgsl.codegen.contract import emit_contraction
from jitfuse.backends.wgsl.codegen.operators import UnknownOperatorError
from jitfuse.backends.wgsl.codegen.reduce import Reducer
from jitfuse.backends.wgsl.codegen.text import Text
from jitfuse.backends.wgsl.codegen.types import REGISTER, Facts, memory_type
from jitfuse.backends.wgsl.codegen.variant import POINTS, Variant
from jitfuse.base.records import NamedTuple
from jitfuse.ir.kernels.form import KernelForm
from jitfuse.ir.kernels.stages import POSITIONS, Reduction
from jitfuse.ir.kernels.sum_tree import CHUNK
from jitfuse.ir.kernels.values import needed

ENTRY = "main"


class Shader(NamedTuple):
    """The text, and for each binding after the kernel arguments whether kernels write it."""

    text: str
    writes: tuple[bool, ...]


def emit_shader(form: KernelForm, variant: Variant, facts: Facts) -> Shader:
    """Return a form as WGSL; raises UnknownOperatorError for an operator without WGSL version on this adapter."""
    if form.then is not None:
        raise UnknownOperatorError("a kernel that runs a second one, row by row, has no WGSL version")
    for operand in form.operands:
        if operand.dtype not in REGISTER:
            raise UnknownOperatorError(f"{operand.dtype} has no WGSL version")
    analysis = ShaderAnalysis(form)
    text = Text()
    body = ShaderBody(text, analysis, variant, facts)
    with text.block(
        f"@compute @workgroup_size({variant.group})\nfn {ENTRY}(@builtin(workgroup_id) at: vec3<u32>, "
        "@builtin(num_workgroups) all: vec3<u32>, @builtin(local_invocation_index) local: u32)"
    ):
        first, step = "at.x", "all.x"
        if variant.mode == POINTS:
            first, step = f"at.x * {variant.group}u + local", f"all.x * {variant.group}u"
        with text.block(f"for (var point = {first}; point < words[0].w; point += {step})"):
            _PointFrame(body, text).write()
    main = str(text)
    bindings, writes = _bindings(form, variant, form.words.count + len(body.host.words))
    pieces = [*bindings, *_shared(analysis, variant), library.fences(facts.rewrites)]
    functions = library.needed(main)
    if "_64(" in functions + main:
        pieces.append(library.fences_64(facts.rewrites))
    return Shader("\n".join([*pieces, functions, main, ""]), writes)


def _bindings(form: KernelForm, variant: Variant, count: int) -> tuple[list[str], tuple[bool, ...]]:
    lines = [f"@group(0) @binding(0) var<uniform> words: array<vec4<u32>, {words.vectors(count)}>;"]
    writes: list[bool] = []
    for o, operand in enumerate(form.operands):
        if variant.bindings[o] != len(writes):
            continue
        access = "read_write" if operand.out else "read"
        element = memory_type(operand.dtype, out=operand.out)
        lines.append(f"@group(0) @binding({len(writes) + 1}) var<storage, {access}> b{len(writes)}: array<{element}>;")
        writes.append(operand.out)
    for k, dtype in enumerate(form.keeps):
        element = "u32" if dtype == "bool" else REGISTER[dtype]
        lines.append(f"@group(0) @binding({len(writes) + 1}) var<storage, read_write> k{k}: array<{element}>;")
        writes.append(True)
    return lines, tuple(writes)


def _shared(analysis: ShaderAnalysis, variant: Variant) -> list[str]:
    if variant.mode == POINTS:
        return []
    reductions = [r for _, _, some in analysis.form.numbered for _, r in some]
    types = {"u32" if r.dtype == "bool" else REGISTER[r.dtype] for r in reductions}
    lines = [f"var<workgroup> shared_{t}: array<{t}, {variant.group}>;" for t in sorted(types)]
    if any(r.combine in POSITIONS for r in reductions):
        lines.append(f"var<workgroup> shared_places: array<u32, {variant.group}>;")
    return lines


class _PointFrame:
    """The code of one grid point."""

    def __init__(self, body: ShaderBody, text: Text) -> None:
        self.body, self.text = body, text
        self.form, self.variant = body.form, body.variant
        self.first, self.count = "0u", "words[0].z"

    def write(self) -> None:
        self._positions()
        self._addresses()
        if "partial" in self.body.analysis.phases:
            chunk = self.body.positions[len(self.form.grid) - 1]
            self.text.line(f"let first = {chunk} * {CHUNK}u;")
            self.text.line(f"let count = min(words[0].z - first, {CHUNK}u);")
            self.first, self.count = "first", "count"
        stages = self.body.analysis.form.numbered
        for k, (stage, instructions, reductions) in enumerate(stages):
            if stage.contraction is not None:
                self._hoisted(instructions)
                emit_contraction(self.body, instructions, stage.contraction, self._enter, self._loop("element"))
            elif not self.form.inner or stage.kind == "point":
                self._point_stage(instructions)
            elif stage.kind == "scan":
                self._hoisted(instructions)
                self._scan(instructions, reductions)
            elif reductions:
                self._hoisted(instructions)
                Reducer(self.body, self._enter, self.first, self.count).reduce(instructions, reductions, effects=True)
            else:
                self._map(instructions)
            if self.form.keeps and self.variant.mode != POINTS and k + 1 < len(stages):
                self.text.line("storageBarrier();")

    # ------------------------------------------------------------------ where we are
    def _positions(self) -> None:
        """Decode the grid point: the last axis is the fastest."""
        rest = "point"
        for axis in reversed(range(len(self.form.grid))):
            name = f"g{axis}"
            if axis == 0:
                self.text.line(f"let {name} = {rest};")
            else:
                extent = self.body.words.extent(axis)
                self.text.line(f"let {name} = {rest} % {extent};")
                following = self.text.fresh("rest")
                self.text.line(f"let {following} = {rest} / {extent};")
                rest = following
            self.body.positions[axis] = name

    def _addresses(self) -> None:
        """Compute strides, and the address of each operand at the grid point."""
        form, table = self.form, self.body.words
        for o, a in form.words.strides:
            if o not in self.variant.inline:
                self.text.line(f"let s{o}_{a} = {table.word(form.words.stride(o, a))};")
        for o, operand in enumerate(form.operands):
            if o in self.variant.inline:
                continue
            terms = [table.word(o)]
            for a in range(len(form.grid)):
                if operand.strides[a] != "0":
                    terms.append(f"{self.body.positions[a]} * {self.body.stride(o, a)}")
            self.text.line(f"let a{o} = {' + '.join(terms)};")

    def _enter(self, element: str) -> None:
        """Set the inner positions to an element of the row, in row-major order."""
        form, body, text = self.form, self.body, self.text
        rest = text.fresh("e")
        text.line(f"let {rest} = {element};")
        body.element = rest
        axes = range(len(form.grid), len(form.grid) + len(form.inner))
        for axis in reversed(axes):
            if axis == axes[0]:
                body.positions[axis] = rest
                continue
            extent = body.words.extent(axis)
            name, following = text.fresh("i"), text.fresh("e")
            text.line(f"let {name} = {rest} % {extent};")
            text.line(f"let {following} = {rest} / {extent};")
            body.positions[axis] = name
            rest = following

    # ------------------------------------------------------------------ stages
    def _point_stage(self, instructions: Numbered) -> None:
        """Write a stage without a loop: every invocation computes, and the first one of a workgroup stores."""
        effects = [(n, i) for n, i in instructions if i.op == "store"]
        others = [(n, i) for n, i in instructions if i.op != "store"]
        if self.variant.mode == POINTS or not effects:
            self.body.hoist(instructions)
            return
        self.body.hoist(others)
        with self.text.block("if (local == 0u)"):
            self.body.hoist(effects)

    def _hoisted(self, instructions: Numbered) -> None:
        self._point_stage([(n, i) for n, i in instructions if self.body.analysis.levels[n] == 0])

    def _map(self, instructions: Numbered) -> None:
        self._hoisted(instructions)
        at = self.text.fresh("element")
        with self.text.block(self._loop(at)):
            self._enter(at)
            self.body.run(instructions)

    def _loop(self, at: str) -> str:
        """Return the head of a loop over this invocation's elements of the row."""
        start, step = ("0u", "1u") if self.variant.mode == POINTS else ("local", f"{self.variant.group}u")
        return f"for (var {at} = {start}; {at} < words[0].z; {at} += {step})"

    def _scan(self, instructions: Numbered, reductions: Sequence[tuple[int, Reduction]]) -> None:
        """Write a loop over the row in order; then the reductions, which may not read scans here."""
        body = self.body
        scans = [(n, i) for n, i in instructions if i.op == "scan"]
        read = needed(body.analysis.form, [v for _, r in reductions for v in r.values])
        if any(n in read for n, _ in scans):
            raise UnknownOperatorError("a reduction of a scan in the same pass has no WGSL version")
        for number, _ in scans:
            body.open_scan(number)
        at = self.text.fresh("element")
        with self.text.block(self._loop(at)):
            self._enter(at)
            body.run(instructions)
        if reductions:
            others = [(n, i) for n, i in instructions if n in read]
            Reducer(body, self._enter, self.first, self.count).reduce(others, reductions, effects=False)
