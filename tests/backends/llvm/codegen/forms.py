"""Kernel forms that the tests of both backends run."""
from __future__ import annotations

from typing import Any

from evaluate import memory
from harness import Builder

from jitfuse.ir.kernels.form import KernelForm, Operand
from jitfuse.ir.kernels.stages import Reduction


def combined(views: list[Any], out: Any, lane_axis: int = -1, grid: int | None = None, kind: str = "map") -> KernelForm:
    """Return the form of out = (a * 2 - b) ... over views that have all the form's axes; `kind` is its stage's."""
    b = Builder()
    total = b.load(0, views[0].dtype.name)
    for k, v in enumerate(views[1:], 1):
        total = b.add("subtract", out.dtype.name, b.add("add", out.dtype.name, total, total),
                      b.add("astype", out.dtype.name, b.load(k, v.dtype.name)))
    b.store(len(views), out.dtype.name, total)
    b.stage(kind)
    operands = [memory(v).operand() for v in views] + [memory(out).operand(True)]
    return b.form(out.ndim if grid is None else grid, 0, lane_axis % out.ndim, operands)


def layer_norm_form(dtype: str) -> KernelForm:
    """Mean, deviation kept, sum of squares and a flag in one stage, weights of the columns, a point result."""
    b = Builder()
    n = b.add("param", dtype, imm=0)
    (total,) = b.stage("reduce", Reduction("sum", dtype, (b.load(0, dtype),)))
    mean = b.add("divide", dtype, total, n)
    b.store(3, dtype, mean)
    b.stage("point")
    d = b.add("subtract", dtype, b.load(0, dtype), mean)
    b.add("keep", dtype, d, imm=1)
    high = b.add("greater", "bool", d, b.add("const", dtype, imm=1))
    b.add("keep", "bool", high, imm=0)
    squares, some = b.stage(
        "reduce", Reduction("sum", dtype, (b.add("square", dtype, d),)), Reduction("any", "bool", (high,))
    )
    scale = b.add("sqrt", dtype, b.add("divide", dtype, squares, n))
    b.stage("point")
    y = b.add("multiply", dtype, b.add("divide", dtype, b.add("kept", dtype, imm=1), scale), b.load(1, dtype))
    chosen = b.add("logical_and", "bool", some, b.add("kept", "bool", imm=0))
    b.store(2, dtype, b.add("where", dtype, chosen, y, b.add("negative", dtype, y)))
    b.stage("map")
    operands = [
        Operand(dtype, ("n", "1")), Operand(dtype, ("0", "1")), Operand(dtype, ("n", "1"), True),
        Operand(dtype, ("1", "0"), True),
    ]
    return b.form(1, 1, 1, operands, (dtype,), ("bool", dtype))
