"""Scans along rows and columns: NumPy's bits, with producers, consumers, reductions and kept rows beside them."""
from __future__ import annotations

import itertools

import numpy as np
import pytest
from evaluate import memory
from harness import Builder, check, filled
from test_columns import placed

from jitfuse.ir.kernels.form import KernelForm, Operand
from jitfuse.ir.kernels.stages import Reduction

COMBINES = [
    ("sum", "float32"), ("sum", "float64"), ("sum", "int32"), ("sum", "int64"), ("prod", "float64"), ("prod", "int64"),
    ("min", "float32"), ("max", "float64"), ("max", "int32"), ("min", "bool"), ("max", "bool"),
]


def scan_form(
    combine: str, dtype: str, kinds: tuple[str, str], lane_axis: int, extent: int | None = None
) -> KernelForm:
    b = Builder()
    b.store(1, dtype, b.add("scan", dtype, b.load(0, dtype), imm=combine))
    b.stage("scan")
    return b.form(1, (extent,), lane_axis, [Operand(dtype, kinds), Operand(dtype, kinds, True)])


@pytest.mark.parametrize(("combine", "dtype"), COMBINES)
def test_rows_and_columns(combine: str, dtype: str) -> None:
    size = np.dtype(dtype).itemsize
    for n, m in itertools.product((0, 1, 2, 4, 15, 16, 17, 33, 300), (1, 5, 40)):
        x = filled(dtype, (m, max(n, 1)), n, special=n % 2 == 1)
        strides = (max(n, 1) * size, size)
        rows = [placed(x, *strides), placed(np.zeros_like(x), *strides)]
        check(scan_form(combine, dtype, ("n", "1"), 1), (m, n), rows)
        x = np.ascontiguousarray(x.T)
        columns = [placed(x, size, m * size), placed(np.zeros_like(x), size, m * size)]
        check(scan_form(combine, dtype, ("1", "n"), 0), (m, n), columns, pieces=2)
        if 0 < n <= 4:
            check(scan_form(combine, dtype, ("1", "n"), 0, n), (m, n), columns)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("combine", ["sum", "min"])
def test_backwards_and_in_strides(combine: str, dtype: str) -> None:
    x = filled(dtype, (120,), 1, special=True)
    b = Builder()
    b.store(1, dtype, b.add("scan", dtype, b.load(0, dtype), imm=combine))
    b.stage("scan")
    form = b.form(0, 1, 0, [Operand(dtype, ("n",)), Operand(dtype, ("n",), True)])
    for view in (x[::-1], x[::3], x[100::-7]):
        check(form, view.shape, [memory(view), memory(np.zeros(240, dtype)[::2][: len(view)])])


@pytest.mark.parametrize("lane_axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_everything_in_one_kernel(dtype: str, lane_axis: int) -> None:
    """A scan of a product, a scan of that scan, sums and extremes of both, then all of it in a later stage."""
    b = Builder()
    x = b.load(0, dtype)
    first = b.add("scan", dtype, b.add("multiply", dtype, x, b.add("param", dtype, imm=0)), imm="sum")
    second = b.add("scan", dtype, first, imm="max")
    b.add("keep", dtype, second, imm=0)
    total, other, largest = b.stage(
        "scan", Reduction("sum", dtype, (first, second)), Reduction("argmax", dtype, (first,))
    )
    b.store(1, dtype, b.add("add", dtype, b.add("kept", dtype, imm=0), b.add("subtract", dtype, total, other)))
    b.stage("map")
    b.store(2, "int64", largest)
    b.stage("point")
    kinds = ("n", "1") if lane_axis else ("1", "n")
    operands = [Operand(dtype, kinds), Operand(dtype, kinds, True), Operand("int64", ("1", "0"), True)]
    form = b.form(1, 1, lane_axis, operands, (dtype,), (dtype,))
    size = np.dtype(dtype).itemsize
    for n, m in itertools.product((1, 3, 40, 600), (1, 37)):
        data = filled(dtype, (m, n) if lane_axis else (n, m), n)
        strides = (n * size, size) if lane_axis else (size, m * size)
        memories = [placed(data, *strides), placed(np.zeros_like(data), *strides), placed(np.zeros(m, "int64"), 8, 0)]
        check(form, (m, n), memories, [3])
