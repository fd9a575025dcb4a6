"""Write scatters at few indices as updates of one block each, or as selects among all elements.

Kernels fuse both; the host runs all other scatters."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from jitfuse.ir.program import FusedProgram, OpStep
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.program_builder import BuilderTensor, ProgramBuilder, rewrite

FEW: Final = 4
"""Up to this many indices, selects cost less than the host's scatter, which also copies the array."""


def write_few(program: FusedProgram) -> FusedProgram:
    """Replace `scatter` at few indices by steps in order, so that the last value at an index wins.

    If the indices are those of the first axes, a block of the last axes is updated, which can be done in place.
    """
    if "scatter" not in program.op_names:
        return program

    def visit(builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
        if step.op_name != "scatter" or step.attr("combine") != "set":
            return None
        x, value, *indices = (builder.tensor(i) for i in inputs)
        common = shape_rules.broadcast("scatter", [i.shape for i in indices])
        if 0 in x.shape:  # a kernel without elements checks no index
            return None
        if not x.ndim or value.dtype != x.dtype or len(common) > 1 or not 1 <= math.prod(common) <= FEW:
            return None
        axes, place = step.attr("axes"), step.attr("place")
        value = value.reshape((*(1,) * (x.ndim - len(axes) + len(common) - value.ndim), *value.shape))
        for k in range(math.prod(common)):
            here = [_part(i, 0, k) if i.ndim else i for i in indices]
            new = _part(value, place, k) if common else value
            x = _updated(x, new, here) if axes == tuple(range(len(axes))) else _selected(x, new, here, axes)
        return int(x.id)

    return rewrite(program, visit)


def _updated(x: BuilderTensor, value: BuilderTensor, indices: Sequence[BuilderTensor]) -> BuilderTensor:
    """Return x with a block of its last axes replaced, at one index on each of the first axes."""
    block = x.shape[len(indices) :]
    if value.shape != block:
        value = value.call("broadcast_to", shape=block)
    made: BuilderTensor = x.call("update_at", value, _flat_index(x, indices))
    return made


def _part(x: BuilderTensor, axis: int, k: int) -> BuilderTensor:
    """Return the k-th part along an axis, which is dropped; for extent 1, the only part."""
    starts = tuple((k if n > 1 else 0) if a == axis else 0 for a, n in enumerate(x.shape))
    counts = tuple(1 if a == axis else n for a, n in enumerate(x.shape))
    part = x.call("slice", starts=starts, steps=(1,) * x.ndim, counts=counts)
    shape = tuple(n for a, n in enumerate(x.shape) if a != axis)
    made: BuilderTensor = part.call("reshape", shape=shape)
    return made


def _flat_index(x: BuilderTensor, indices: Sequence[BuilderTensor]) -> BuilderTensor:
    """Return the C-order position of an element."""
    flat = None
    for axis, index in enumerate(indices):
        at = _checked(x, axis, index)
        if flat is not None:
            extent = x.create("extent", value=x.shape[axis], dtype="int64", weak=False)
            at = flat.call("multiply", extent).call("add", at)
        flat = at
    assert flat is not None
    return flat


def _checked(x: BuilderTensor, axis: int, index: BuilderTensor) -> BuilderTensor:
    """Return an index along an axis, counted from 0; a gather from an arange of the axis checks it."""
    positions = x.create("arange", start=0, step=1, count=x.shape[axis], dtype="int64")
    lead = positions.call("reshape", shape=(*(1,) * axis, x.shape[axis]))
    made: BuilderTensor = lead.call("gather", index, axes=(axis,), place=axis).call("reshape", shape=())
    return made


def _selected(
    x: BuilderTensor, value: BuilderTensor, indices: Sequence[BuilderTensor], axes: tuple[int, ...]
) -> BuilderTensor:
    """Return x with a value at one index on each of some axes."""
    rest = iter(value.shape)
    value = value.call("reshape", shape=tuple(1 if a in axes else next(rest) for a in range(x.ndim)))
    chosen = None
    for axis, index in zip(axes, indices, strict=True):
        at = _checked(x, axis, index)
        positions = x.create("arange", start=0, step=1, count=x.shape[axis], dtype="int64")
        is_there = positions.call("reshape", shape=(x.shape[axis], *(1,) * (x.ndim - axis - 1))).call("equal", at)
        chosen = is_there if chosen is None else chosen.call("logical_and", is_there)
    assert chosen is not None
    made: BuilderTensor = chosen.call("where", value, x)
    return made
