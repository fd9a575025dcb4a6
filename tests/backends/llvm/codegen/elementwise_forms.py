"""Kernels of one elementwise operator each, and the operators and dtypes that kernels hold."""
from __future__ import annotations

from harness import Builder

from jitfuse.dtypes import is_narrow
from jitfuse.errors import DTypeError
from jitfuse.ir.kernels.form import KernelForm, Operand
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta

DTYPES = ("float32", "float64", "int32", "int64", "bool")
COMPLEX = {"real", "imag", "conj", "make_complex"}
"""Operators that no kernel holds: complex arithmetic is written in real steps before."""


def elementwise_form(op: str, inputs: tuple[str, ...], result: str) -> KernelForm:
    b = Builder()
    args = [b.load(k, d) for k, d in enumerate(inputs)]
    b.store(len(inputs), result, b.add(op, result, *args, imm=2 if op == "require" else None))
    b.stage("map")
    operands = [Operand(d, ("1",)) for d in inputs] + [Operand(result, ("1",), True)]
    return b.form(1, 0, 0, operands)


def cases() -> list[tuple[str, tuple[str, ...], str]]:
    result = []
    for row in ops.table():
        if row.kind != ops.ELEMENTWISE or row.loop is None or row.decompose is not None or row.name in COMPLEX:
            continue
        seen = set()
        for dtype in DTYPES:
            try:
                loop = row.loop(row.name, [Meta((3,), dtype)] * row.arity)
            except DTypeError:
                continue
            if loop.inputs not in seen and not any(map(is_narrow, loop.inputs)):  # those reach kernels as float32
                seen.add(loop.inputs)
                result.append((row.name, loop.inputs, loop.result))
    return result
