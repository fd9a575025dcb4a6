"""Kernels whose lanes lie on a grid axis: maps, and reductions in which every lane reduces its own column.

Owns: the loop over a block of lanes, whole groups of vectors first, then the rest, and the order of its stages.
Does not own the loops over inner axes.
"""
from __future__ import annotations

from jitfuse.backends.llvm.codegen.analysis import POINT
from jitfuse.backends.llvm.codegen.body import KernelBody
from jitfuse.backends.llvm.codegen.column_addresses import Contracted
from jitfuse.backends.llvm.codegen.column_loops import ColumnVectors
from jitfuse.backends.llvm.codegen.elements.masks import rest_masks, tail_masks
from jitfuse.backends.llvm.codegen.elements.types import i64
from jitfuse.backends.llvm.codegen.frame import VectorGroup
from jitfuse.backends.llvm.codegen.layout import block
from jitfuse.backends.llvm.codegen.pads import Pads
from jitfuse.backends.llvm.codegen.positions import parts
from jitfuse.backends.llvm.codegen.unrolled import unrolled
from jitfuse.backends.llvm.text.builder import Value


def emit_block(
    body: KernelBody, unit: VectorGroup, start: Value, stop: Value, scratch: Value, vector_bytes: int,
    contracted: Contracted | None = None,
) -> None:
    """Write the loops over the lanes from `start` to `stop`: all stages, first in groups, then masked.

    `contracted`: where a contraction stored row 0.
    """
    f, lanes = body.f, body.lanes
    if body.analysis.single:
        _stages(body, unit.group(1, start), scratch, contracted)
        return
    vectors = max(1, min(body.analysis.vectors(vector_bytes), block(body.analysis) // lanes))
    step = lanes * vectors
    if body.analysis.pads:
        _padded(body, unit, start, stop, vectors, vector_bytes)
        return
    whole = start
    if not body.analysis.masked_only:
        whole = f.add(start, f.mul(f.udiv(f.sub(stop, start), i64(step)), i64(step)))
        with f.loop(start, whole, step) as loop:
            instructions = [one for _, part, _ in body.analysis.form.numbered for one in part]
            body.split_at_bounds(
                instructions, lambda group: _stages(body, group, scratch, contracted), unit.group(vectors, loop.index))
    few = body.analysis.tail_vectors(vectors)
    with f.loop(whole, stop, few * lanes) as loop:
        masks = tail_masks(f, loop.index, stop, lanes, few, vector_bytes)
        _stages(body, unit.group(few, loop.index, masks), scratch, contracted)


def _padded(body: KernelBody, unit: VectorGroup, start: Value, stop: Value, vectors: int, vector_bytes: int) -> None:
    """Write one loop that runs twice: over the whole groups, then over the rest in pads.

    Without a rest the masked copies to and from the pads have no active lanes. They then use the address of the
    first element, which is mapped.
    """
    f, step = body.f, i64(body.lanes * vectors)
    end = f.add(start, f.mul(f.udiv(f.sub(stop, start), step), step))
    start_at = f.select(f.icmp("slt", end, stop), end, start)
    pads = Pads(body, unit, end, rest_masks(f, f.sub(stop, end), body.lanes, vectors, vector_bytes))
    pads.fill(start_at)
    with f.loop(i64(0), i64(2)) as passes:
        whole = f.icmp("eq", passes.index, i64(0))
        streams = {o: f.and_(past, whole) for o, past in unit.streams.items()}
        there = unit.replace(pointers=pads.pointers(whole), streams=streams)
        with f.loop(f.select(whole, start, end), f.select(whole, end, stop), step) as loop:
            _stages(body, there.group(vectors, loop.index), i64(0), None)
    pads.deliver(start_at)


def _stages(body: KernelBody, frame: VectorGroup, scratch: Value, contracted: Contracted | None) -> None:
    analysis = body.analysis
    if analysis.form.inner:
        frame = frame.prepare()
    columns = ColumnVectors(body, frame, scratch, contracted) if analysis.loops_inside else None
    for stage, instructions, reductions in analysis.form.numbered:
        if stage.kind == "point" or not analysis.form.inner:
            body.run_point(instructions, frame)
            continue
        if stage.contraction is not None:
            assert contracted is not None
            body.hoist(contracted.before, POINT, frame)
            continue
        body.hoist(instructions, POINT, frame)
        if columns is None:
            unrolled(body, frame, instructions, reductions)
        elif reductions:
            columns.reduce(instructions, parts(reductions))
        else:
            columns.map(instructions)
