"""Reductions and kernels of several stages on the GPU, by one invocation and by a workgroup: the CPU's bits."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from evaluate import Memory, memory
from forms import layer_norm_form
from gpu_harness import check, launch
from harness import Builder, filled

from jitfuse.ir.kernels.form import KernelForm, Operand
from jitfuse.ir.kernels.stages import Reduction
from jitfuse.ir.kernels.sum_tree import CHUNK, sum_lanes

MODES = ("points", "rows")
REDUCTIONS = [(c, d) for d in ("float32", "float64", "int32", "int64", "bool") for c in ("sum", "prod", "min", "max")
              if (c, d) not in (("sum", "bool"), ("prod", "bool"))] + [("any", "bool"), ("all", "bool")]


def reduced(combine: str, dtype: str, operands: list[Operand], inner: int = 1) -> KernelForm:
    b = Builder()
    (total,) = b.stage("reduce", Reduction(combine, dtype, (b.load(0, dtype),)))
    b.store(1, dtype, total)
    b.stage("point")
    return b.form(1, inner, 1, operands)


def per_point(out: Any, inner: int) -> Memory:
    found = memory(out)
    found.strides = (*found.strides, *(0,) * inner)
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("combine", "dtype"), REDUCTIONS)
def test_reduction_of_rows(device: Any, combine: str, dtype: str, mode: str) -> None:
    form = reduced(combine, dtype, [Operand(dtype, ("n", "1")), Operand(dtype, ("1", "0"), True)])
    for n in (0, 1, 3, 31, 100, 511, 512, 513, 1025) if combine not in ("min", "max") else (1, 3, 31, 513):
        x = filled(dtype, (3, n), n, special=combine != "sum" and dtype != "bool")
        check(device, form, (3, n), [memory(x), per_point(np.zeros(3, dtype), 1)], mode=mode)


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_rows_have_the_bits_of_the_tree(device: Any, dtype: str) -> None:
    form = reduced("sum", dtype, [Operand(dtype, ("n", "1")), Operand(dtype, ("1", "0"), True)])
    for n in (4096, 5000, 70_001):
        check(device, form, (2, n), [memory(filled(dtype, (2, n), n)), per_point(np.zeros(2, dtype), 1)])


@pytest.mark.parametrize("mode", MODES)
def test_reduction_of_columns(device: Any, mode: str) -> None:
    for m, n in ((1, 5), (40, 7), (700, 3)):
        x = filled("float32", (m, n), m).T
        form = reduced("sum", "float32", [memory(x).operand(), Operand("float32", ("1", "0"), True)])
        check(device, form, (n, m), [memory(x), per_point(np.zeros(n, "float32"), 1)], mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_extremes_of_zeros_and_nan(device: Any, mode: str) -> None:
    rows = np.array([[0.0, -0.0], [-0.0, 0.0], [np.nan, 1], [1, np.nan], [np.inf, -np.inf], [-0.0, -0.0]], "float32")
    for combine in ("min", "max", "sum"):
        form = reduced(combine, "float32", [Operand("float32", ("n", "1")), Operand("float32", ("1", "0"), True)])
        check(device, form, rows.shape, [memory(rows), per_point(np.zeros(len(rows), "float32"), 1)], mode=mode)


@pytest.mark.parametrize(("combine", "dtype"), REDUCTIONS)
def test_partial_and_final_give_the_bits_of_whole(device: Any, combine: str, dtype: str) -> None:
    lanes, size = sum_lanes(np.dtype(dtype).itemsize), np.dtype(dtype).itemsize
    b = Builder()
    b.stage("reduce", Reduction(combine, dtype, (b.load(0, dtype),), "partial", store_to=(1,)))
    partial = b.form(1, 1, 1, [Operand(dtype, ("0", "1")), Operand(dtype, ("n", "0"), True)])
    b = Builder()
    (total,) = b.stage("reduce", Reduction(combine, dtype, (), "final", load_from=(0,)))
    b.store(1, dtype, total)
    b.stage("point")
    final = b.form(0, 1, 0, [Operand(dtype, ("n",)), Operand(dtype, ("0",), True)])
    whole = reduced(combine, dtype, [Operand(dtype, ("0", "1")), Operand(dtype, ("0", "0"), True)])
    for n in (CHUNK, 2 * CHUNK + 777):
        chunks, x = -(-n // CHUNK), memory(filled(dtype, (n,), 1))
        x.strides = (0, size)
        rows = Memory(np.zeros(chunks * lanes * size, np.uint8), 0, (lanes * size, 0), dtype)
        launch(device, partial, (chunks, n), [x, rows])
        results = [Memory(np.zeros(size, np.uint8), 0, (0, 0), dtype) for _ in range(2)]
        launch(device, whole, (1, n), [x, results[0]])
        rows.strides = (lanes * size,)
        launch(device, final, (chunks,), [rows, results[1]])
        assert (results[0].buffer == results[1].buffer).all()


def softmax_form(*, keep: bool) -> KernelForm:
    b = Builder()
    d = "float32"
    (largest,) = b.stage("reduce", Reduction("max", d, (b.load(0, d),)))
    e = b.add("exp", d, b.add("subtract", d, b.load(0, d), largest))
    if keep:
        b.add("keep", d, e, imm=0)
    (total,) = b.stage("reduce", Reduction("sum", d, (e,)))
    again = b.add("kept", d, imm=0) if keep else b.add("exp", d, b.add("subtract", d, b.load(0, d), largest))
    b.store(1, d, b.add("divide", d, again, total))
    b.stage("map")
    return b.form(1, 1, 1, [Operand(d, ("n", "1")), Operand(d, ("n", "1"), True)], keeps=(d,) if keep else ())


@pytest.mark.full
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("keep", [False, True])
def test_softmax(device: Any, keep: bool, mode: str) -> None:
    for shape in ((3, 1), (2, 16), (5, 33), (4, 1000), (2, 5000), (0, 7)):
        x = filled("float32", (shape[0], shape[1] + 3))[:, 3:]
        out = np.zeros((shape[0], shape[1] + 5), "float32")[:, :-5]
        check(device, softmax_form(keep=keep), shape, [memory(x), memory(out)], ulps=8, mode=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_layer_norm_with_several_results(device: Any, dtype: str, mode: str) -> None:
    """Mean, deviation kept, sum of squares and a flag in one stage, weights of the columns, a point result."""
    form = layer_norm_form(dtype)
    for shape in ((3, 5), (2, 100), (2, 1300)):
        x, w = filled(dtype, shape), np.broadcast_to(filled(dtype, (shape[1],), 1), shape)
        means = np.broadcast_to(np.zeros((shape[0], 1), dtype), shape)
        check(device, form, shape, [memory(v) for v in (x, w, np.zeros(shape, dtype), means)], [shape[1]], mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_sums_of_different_widths_in_one_stage(device: Any, mode: str) -> None:
    b = Builder()
    x = b.load(0, "float32")
    w = b.add("astype", "float64", x)
    results = b.stage(
        "reduce", Reduction("sum", "float32", (x,)), Reduction("max", "float32", (x,)),
        Reduction("sum", "float64", (b.add("square", "float64", w),)), Reduction("sum", "int64",
        (b.add("astype", "int64", b.add("greater", "bool", x, b.add("const", "float32", imm=0))),)),
        Reduction("min", "float64", (w, b.add("negative", "float64", w))),
    )
    dtypes = ("float32", "float32", "float64", "int64", "float64", "float64")
    for k, (r, d) in enumerate(zip(results, dtypes, strict=True)):
        b.store(1 + k, d, r)
    b.stage("point")
    form = b.form(0, 1, 0, [Operand("float32", ("1",))] + [Operand(d, ("0",), True) for d in dtypes])
    for n in (1, 255, 257, 3000):
        outs = [Memory(np.zeros(np.dtype(d).itemsize, np.uint8), 0, (0,), d) for d in dtypes]
        check(device, form, (n,), [memory(filled("float32", (n,), n)), *outs], mode=mode)


@pytest.mark.full
@pytest.mark.parametrize("inner", [(3, None), (None, None), (2, 3, None)])
def test_several_inner_axes(device: Any, inner: tuple[int | None, ...]) -> None:
    for extent in (1, 7, 40):
        sizes = (3, *(e or extent for e in inner))
        views: list[Any] = [filled("float32", sizes), filled("float32", sizes[::-1], 1).T]
        b = Builder()
        v = b.add("subtract", "float32", b.load(0, "float32"), b.load(1, "float32"))
        i = b.add("astype", "float32", b.add("index", "int64", imm=len(inner)))
        (total,) = b.stage("reduce", Reduction("sum", "float32", (b.add("multiply", "float32", v, i),)))
        b.store(2, "float32", b.add("add", "float32", b.load(0, "float32"), total))
        b.stage("map")
        views.append(np.zeros(sizes, "f4"))
        form = b.form(1, inner, len(inner), [memory(v).operand(j == 2) for j, v in enumerate(views)])
        check(device, form, sizes, [memory(v) for v in views])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
@pytest.mark.parametrize("combine", ["argmin", "argmax"])
def test_positions(device: Any, combine: str, dtype: str, mode: str) -> None:
    b = Builder()
    (at,) = b.stage("reduce", Reduction(combine, dtype, (b.load(0, dtype),)))
    b.store(1, "int64", at)
    b.stage("point")
    form = b.form(1, 1, 1, [Operand(dtype, ("n", "1")), Operand("int64", ("1", "0"), True)])
    for n in (1, 2, 33, 300, 1000):
        x = filled(dtype, (5, n), n, special=dtype != "bool")
        if dtype.startswith("float"):
            x[0] = np.where(np.isnan(x[0]), 3, x[0])
            x[1] = 0.0
            x[1, ::2] = -0.0
        check(device, form, x.shape, [memory(x), per_point(np.zeros(5, "int64"), 1)], mode=mode)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("combine", ["sum", "prod", "min", "max"])
def test_scans(device: Any, combine: str, dtype: str) -> None:
    b = Builder()
    x = b.load(0, dtype)
    b.store(1, dtype, b.add("scan", dtype, x, imm=combine))
    (largest,) = b.stage("scan", Reduction("max", dtype, (x,)))
    b.store(2, dtype, largest)
    b.stage("point")
    operands = [Operand(dtype, ("n", "1")), Operand(dtype, ("n", "1"), True), Operand(dtype, ("1", "0"), True)]
    form = b.form(1, 1, 1, operands)
    for n in (1, 7, 500):
        values = filled(dtype, (3, n), n)
        outs = [memory(np.zeros((3, n), dtype)), per_point(np.zeros(3, dtype), 1)]
        check(device, form, (3, n), [memory(values), *outs])
