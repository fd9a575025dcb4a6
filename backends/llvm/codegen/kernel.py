"""A kernel form as an LLVM function: ``i64 name(ptr words, i64 begin, i64 end, ptr scratch)``.

Owns: the function's frame: the kernel arguments, values computed once, the loop over units. Does not own the
loops inside a unit (`columns`, `rows`).
"""
from __future__ import annotations

from jitfuse.backends.llvm.codegen.analysis import ENTRY, UNIT, Analysis
from jitfuse.backends.llvm.codegen.body import KernelBody
from jitfuse.backends.llvm.codegen.chain import emit_chain
from jitfuse.backends.llvm.codegen.columns import emit_block
from jitfuse.backends.llvm.codegen.elements.types import i64
from jitfuse.backends.llvm.codegen.frame import LoadedLaunch, VectorGroup, multiply
from jitfuse.backends.llvm.codegen.gemm import emit_contraction
from jitfuse.backends.llvm.codegen.layout import block, unit_order
from jitfuse.backends.llvm.codegen.odometer import Odometer, decode
from jitfuse.backends.llvm.codegen.rows import emit_point
from jitfuse.backends.llvm.codegen.stream import Streams
from jitfuse.backends.llvm.codegen.sweeps import IterationLoop
from jitfuse.backends.llvm.jit import KERNEL_ATTRIBUTES, Target
from jitfuse.backends.llvm.text.builder import Function, Module, Value
from jitfuse.ir.kernels.form import KernelForm


def emit_kernel(module: Module, name: str, form: KernelForm, target: Target) -> None:
    """Write a kernel form as a function of the module.

    The function runs the units from `begin` up to `end` (see `jitfuse.backends.llvm.codegen.layout.units`) and
    returns 0 or a status code. Its only effects are the stores to its outputs and to `scratch`.
    """
    if form.then is not None:
        emit_chain(module, name, form, target)
        return
    if form.contracted:
        emit_contraction(module, name, form, target)
        return
    analysis = Analysis(form)
    f = module.function(
        name, "i64", [("words", "ptr"), ("begin", "i64"), ("end", "i64"), ("scratch", "ptr")],
        attributes=KERNEL_ATTRIBUTES,
    )
    words, begin, end, scratch = f.args
    with f.if_(f.icmp("sge", begin, end), likely=False):
        f.ret(i64(0))
    launch = LoadedLaunch(f, analysis, words, analysis.lanes(target.vector_bytes))
    body = KernelBody(f, analysis, launch, target.has_fma)
    entry = VectorGroup(launch, 0, i64(0), dict(enumerate(launch.addresses)))
    for _, instructions, _ in analysis.form.numbered:
        body.hoist(instructions, ENTRY, entry)
    _units(f, body, begin, end, scratch, target.vector_bytes)
    f.ret(body.status())


def _units(f: Function, body: KernelBody, begin: Value, end: Value, scratch: Value, vector_bytes: int) -> None:
    launch, analysis = body.launch, body.analysis
    form = analysis.form
    counts = list(launch.extents[: len(form.grid)])
    size = block(analysis)
    if analysis.lanes_on_grid:
        extent, known = counts[form.lane_axis], form.axes[form.lane_axis].extent
        counts[form.lane_axis] = i64(1) if known else f.udiv(f.add(extent, i64(size - 1)), i64(size))
    streams = Streams(f, analysis, launch.flag())
    order = [a for a in unit_order(analysis) if counts[a].ref != "1"]
    still = {a: i64(0) for a in range(len(counts)) if a not in order}
    ordered = [counts[a] for a in order]
    first = decode(f, begin, ordered)
    sweep = None if form.sweep is None else IterationLoop(body, begin)
    with f.loop(begin, end) as loop:
        units = Odometer(f, loop, first, ordered)
        if sweep is not None:
            sweep.begin(loop, units.positions[order.index(0)])
        indices = {**still, **dict(zip(order, units.positions, strict=True))}
        _unit(f, body, dict(sorted(indices.items())), streams, scratch, vector_bytes)
        units.advance()
        if sweep is not None:
            sweep.advance(loop, len(ordered))
    streams.finish()


def _unit(
    f: Function, body: KernelBody, indices: dict[int, Value], streams: Streams, scratch: Value, vector_bytes: int
) -> None:
    launch, analysis = body.launch, body.analysis
    start = i64(0)
    if analysis.lanes_on_grid:
        start = multiply(f, indices.pop(analysis.form.lane_axis), i64(block(analysis)))
    pointers = list(launch.addresses)
    for o in range(len(pointers)):
        for axis, index in indices.items():
            pointers[o] = launch.moved(pointers[o], o, axis, index)
    unit = VectorGroup(launch, 0, i64(0), dict(enumerate(pointers)), indices=indices)
    if not analysis.lanes_on_grid:
        unit.streams = streams.of_unit(pointers, start)
        emit_point(body, unit, scratch, vector_bytes)
        return
    for _, instructions, _ in analysis.form.numbered:
        body.hoist(instructions, UNIT, unit)
    extent = launch.extents[analysis.form.lane_axis]
    stop = f.intrinsic("smin", "i64", f.add(start, i64(block(analysis))), extent)
    unit.streams = streams.of_unit(pointers, start)
    emit_block(body, unit, start, stop, scratch, vector_bytes)
