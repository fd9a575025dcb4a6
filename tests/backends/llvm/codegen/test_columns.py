"""Kernels with lanes along a grid axis and loops over inner axes: reductions of columns in all their phases."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from evaluate import Memory, memory
from harness import Builder, check, filled, launch
from test_rows import REDUCTIONS, scalar, whole_form

from jitfuse.ir.kernels.form import KernelForm, Operand
from jitfuse.ir.kernels.stages import Reduction
from jitfuse.ir.kernels.sum_tree import CHUNK, sum_lanes


def placed(x: Any, *strides: int) -> Memory:
    """Bind an array with other strides than its own."""
    m = memory(x)
    m.strides = strides
    return m


def column_form(combine: str, dtype: str, extent: int | None = None, kinds: tuple[str, str] = ("1", "n")) -> KernelForm:
    b = Builder()
    (total,) = b.stage("reduce", Reduction(combine, dtype, (b.load(0, dtype),)))
    b.store(1, dtype, total)
    b.stage("point")
    return b.form(1, (extent,), 0, [Operand(dtype, kinds), Operand(dtype, ("1", "0"), True)])


@pytest.mark.parametrize(("combine", "dtype"), REDUCTIONS)
def test_reduction_of_columns(combine: str, dtype: str) -> None:
    size = np.dtype(dtype).itemsize
    for n in (0, 1, 2, 3, 4, 5, 33, 130, 600):
        for m in (0, 1, 7, 16, 150):
            if n == 0 and combine in ("min", "max"):
                continue
            x = filled(dtype, (max(n, 1), max(m, 1)), n, special=True)
            operands = [placed(x, size, x.strides[0]), placed(np.zeros(m + 9, dtype)[4:][:m], size, 0)]
            check(column_form(combine, dtype), (m, n), operands)
            if 1 <= n <= 4:
                check(column_form(combine, dtype, n), (m, n), operands)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_columns_and_rows_give_the_same_bits(dtype: str) -> None:
    size = np.dtype(dtype).itemsize
    for n in (1, 2, 3, 4, 15, 16, 17, 31, 33, 100, 255, 257, 512, 513, 1025, 3100, 9000):
        x = filled(dtype, (n, 5), n)
        out = placed(np.zeros(5, dtype), size, 0)
        launch(column_form("sum", dtype), (5, n), [placed(x, size, x.strides[0]), out])
        flat = placed(np.zeros(5, dtype), size, 0)
        transposed = np.ascontiguousarray(x.T)
        launch(
            column_form("sum", dtype, kinds=("n", "1")), (5, n), [placed(transposed, n * size, size), flat]
        )
        assert (out.buffer == flat.buffer).all()
        for k in range(5):
            row = scalar(dtype)
            launch(whole_form("sum", dtype), (n,), [memory(transposed[k].copy()), row])
            assert (row.buffer == out.buffer[k * size : (k + 1) * size]).all()
        if n <= 4:
            static = placed(np.zeros(5, dtype), size, 0)
            launch(column_form("sum", dtype, n), (5, n), [placed(x, size, x.strides[0]), static])
            assert (static.buffer == out.buffer).all()


@pytest.mark.parametrize(("combine", "dtype"), [*REDUCTIONS[:2], ("max", "float32"), ("sum", "int64"), ("any", "bool")])
def test_partial_and_final_columns(combine: str, dtype: str) -> None:
    size, lanes, m = np.dtype(dtype).itemsize, sum_lanes(np.dtype(dtype).itemsize), 3
    b = Builder()
    b.stage("reduce", Reduction(combine, dtype, (b.load(0, dtype),), "partial", store_to=(1,)))
    partial = b.form(2, 1, 0, [Operand(dtype, ("1", "0", "n")), Operand(dtype, ("n", "n", "0"), True)])
    b = Builder()
    (total,) = b.stage("reduce", Reduction(combine, dtype, (), "final", load_from=(0,)))
    b.store(1, dtype, total)
    b.stage("point")
    final = b.form(1, 1, 0, [Operand(dtype, ("n", "n")), Operand(dtype, ("1", "0"), True)])
    for n in (1, 40, CHUNK, 2 * CHUNK + 555):
        x = filled(dtype, (n, m), n)
        chunks = -(-n // CHUNK)
        rows = placed(np.zeros(chunks * m * lanes, dtype), chunks * lanes * size, lanes * size, 0)
        source = placed(x, size, 0, m * size)
        if combine in ("sum", "prod") and dtype.startswith("float"):
            written = check(partial, (m, chunks, n), [source, rows])[1]
        else:  # any rows will do that fold to the right result
            written = rows
            launch(partial, (m, chunks, n), [source, rows])
        written.strides = rows.strides[:2]
        out = check(final, (m, chunks), [written, placed(np.zeros(m, dtype), size, 0)])[1]
        whole = placed(np.zeros(m, dtype), size, 0)
        launch(column_form(combine, dtype), (m, n), [placed(x, size, m * size), whole])
        assert (out.buffer == whole.buffer).all()


@pytest.mark.parametrize("extent", [None, 4])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax_of_columns(dtype: str, extent: int | None) -> None:
    b = Builder()
    (largest,) = b.stage("reduce", Reduction("max", dtype, (b.load(0, dtype),)))
    half = b.add("multiply", dtype, largest, b.add("param", dtype, imm=0))
    b.stage("point")
    e = b.add("exp", dtype, b.add("subtract", dtype, b.load(0, dtype), half))
    b.add("keep", "bool", b.add("isnan", "bool", e), imm=0)
    b.add("keep", dtype, e, imm=1)
    (total,) = b.stage("reduce", Reduction("sum", dtype, (e,)))
    y = b.add("divide", dtype, b.add("kept", dtype, imm=1), total)
    b.store(1, dtype, b.add("where", dtype, b.add("kept", "bool", imm=0), total, y))
    b.stage("map")
    operands = [Operand(dtype, ("1", "n")), Operand(dtype, ("1", "n"), True)]
    form = b.form(1, (extent,), 0, operands, (dtype,), ("bool", dtype))
    size = np.dtype(dtype).itemsize
    for n, m in ((4, 1), (4, 33), (4, 1000), (50, 17), (700, 150)):
        if extent not in (None, n):
            continue
        x, out = filled(dtype, (n, m)), np.zeros((n, m), dtype)
        check(form, (m, n), [placed(a, size, m * size) for a in (x, out)], [1.0], ulps=6, pieces=2)


@pytest.mark.parametrize("inner", [(3, None), (None, None), (2, 2), (None, 2, 3)])
@pytest.mark.parametrize("lane_axis", [0, 1])
def test_several_grid_and_inner_axes(inner: tuple[int | None, ...], lane_axis: int) -> None:
    k = len(inner)
    for extent in (1, 6):
        sizes = (3, 40, *(e or extent for e in inner))
        x, y = filled("float32", sizes), filled("float32", sizes[::-1], 1).T
        out = np.broadcast_to(np.zeros((3, 40) + (1,) * k, "f4"), sizes)
        b = Builder()
        i = b.add("astype", "float32", b.add("index", "int64", imm=1 + k))
        j = b.add("astype", "float32", b.add("index", "int64", imm=lane_axis))
        v = b.add("multiply", "float32", b.add("subtract", "float32", b.load(0, "float32"), b.load(1, "float32")), i)
        total, low = b.stage("reduce", Reduction("sum", "float32", (v,)), Reduction("min", "float32", (v,)))
        total = b.add("add", "float32", b.add("add", "float32", total, low), j)
        b.store(2, "float32", total)
        b.stage("point")
        b.store(3, "float32", b.add("subtract", "float32", b.load(0, "float32"), total))
        b.stage("map")
        views = [x, y, out, np.zeros(sizes, "f4")]
        form = b.form(2, inner, lane_axis, [memory(v).operand(q > 1) for q, v in enumerate(views)])
        check(form, sizes, [memory(v) for v in views], pieces=3)


def test_sums_of_different_widths_in_one_stage() -> None:
    b = Builder()
    x = b.load(0, "float32")
    results = b.stage(
        "reduce", Reduction("sum", "float32", (x,)), Reduction("max", "float32", (x,)),
        Reduction("sum", "float64", (b.add("astype", "float64", x),)),
        Reduction("sum", "int64", (b.add("astype", "int64", x),)),
    )
    dtypes = ("float32", "float32", "float64", "int64")
    for k, (r, d) in enumerate(zip(results, dtypes, strict=True)):
        b.store(1 + k, d, r)
    b.stage("point")
    operands = [Operand("float32", ("1", "n"))] + [Operand(d, ("1", "0"), True) for d in dtypes]
    form = b.form(1, 1, 0, operands)
    for n in (1, 20, 255, 257, 513, 1500):
        x_ = filled("float32", (n, 37), n)
        outs = [placed(np.zeros(37, d), np.dtype(d).itemsize, 0) for d in dtypes]
        check(form, (37, n), [placed(x_, 4, 37 * 4), *outs])
