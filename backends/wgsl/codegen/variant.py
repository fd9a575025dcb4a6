"""Variants: the choices in a kernel's code that depend on the launch, beside the form.

Owns: the mapping of the index space to invocations, the types of 64-bit integers, which operands share a binding
and which scalars are kernel arguments. Sizes matter only through fixed thresholds, so that a kernel has few variants.
"""
from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from jitfuse.backends.wgsl.codegen.analysis import ShaderAnalysis
from jitfuse.backends.wgsl.codegen.ranges import narrow_values
from jitfuse.backends.wgsl.codegen.types import is_packed
from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import itemsize
from jitfuse.ir.kernels.form import KernelForm

POINTS: Final = "points"
"""One invocation for each grid point, which loops over the inner elements."""
ROWS: Final = "rows"
"""One workgroup for each grid point."""

POINT_GROUP: Final = 128
SMALL_ROW_GROUP: Final = 64
ROW_GROUP: Final = 256
SHORT_ROW: Final = 32
"""The most inner elements for which one invocation computes a grid point."""
SMALL_ROW: Final = 512
"""The most inner elements for which a workgroup of 64 computes a grid point."""
MANY_POINTS: Final = 4096
"""Grid points from which on one invocation for each fills the device, if lanes lie along the grid."""


class Variant(NamedTuple):
    """One variant of the code of a form.

    mode       POINTS or ROWS
    group      invocations of a workgroup
    narrow     numbers of the int64 values that are computed in 32 bits
    inline     operands, inputs of one element, whose kernel argument is their value in place of their address
    bindings   for each operand, inline ones -1, the number of the buffer that holds it
    """

    mode: str
    group: int
    narrow: tuple[int, ...]
    inline: tuple[int, ...]
    bindings: tuple[int, ...]

    @property
    def buffers(self) -> int:
        """Return how many buffers are bound beside the kernel arguments and the kept rows."""
        return max(self.bindings, default=-1) + 1


def layout(form: KernelForm, sizes: Sequence[int]) -> tuple[str, int]:
    """Return (mode, invocations of a workgroup) for the extents of all axes."""
    if not form.inner:
        return POINTS, POINT_GROUP
    analysis = ShaderAnalysis(form)
    axes = len(form.grid) + len(form.inner)
    inner, points = math.prod(sizes[len(form.grid) : axes]), math.prod(sizes[: len(form.grid)])
    if analysis.phases - {"whole"}:
        return ROWS, ROW_GROUP
    if any(s.kind == "scan" for s in form.stages):
        return POINTS, POINT_GROUP
    if form.contracted and inner > 1:
        return ROWS, SMALL_ROW_GROUP
    on_grid = form.lane_axis < len(form.grid)
    if inner <= SHORT_ROW or (on_grid and points >= MANY_POINTS):
        return POINTS, POINT_GROUP
    return ROWS, SMALL_ROW_GROUP if inner <= SMALL_ROW else ROW_GROUP


def choose(
    form: KernelForm, sizes: Sequence[int], params: Sequence[int], buffers: Sequence[Hashable],
    scalars: Mapping[int, int],
) -> Variant:
    """Return the variant of a launch.

    `params` are the words of the scalar parameters, `buffers` the buffer of each operand (operands of one buffer
    share a binding), `scalars` the word of each operand that the host knows.
    """
    mode, group = layout(form, sizes)
    inline = tuple(sorted(o for o in scalars if _is_scalar(form, o)))
    known = {o: scalars[o] for o in inline}
    return Variant(mode, group, narrow_values(form, sizes, params, known), inline, _bindings(form, buffers, inline))


def _is_scalar(form: KernelForm, o: int) -> bool:
    operand = form.operands[o]
    offsets = any(i.op == "load" and i.imm[0] == o and i.imm[1] for s in form.stages for i in s.body)
    return not operand.out and not offsets and all(c == "0" for c in operand.strides)


def _bindings(form: KernelForm, buffers: Sequence[Hashable], inline: Sequence[int]) -> tuple[int, ...]:
    numbers: dict[Hashable, int] = {}
    result = []
    for o, (operand, buffer) in enumerate(zip(form.operands, buffers, strict=True)):
        if o in inline:
            result.append(-1)
            continue
        key = (buffer, operand.out, operand.dtype)
        result.append(numbers.setdefault(key, len(numbers)))
    return tuple(result)


def scratch_bytes(form: KernelForm, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the bytes of each kept row over all grid points; packed dtypes take a word for each element."""
    elements = math.prod(sizes[: len(form.grid) + len(form.inner)])
    return tuple(elements * (4 if is_packed(d) else itemsize(d)) for d in form.keeps)
