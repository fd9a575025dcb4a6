"""Lower a program of explicit dtypes to operations that kernels have.

16-bit floats are computed in float32, and every result is rounded, as in NumPy and ml_dtypes; moves and selects work on
their bits, and scans round at every element. Signed and unsigned 64-bit integers compare by sign first. Does not own
promotion (`lower_ops`) nor the casts themselves, which are the backends'.
"""
from __future__ import annotations

import math
from typing import Any, Final

from jitfuse.dtypes import is_narrow, numpy_dtype
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, Meta, OpStep, make_attrs
from jitfuse.tracing.program_builder import ProgramBuilder, rewrite

_ON_BITS: Final = frozenset({"where", "copy", "astype", "update_slice", "concat", "mode_select", "full", "zeros",
                           "nextafter", "cumsum", "cumprod"})
_FIRST_OF_EQUALS: Final = frozenset({"minimum", "maximum", "fmin", "fmax"})
"""Operators of which NumPy, for zeros of both signs, returns the first in float16, and the second elsewhere."""
_SWAPPED: Final = {
    "equal": "equal", "not_equal": "not_equal", "less": "greater", "less_equal": "greater_equal",
    "greater": "less", "greater_equal": "less_equal",
}
_TRUE_BELOW_ZERO: Final = frozenset({"not_equal", "less", "less_equal"})
"""Comparisons of a negative number with an unsigned one that are true."""


def widen_narrow_floats(program: FusedProgram) -> FusedProgram:
    """Compute operations on float16 and bfloat16 in float32, and round each result."""
    if not any(map(is_narrow, program.dtypes)):
        return program

    def visit(builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
        result = program.meta[step.result_id]
        op = ops.get(step.op_name)
        assert op is not None
        touched = [is_narrow(program.meta[i].dtype) for i in step.input_ids]
        if step.op_name == "arange" and is_narrow(result.dtype):
            return _cast(builder, _arange(builder, step, result.dtype), result.dtype)
        if op.kind not in (ops.ELEMENTWISE, ops.REDUCTION, ops.SCAN) or step.op_name in _ON_BITS or True not in touched:
            return None
        if step.op_name == "spacing":
            return _cast(builder, _spacing(builder, inputs[0]), result.dtype)
        if result.dtype == "float16" and step.op_name in _FIRST_OF_EQUALS:
            inputs = inputs[::-1]
        wide = [_cast(builder, i, "float32") if t else i for i, t in zip(inputs, touched, strict=True)]
        meta = Meta(result.shape, "float32", result.device) if is_narrow(result.dtype) else result
        new = builder.step(step.op_name, wide, step.attrs, meta=meta)
        if step.op_name == "sign" and result.dtype == "bfloat16":  # ml_dtypes gives -0.0 for -0.0
            zero = builder.step("full", (), make_attrs({"shape": (), "value": 0.0, "dtype": "float32", "weak": False}))
            new = builder.step("where", (builder.step("equal", (wide[0], zero), ()), wide[0], new), (), meta=meta)
        return _cast(builder, new, result.dtype)

    return rewrite(program, visit)


def _spacing(builder: ProgramBuilder, x: int) -> int:
    """Return the distance to the next number in float32: for float16 the next larger one, for bfloat16 away from 0."""
    dtype = builder.meta[x].dtype
    attrs = make_attrs({"shape": (), "value": math.inf, "dtype": "float32", "weak": False})
    target, wide = builder.step("full", (), attrs), _cast(builder, x, "float32")
    if dtype == "bfloat16":
        target = builder.step("copysign", (target, wide), ())
    following = builder.step("nextafter", (x, _cast(builder, target, dtype)), ())
    gap = builder.step("subtract", (_cast(builder, following, "float32"), wide), ())
    nan_at_infinity = builder.step("subtract", (wide, wide), ())
    return builder.step("add", (gap, nan_at_infinity), ())


def _cast(builder: ProgramBuilder, value: int, dtype: str) -> int:
    if builder.meta[value].dtype == dtype:
        return value
    return builder.step("astype", (value,), make_attrs({"dtype": dtype}))


def _arange(builder: ProgramBuilder, step: OpStep, dtype: str) -> int:
    """Return the float32 values with which NumPy fills a 16-bit arange: from the first two elements, rounded."""
    target = numpy_dtype(dtype)
    first, second = (float(target.type(v)) for v in (step.attr("start"), step.attr("start") + step.attr("step")))
    attrs: dict[str, Any] = {**step.attr_dict, "start": first, "step": second - first, "dtype": "float32"}
    return builder.step("arange", (), make_attrs(attrs))


def compare_by_sign(program: FusedProgram) -> FusedProgram:
    """Compare int64 with uint64 exactly: by the sign, then without it."""
    if not program.dtypes >= {"int64", "uint64"}:
        return program

    def visit(builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
        name = step.op_name
        if name not in _SWAPPED or {program.meta[i].dtype for i in step.input_ids} != {"int64", "uint64"}:
            return None
        signed, other = inputs
        if program.meta[step.input_ids[0]].dtype == "uint64":
            signed, other, name = other, signed, _SWAPPED[name]
        zero = builder.step("full", (), make_attrs({"shape": (), "value": 0, "dtype": "int64", "weak": False}))
        magnitude = builder.step(name, (_cast(builder, signed, "uint64"), other), ())
        if name in _TRUE_BELOW_ZERO:
            negative = builder.step("less", (signed, zero), ())
            return builder.step("logical_or", (negative, magnitude), ())
        positive = builder.step("greater_equal", (signed, zero), ())
        return builder.step("logical_and", (positive, magnitude), ())

    return rewrite(program, visit)
