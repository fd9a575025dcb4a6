"""How a launch is divided: units, blocks of the lane axis, scratch memory, an estimate of its time.

Owns: facts on which the code and its caller must agree; they depend on the form and the sizes alone.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from jitfuse.backends.llvm.codegen.analysis import POINT, ROW_BYTES, Analysis, analysis_of
from jitfuse.backends.llvm.codegen.elements.types import ITEMSIZE, is_tree
from jitfuse.ir.kernels.blocking import block_counts, chained, link_bytes, row_axis
from jitfuse.ir.kernels.form import KernelForm
from jitfuse.ir.kernels.stages import Instr, Reduction
from jitfuse.ir.kernels.sum_tree import CHUNK, CONTRACTION_BLOCK, SUM_DEPTH, sum_lanes
from jitfuse.ir.kernels.values import access

MAP_BLOCK: Final = 4096
LOOP_BLOCK: Final = 256
KEEP_BLOCK: Final = 64
CROSSING_BLOCK: Final = 16
ROW_PADDING: Final = 256
"""A kept row is rounded up to a multiple of so many elements, so that vectors past its end stay inside."""
SUB_ROW_BYTES: Final = 1008
"""Rows of a contraction's left operand that are packed at once, times the bytes of an element."""
SUB_LANE_BYTES: Final = 2048
"""Lanes of a contraction's right operand that are packed at once, times the bytes of an element."""


def crossing_axis(analysis: Analysis) -> int | None:
    """Return the grid axis along which an operand is adjacent that is strided along the lanes; None without one.

    Units then advance along this axis first, in short blocks of lanes, so that they reuse the cache lines that
    earlier units have loaded.
    """
    form = analysis.form
    if not analysis.lanes_on_grid or form.inner:
        return None
    for operand in form.operands:
        if operand.strides[form.lane_axis] == "n" and "1" in operand.strides:
            return operand.strides.index("1")
    return None


def unit_order(analysis: Analysis) -> tuple[int, ...]:
    """Return the grid axes in the order in which units count them, the fastest last."""
    last = crossing_axis(analysis)
    axes = range(len(analysis.form.grid))
    return tuple(axes) if last is None else (*(a for a in axes if a != last), last)


def block(analysis: Analysis) -> int:
    """Return how many elements of the lane axis one unit covers: a power of two."""
    if crossing_axis(analysis) is not None:
        return CROSSING_BLOCK
    if analysis.loops_inside:
        return KEEP_BLOCK if analysis.form.keeps else LOOP_BLOCK
    return MAP_BLOCK


def tree_sums(analysis: Analysis) -> int:
    """Return the most sums and products of floats that one stage has."""
    return max(
        (sum(_components(r) for r in s.reductions if is_tree(r.combine, r.dtype)) for s in analysis.form.stages),
        default=0,
    )


def _components(r: Reduction) -> int:
    return max(1, len(r.values))


def units(form: KernelForm, sizes: Sequence[int]) -> int:
    """Return the number of units of a launch; `sizes` are the extents of all axes, grid axes first."""
    if form.contracted:  # of a chain the first form decides
        batch = (n for a, n in enumerate(sizes[: len(form.grid)]) if a not in (row_axis(form), form.lane_axis))
        return math.prod(batch) * math.prod(block_counts(form, sizes))
    analysis = analysis_of(form)
    counts = list(sizes[: len(form.grid)])
    if analysis.lanes_on_grid:
        counts[form.lane_axis] = -(-counts[form.lane_axis] // block(analysis))
    return math.prod(counts)


def scratch_bytes(form: KernelForm, sizes: Sequence[int]) -> int:
    """Return the bytes of scratch that each thread needs for a launch."""
    if form.then is not None:
        first, second = chained(form, sizes)
        counts = block_counts(form, first)
        parts = _scratch_bytes(form.replace(then=None), first, counts), _scratch_bytes(form.then, second, counts)
        return link_bytes(form, first) + max(parts)
    return _scratch_bytes(form, sizes, block_counts(form, sizes) if form.contracted else (0, 0))


def _scratch_bytes(form: KernelForm, sizes: Sequence[int], counts: tuple[int, int]) -> int:
    analysis = analysis_of(form)
    before = _contraction_bytes(form, sizes, counts) if form.contracted else 0
    if analysis.unrolled:
        return 0
    inner = math.prod(sizes[len(form.grid) : len(form.grid) + len(form.inner)])
    kept = sum(ITEMSIZE[d] for d in form.keeps)
    if not analysis.lanes_on_grid:
        return before + -(-inner // ROW_PADDING) * ROW_PADDING * kept
    if not form.inner:
        return 0
    width = block(analysis)
    sums = tree_sums(analysis)
    points = min(inner, CHUNK) if analysis.partial else inner
    depth = 1 if analysis.has_phases and not analysis.partial else SUM_DEPTH * sum_lanes(8)
    levels = max(0, -(-points // depth) - 1).bit_length()
    return before + width * (kept * inner + ROW_BYTES * sums * (1 + levels))


def _contraction_bytes(form: KernelForm, sizes: Sequence[int], counts: tuple[int, int]) -> int:
    """Return the bytes of scratch of a contraction: the block of sums, panels of both sides, lines of one panel.

    Blocks are whole tiles: tiles have at most 14 rows of 128 bytes.
    """
    contraction = form.contraction
    assert contraction is not None
    size = ITEMSIZE[contraction.dtype]
    row_blocks, lane_blocks = counts
    rows = -(-sizes[row_axis(form)] // row_blocks) + 13
    lanes = -(-sizes[form.lane_axis] // lane_blocks) + 128 // size
    depth = min(CONTRACTION_BLOCK, -(-sizes[-1] // 16) * 16)
    part_rows, part_lanes = min(rows, SUB_ROW_BYTES // size), min(lanes, SUB_LANE_BYTES // size)
    elements = rows * lanes + (part_rows + part_lanes) * depth + 128 // size * CONTRACTION_BLOCK
    # a cache line after each part, one for alignment, and the bytes that a group of vectors reads past its row
    return elements * size + 4 * 128 + 4096


# picoseconds for each byte of an element: to move it, for a short instruction, for a long one, for a product
_MOVE, _PLAIN, _LONG, _PRODUCT = 12, 1.2, 64, 2.5
_POINT = 3_000
"""Picoseconds of a row, besides its elements."""


def cost_ns(form: KernelForm, sizes: Sequence[int]) -> int:
    """Return a rough estimate of a launch's time on one thread, in nanoseconds."""
    if form.then is not None:
        first, second = chained(form, sizes)
        return cost_ns(form.replace(then=None), first) + cost_ns(form.then, second)
    analysis = analysis_of(form)
    points = math.prod(sizes[: len(form.grid)])
    inner = math.prod(sizes[len(form.grid) : len(form.grid) + len(form.inner)])
    if analysis.partial:
        points = math.prod(sizes[: len(form.grid) - 1])
    once, many = (0.0 if analysis.lanes_on_grid else _POINT), 0.0
    for stage, body, _ in analysis.form.numbered:
        if stage.contraction is not None:
            many += _PRODUCT * ITEMSIZE[stage.contraction.dtype] * sizes[-1]
            continue
        picoseconds = sum(_cost(analysis, i) for n, i in body if analysis.info[n].scope >= POINT)
        picoseconds += sum(_PLAIN * ITEMSIZE[r.dtype] for r in stage.reductions)
        if stage.kind == "point":
            once += picoseconds
        else:
            many += picoseconds
    return int(points * (once + inner * many)) // 1000 + 50


def _cost(analysis: Analysis, instr: Instr) -> float:
    if instr.op == "store":
        return _MOVE * ITEMSIZE[instr.dtype] * analysis.form.operands[access(instr).operand].cell
    if instr.op in ("load", "keep", "kept"):
        return _MOVE * ITEMSIZE[instr.dtype]
    return ITEMSIZE[instr.dtype] * (_LONG if analysis.is_long(instr) else _PLAIN)
