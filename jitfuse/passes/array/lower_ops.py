"""Lower a program to primitive operators in explicit dtypes: decompose, then promote."""
from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from jitfuse.base.floats import exact_text
from jitfuse.dtypes import integer_range, is_integer
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, Meta, OpStep, make_attrs
from jitfuse.tracing.program_builder import ProgramBuilder, Recorded, rewrite


def decompose(program: FusedProgram) -> FusedProgram:
    """Replace composite operators by their decompositions (of the op table), down to primitive operators.

    A decomposition depends only on metas and attributes, so that it is recorded once and replayed for equal ones.
    """
    while any((op := ops.get(step.op_name)) is not None and op.decompose is not None for step in program.steps):
        program = rewrite(program, _Decomposing(set(program.outputs.values())))
    return program


class _Decomposing:
    """Decomposes the composite steps of one program, whose outputs are `delivered`."""

    def __init__(self, delivered: Collection[int]) -> None:
        self._delivered = delivered
        self._known: dict[Any, tuple[tuple[int, ...], Recorded]] = {}

    def __call__(self, builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
        op = ops.get(step.op_name)
        assert op is not None
        if op.decompose is None:
            return None
        metas = tuple([builder.meta[i] for i in inputs])
        key = op.name, exact_text(step.attrs), metas, tuple(map(inputs.index, inputs))
        known = self._known.get(key)
        if known is not None:
            new = builder.again(known[1], dict(zip(known[0], inputs)))
        else:
            made = builder.recorded(lambda: self._made(builder, op, step, inputs))
            if all(len(s.result_ids) == 1 for s in made.steps):
                self._known[key] = inputs, made
            new = made.result
        # the trace decides a result's layout: only its own transpose may be delivered as a view
        is_view = step.result_id in self._delivered and builder.is_transposed(new)
        return builder.step("copy", (new,), ()) if is_view else new

    @staticmethod
    def _made(builder: ProgramBuilder, op: ops.Op, step: OpStep, inputs: tuple[int, ...]) -> int:
        assert op.decompose is not None
        operands = [builder.tensor(i) for i in inputs]
        return int(op.decompose(*operands, **op.check_attrs(step.attr_dict)).id)


def promote(program: FusedProgram) -> FusedProgram:
    """Make every cast a step: each operand in its loop's dtype, no weak value except feeds and literals."""

    loops: dict[Any, tuple[str, ...]] = {}

    def visit(builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
        op = ops.get(step.op_name)
        assert op is not None
        # the old metas decide: a cast made here must not affect later steps
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
        elif step.op_name == "update_at":
            wanted = (result.dtype, result.dtype, "int64")
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
    """Compare an integer with a literal in the integer's dtype if that holds the literal; else return `wanted`."""
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
        # NumPy converts a Python int to a double first
        value = builder.step("astype", (value,), make_attrs({"dtype": "float64"}))
    return builder.step("astype", (value,), make_attrs({"dtype": dtype}))
