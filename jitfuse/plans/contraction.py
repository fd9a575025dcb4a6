"""Describe a matmul step as a contraction: its dtypes, and where its operands are read.

Owns which steps jitfuse's own kernels can compute, and the index maps of both sides. Does not own whether they should
(`jitfuse.plans.policy`), the fusion of prologues and epilogues (`jitfuse.plans.groups`), or code.
"""
from __future__ import annotations

from typing import Final

from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, OpStep
from jitfuse.plans.frame import Frame, ValueKey
from jitfuse.plans.layout import ZERO, Lin, along

_SUMMED_IN: Final = {
    "float32": "float32", "float64": "float64", "float16": "float32", "bfloat16": "float32",
    "int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32",
    "int32": "int32", "int64": "int64", "uint32": "uint32", "uint64": "uint64",
}
MAX_SWEPT: Final = 1 << 14
"""The most elements of a row or column of a product that later stages of the same kernel sweep."""


def is_contraction(step: OpStep) -> bool:
    """Return whether a step is a contraction."""
    op = ops.get(step.op_name)
    assert op is not None
    return op.kind == ops.CONTRACTION


def summed_in(dtype: str) -> str | None:
    """Return the dtype in which own kernels sum products of a dtype; None if only a library computes them."""
    return _SUMMED_IN.get(dtype)


def contractible(program: FusedProgram) -> frozenset[int]:
    """Return the results of the steps that own contraction kernels can compute: matrices of supported dtypes."""
    return frozenset(
        s.result_id for s in program.steps
        if is_contraction(s) and summed_in(program.meta[s.result_id].dtype) is not None
        and all(program.meta[i].ndim >= 2 for i in s.input_ids)
    )


def contraction_frame(program: FusedProgram, step: OpStep) -> Frame:
    """Return the index space of a contraction's result: lanes run along its last axis, as along a row."""
    shape = program.meta[step.result_id].shape
    return Frame(shape, (len(shape) - 1,))


def products(program: FusedProgram, step: OpStep) -> int:
    """Return the extent of the contracted axis."""
    return program.meta[step.input_ids[0]].shape[-1]


def sides(program: FusedProgram, step: OpStep, frame: Frame) -> tuple[ValueKey, ValueKey]:
    """Return both operands under their index maps; the contracted axis follows the frame's."""
    out = program.meta[step.result_id].shape
    rank, contracted = len(out), along(len(out))
    keys = []
    for k, value in enumerate(step.input_ids):
        shape = program.meta[value].shape
        first = rank - len(shape)
        where: list[Lin] = [
            along(frame.position(first + a)) if n == out[first + a] else ZERO for a, n in enumerate(shape[:-2])
        ]
        own = along(frame.position(rank - 2 + k))
        where += [contracted, own] if k else [own, contracted]
        keys.append(ValueKey(value, tuple(where)))
    return keys[0], keys[1]
