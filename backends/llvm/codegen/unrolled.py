"""Unrolled stages: written at every point of a small inner space of static extents, without a loop.

Does not own loops over inner axes (`jitfuse.backends.llvm.codegen.column_loops`).
"""
from __future__ import annotations

import itertools
from collections.abc import Sequence

from jitfuse.backends.llvm.codegen.body import KernelBody
from jitfuse.backends.llvm.codegen.combine import Reduced, State
from jitfuse.backends.llvm.codegen.elements.types import i64
from jitfuse.backends.llvm.codegen.frame import VectorGroup
from jitfuse.backends.llvm.codegen.positions import parts
from jitfuse.ir.kernels.stages import Instr, Reduction


def unrolled(
    body: KernelBody, frame: VectorGroup, instructions: list[tuple[int, Instr]],
    reductions: Sequence[tuple[int, Reduction]]
) -> None:
    """Write a stage at every point of a small static inner space."""
    axes = body.analysis.inner_axes
    extents = [range(body.analysis.form.axes[a].extent or 1) for a in axes]
    reduced = parts(reductions)
    columns: list[list[State]] = [[] for _ in reduced]
    body.scans.begin(instructions, frame.count)
    for number, point in enumerate(itertools.product(*extents)):
        at = frame.at({a: i64(p) for a, p in zip(axes, point, strict=True)}, ())
        body.run(instructions, at)
        for p, column in zip(reduced, columns, strict=True):
            assert p.value is not None
            column.append(p.of_element(body.vectors(p.value, at), number))
    for p, column in zip(reduced, columns, strict=True):
        body.values[p.number] = p.finished(_fold(p, column))


def _fold(part: Reduced, column: list[State]) -> State:
    """Combine few elements, each of which is a virtual lane of its own."""
    while len(column) > 1:
        half = 1 << ((len(column) - 1).bit_length() - 1)
        joined = [part.merge(*pair) for pair in zip(column, column[half:], strict=False)]
        column = joined + column[len(joined) : half]
    return column[0]
