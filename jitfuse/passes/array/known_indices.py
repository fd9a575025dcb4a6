"""Rewrite reads and writes at indices known to the program: slices of joins, and literal indices.

`a[[k, p]] = a[[p, k]]` joins two indices, of which one is often a literal. Each moved row is then read and written
separately, and an access at a literal index becomes a slice.
"""
from __future__ import annotations

import numpy as np

from jitfuse.ir.program import OpStep, make_attrs
from jitfuse.tracing.program_builder import ProgramBuilder


def picked(builder: ProgramBuilder, step: OpStep, x: int) -> int | None:
    """Return a slice of a join, or of a gather at joined indices, as the piece or the read at one index that it
    selects.

    It applies to pieces of extent 1, which is a size class of its own; it depends on no other size.
    """
    maker = builder.makers.get(x)
    if maker is None or maker.op_name not in ("concat", "gather"):
        return None
    if maker.op_name == "concat":
        axis = maker.attr("axis") % len(builder.meta[x].shape)
    elif all(len(builder.meta[i].shape) == 1 for i in maker.input_ids[1:]):
        axis = maker.attr("place")
    else:
        return None
    starts, counts, steps = (step.attr(name) for name in ("starts", "counts", "steps"))
    if counts[axis] != 1:
        return None
    piece = (_joined if maker.op_name == "concat" else _read)(builder, maker, axis, starts[axis])
    if piece is None or (counts == builder.meta[piece].shape and all(s == 1 for s in steps)):
        return piece
    rest = tuple(0 if a == axis else start for a, start in enumerate(starts))
    return builder.step("slice", (piece,), make_attrs({"starts": rest, "counts": counts, "steps": steps}))


def _joined(builder: ProgramBuilder, concat: OpStep, axis: int, k: int) -> int | None:
    """Return the k-th piece of a join of pieces of extent 1."""
    parts = concat.input_ids
    if len(parts) < 2 or any(builder.meta[i].shape[axis] != 1 for i in parts):
        return None
    return parts[k]


def _read(builder: ProgramBuilder, gather: OpStep, axis: int, k: int) -> int | None:
    """Return what a gather reads at the k-th of its joined indices; the indices' axis then has extent 1."""
    source, *indices = gather.input_ids
    single = []
    for index in indices:
        join = builder.makers.get(index)
        if join is None or join.op_name != "concat":
            return None
        single.append(_joined(builder, join, 0, k))
    if None in single:
        return None
    inputs = source, *[i for i in single if i is not None]
    known = read_at_known(builder, gather, inputs)
    if known is not None:
        return known
    here, builder.source = builder.source, builder.source_of(gather.result_id)
    made = builder.step("gather", inputs, gather.attrs)
    builder.source = here
    return made


def read_at_known(builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
    """Return a gather at one index on each of some axes as a slice, if all are literals within bounds."""
    (x, *indices), axes = inputs, step.attr("axes")
    shape = builder.meta[x].shape
    known = [_literal(builder, index, shape[axis]) for axis, index in zip(axes, indices, strict=True)]
    if None in known:
        return None
    at = dict(zip(axes, known, strict=True))
    region = {
        "starts": tuple([at.get(axis, 0) for axis in range(len(shape))]),
        "counts": tuple([1 if axis in at else n for axis, n in enumerate(shape)]),
        "steps": (1,) * len(shape),
    }
    result = np.broadcast_shapes(*(builder.meta[i].shape for i in indices))
    rest = [n for axis, n in enumerate(shape) if axis not in at]
    maker = builder.makers.get(x)
    while maker is not None and maker.op_name == "reshape":
        maker = builder.makers.get(maker.input_ids[0])
    if maker is not None and maker.op_name == "arange" and not result and shape.count(1) >= len(shape) - 1:
        number = maker.attr("start") + maker.attr("step") * sum([place or 0 for place in known])
        attrs = {"shape": (), "value": number, "dtype": builder.meta[x].dtype, "weak": False}
        piece = builder.step("full", (), make_attrs(attrs))
    else:
        piece = builder.step("slice", (x,), make_attrs(region))
    place = step.attr("place")
    return builder.reshaped(piece, (*rest[:place], *result, *rest[place:]))


def written_at_known(builder: ProgramBuilder, inputs: tuple[int, ...]) -> int | None:
    """Return an update of the block at a literal index as an update of a region."""
    x, value, number_id = inputs
    shape, block = builder.meta[x].shape, builder.meta[value].shape
    lead = shape[: len(shape) - len(block)]
    number = _literal(builder, number_id, int(np.prod(lead)))
    if number is None:
        return None
    ones = (1,) * len(lead)
    region = {
        "starts": (*[int(i) for i in np.unravel_index(number, lead)], *(0,) * len(block)),
        "counts": (*ones, *block), "steps": (1,) * len(shape),
    }
    return builder.step("update_slice", (x, builder.reshaped(value, (*ones, *block))), make_attrs(region))


def _literal(builder: ProgramBuilder, value: int, extent: int) -> int | None:
    """Return a literal index, counted from 0; None if it is data, has several elements, or is out of bounds."""
    if any(n != 1 for n in builder.meta[value].shape):
        return None
    maker = builder.makers.get(value)
    while maker is not None and maker.op_name == "reshape":
        maker = builder.makers.get(maker.input_ids[0])
    if maker is None or maker.op_name != "full":
        return None
    number = int(maker.attr("value"))
    return number % extent if -extent <= number < extent else None
