"""Fold, share and simplify: rewrites that keep every IEEE result, bit for bit."""
from __future__ import annotations

from typing import Any

import numpy as np

from jitfuse.base.later import Later
from jitfuse.dtypes import is_narrow, kind, numpy_dtype
from jitfuse.ir.kernels.stages import POSITIONS
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, OpStep, make_attrs
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.program_builder import ProgramBuilder, rewrite

known_indices = Later("jitfuse.passes.array.known_indices")


def share(program: FusedProgram) -> FusedProgram:
    """Compute equal steps once (common subexpressions)."""
    return rewrite(program, share=True)


def fold_constants(program: FusedProgram) -> FusedProgram:
    """Compute operations over scalar literals at compile time, by the operators' NumPy references."""
    numbers = {s.result_id for s in program.steps if s.op_name == "full" and not program.meta[s.result_id].shape}
    if not any(s.input_ids and numbers.issuperset(s.input_ids) for s in program.steps):
        return program
    literals: dict[int, Any] = {}

    def visit(builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
        meta = program.meta[step.result_id]
        if meta.shape:
            return None
        if step.op_name == "full":
            new = builder.copied(step, inputs, [meta])
            literals[new] = np.asarray(step.attr("value")).astype(numpy_dtype(meta.dtype))[()]
            return new
        op = ops.get(step.op_name)
        assert op is not None
        if op.kind != ops.ELEMENTWISE or not all(i in literals for i in inputs):
            return None
        with np.errstate(all="ignore"):
            try:
                value = np.asarray(op.numpy(*(literals[i] for i in inputs), **step.attr_dict))
            except ValueError:  # an integer to a negative power: the kernel raises
                return None
        literal_ = value.astype(numpy_dtype(meta.dtype))[()]
        new = literal(builder, literal_.item(), meta.dtype)
        literals[new] = literal_
        return new

    return rewrite(program, visit)


def literal(builder: ProgramBuilder, value: Any, dtype: str) -> int:
    """Append a strong scalar literal."""
    attrs = make_attrs({"shape": (), "value": value, "dtype": dtype, "weak": False})
    return builder.step("full", (), attrs)


def own_results(program: FusedProgram) -> FusedProgram:
    """Copy values that are delivered twice, and delivered feeds and literals, so that every result owns its memory."""
    made = {r for s in program.steps for r in s.result_ids if s.op_name != "constant"}
    results = list(program.outputs.values())
    if made.issuperset([*results, *program.writes.values(), *program.state_out.values()]) and (
        len(set(results)) == len(results)
    ):
        return program
    builder = ProgramBuilder(program)
    for step in program.steps:
        builder.source = program.sources.get(step.step_id)
        builder.copied(step, step.input_ids, None)
    builder.source = None
    taken: set[int] = set()

    def owned(value: int) -> int:
        if value in made and value not in taken:
            taken.add(value)
            return value
        return builder.step("copy", (value,), ())

    outputs = {path: owned(v) for path, v in program.outputs.items()}
    writes = {feed: v if v in made else owned(v) for feed, v in program.writes.items()}
    state_out = {feed: v if v in made else owned(v) for feed, v in program.state_out.items()}
    return builder.finish({}, outputs=outputs, writes=writes, state_out=state_out)


def simplify(program: FusedProgram) -> FusedProgram:
    """Remove steps that change nothing, merge runs of views, and merge products of single rows with one matrix.

    x**2 is x*x, exactly; x*1, x/1, x-0 and x**1 are x in IEEE arithmetic (x+0 is not: -0.0 + 0.0 is 0.0). Also removed:
    casts to the same dtype, views that keep every element in place, reductions over no axis (except for the zero at
    which sums begin), reshapes of reshapes and transposes of transposes. A product has the same bits for any number of
    rows. A power without elements is not computed: kernels check an exponent that all elements share before their
    loops.
    """
    return rewrite(program, _simpler)


_NEUTRAL = {"multiply": (1.0, True), "divide": (1.0, False), "subtract": (0.0, False), "power": (1.0, False)}
_REDUCTIONS = ("sum", "prod", "min", "max", "any", "all")


def _simpler(builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
    name, makers = step.op_name, builder.makers
    if name == "power" and 0 in builder.old.meta[step.result_id].shape:
        empty = builder.old.meta[step.result_id]  # no element, and none whose exponent could end the call
        attrs = {"shape": empty.shape, "value": 0, "dtype": empty.dtype, "weak": False}
        return builder.step("full", (), make_attrs(attrs))
    if name == "power" and _is_literal(makers.get(inputs[1]), 2):
        result = builder.old.meta[step.result_id]
        same = builder.meta[inputs[0]].shape == result.shape
        return builder.step("multiply", (inputs[0], inputs[0]), (), meta=result) if same else None
    if name in _NEUTRAL:
        neutral, commutes = _NEUTRAL[name]
        for k in (1, 0) if commutes else (1,):
            maker = makers.get(inputs[k])
            other = inputs[1 - k]
            if (
                _is_literal(maker, neutral)
                and builder.meta[other].shape == _shape(builder, inputs)
                and not builder.meta[other].weak
            ):
                return other
        return None
    if name == "matmul":
        return _rows_together(builder, inputs)
    if name == "gather":
        return known_indices.read_at_known(builder, step, inputs)
    if name == "update_at":
        return known_indices.written_at_known(builder, inputs)
    if len(inputs) != 1:
        return None
    (x,) = inputs
    meta = builder.meta[x]
    if name in _REDUCTIONS:
        if shape_rules.normalize_axes(name, step.attr("axis"), meta.ndim):
            return None
        adds = name == "sum" and kind(meta.dtype) == "float"  # sums begin at 0.0, to which -0.0 adds nothing
        return builder.step("add", (x, literal(builder, 0.0, meta.dtype)), (), meta=meta) if adds else x
    if name in POSITIONS and not meta.shape:
        return literal(builder, 0, "int64")
    if name == "astype":
        maker = makers.get(x)
        if maker is not None and maker.op_name == "astype" and meta.dtype == "float32":
            source = maker.input_ids[0]  # an unneeded widening, such as of an element that is only moved
            if builder.meta[source].dtype == step.attr("dtype") and is_narrow(step.attr("dtype")):
                return source
        return x if step.attr("dtype") == meta.dtype and not meta.weak else None
    if name == "reshape":
        return _merged_reshape(builder, step, x)
    if name == "transpose":
        axes = step.attr("axes")
        inner = makers.get(x)
        if inner is not None and inner.op_name == "transpose":
            axes = tuple(inner.attr("axes")[a] for a in axes)
            x = inner.input_ids[0]
        if axes == tuple(range(len(axes))):
            return x
        return None if x == inputs[0] else builder.step("transpose", (x,), make_attrs({"axes": axes}))
    if name == "broadcast_to":
        return x if step.attr("shape") == meta.shape else None
    if name == "slice":
        whole = step.attr("counts") == meta.shape and all(s == 1 for s in step.attr("steps"))
        return x if whole else known_indices.picked(builder, step, x)
    return None


def _rows_together(builder: ProgramBuilder, inputs: tuple[int, ...]) -> int | None:
    """Return a stack of products of single rows with one matrix as one product of matrices.

    Products are blocked by rows: separately, each row would go over the whole matrix.
    """
    rows, matrix = inputs
    shape, columns = builder.meta[rows].shape, builder.meta[matrix].shape
    if len(shape) < 3 or shape[-2] != 1 or len(columns) != 2:
        return None
    before = shape[:-1]
    while len(before) > 1 and before[-1] == 1:
        before = before[:-1]
    product = builder.step("matmul", (builder.reshaped(rows, (*before, shape[-1])), matrix), ())
    return builder.step("reshape", (product,), make_attrs({"shape": (*shape[:-1], columns[-1])}))


def _is_literal(maker: OpStep | None, value: float) -> bool:
    """Return whether a step makes this number (and not -0.0 for 0.0)."""
    if maker is None or maker.op_name != "full":
        return False
    given = maker.attr("value")
    return bool(given == value) and not (value == 0 and str(given).startswith("-"))


def _shape(builder: ProgramBuilder, inputs: tuple[int, ...]) -> tuple[int, ...]:
    return np.broadcast_shapes(*(builder.meta[i].shape for i in inputs))


def _merged_reshape(builder: ProgramBuilder, step: OpStep, x: int) -> int | None:
    inner = builder.makers.get(x)
    merges = inner is not None and inner.op_name == "reshape"
    return builder.reshaped(x, step.attr("shape")) if merges or builder.meta[x].shape == step.attr("shape") else None
