"""Bring a program down to primitive operators in explicit dtypes: decompose, then promote."""
from __future__ import annotations

from typing import Any, Final

from jitfuse.dtypes import integer_range, is_integer
from jitfuse.ir import ops
from jitfuse.ir.program import FusedProgram, Meta, OpStep, make_attrs
from jitfuse.passes.rewrite import ProgramBuilder, rewrite


def decompose(program: FusedProgram) -> FusedProgram:
    """Replace composite operators by what they are made of (the op table's decompositions), down to primitive ones."""

    delivered = set(program.outputs.values())

    def visit(builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
        op = ops.get(step.op_name)
        assert op is not None
        if op.decompose is None:
            return None
        operands = [builder.tensor(i) for i in inputs]
        new = int(op.decompose(*operands, **op.check_attrs(step.attr_dict)).id)
        # a result is laid out as the trace says: only a transpose of its own is delivered as a view
        return builder.step("copy", (new,), ()) if step.result_id in delivered and builder.is_transposed(new) else new

    while any(_is_composite(step) for step in program.steps):
        program = rewrite(program, visit)
        delivered = set(program.outputs.values())
    return program


def _is_composite(step: OpStep) -> bool:
    op = ops.get(step.op_name)
    return op is not None and op.decompose is not None


def promote(program: FusedProgram) -> FusedProgram:
    """Make every cast a step: each operand in its loop's dtype, no weak value but feeds and literals."""

    loops: dict[Any, tuple[str, ...]] = {}

    def visit(builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
        op = ops.get(step.op_name)
        assert op is not None
        # the old metas decide: a cast made here must not change what comes after
        metas = [program.meta[i] for i in step.input_ids]
        result = program.meta[step.result_id]
        if op.loop is not None:
            key = op.name, *[(m.dtype, m.weak) for m in metas]
            found = loops.get(key)
            if found is None:
                found = loops[key] = op.loop(op.name, metas).inputs
            wanted = found
            if step.op_name in COMPARISONS:
                wanted = _narrowest(program, step, wanted)
        elif step.op_name in ("concat", "update_slice", "mode_select"):
            wanted = (result.dtype,) * len(inputs)
        elif step.op_name in ("sum", "prod", "cumsum", "cumprod"):
            wanted = (result.dtype,)
        elif step.op_name in ("any", "all"):
            wanted = ("bool",)
        elif step.op_name in ("gather", "take_along_axis"):
            wanted = (result.dtype, *("int64",) * (len(inputs) - 1))
        else:
            return None
        cast = tuple([_cast(builder, i, dtype, result.weak) for i, dtype in zip(inputs, wanted, strict=True)])
        if cast == inputs and not result.weak:
            return builder.copied(step, inputs, (result,))
        strong = Meta(result.shape, result.dtype, result.device)
        return builder.step(step.op_name, cast, step.attrs, meta=strong)

    return rewrite(program, visit)


COMPARISONS: Final = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})


def _narrowest(program: FusedProgram, step: OpStep, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Compare an integer with a literal that its dtype holds in that dtype, where the rule must allow for any."""
    for literal, other in (step.input_ids, step.input_ids[::-1]):
        dtype, maker = program.meta[other].dtype, program.producers.get(literal)
        if program.meta[literal].weak and maker is not None and maker.op_name == "full" and is_integer(dtype):
            low, high = integer_range(dtype)
            if is_integer(program.meta[literal].dtype) and low <= maker.attr("value") <= high:
                return (dtype, dtype)
    return wanted


def _cast(builder: ProgramBuilder, value: int, dtype: str, strengthen: bool) -> int:
    meta = builder.meta[value]
    if meta.dtype == dtype and not (strengthen and meta.weak):
        return value
    if meta.weak and is_integer(meta.dtype) and dtype in ("float16", "float32"):
        # NumPy takes a Python int for a double first
        value = builder.step("astype", (value,), make_attrs({"dtype": "float64"}))
    return builder.step("astype", (value,), make_attrs({"dtype": dtype}))
