"""Kernels with lanes along inner axes: every reduction, its phases, softmax, normalisation, several inner axes."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from evaluate import Memory, memory
from forms import layer_norm_form
from harness import Builder, check, filled, launch

from jitfuse.ir.kernels.form import KernelForm, Operand
from jitfuse.ir.kernels.stages import Reduction
from jitfuse.ir.kernels.sum_tree import CHUNK, sum_lanes

SIZES = (0, 1, 2, 15, 16, 17, 33, 511, 512, 513, 1000, 4097, 12_345)
REDUCTIONS = [
    ("sum", "float32"), ("sum", "float64"), ("sum", "int32"), ("sum", "int64"), ("prod", "float32"), ("prod", "int64"),
    ("min", "float32"), ("max", "float64"), ("min", "int32"), ("max", "int64"), ("min", "bool"), ("max", "bool"),
    ("any", "bool"), ("all", "bool"),
]


def scalar(dtype: str) -> Memory:
    result = memory(np.zeros(1, dtype))
    result.strides = (0,)
    return result


def whole_form(combine: str, dtype: str, kind: str = "1") -> KernelForm:
    b = Builder()
    (total,) = b.stage("reduce", Reduction(combine, dtype, (b.load(0, dtype),)))
    b.store(1, dtype, total)
    b.stage("point")
    return b.form(0, 1, 0, [Operand(dtype, (kind,)), Operand(dtype, ("0",), True)])


@pytest.mark.parametrize(("combine", "dtype"), REDUCTIONS)
def test_reduction_of_one_row(combine: str, dtype: str) -> None:
    for n in SIZES:
        if n == 0 and combine in ("min", "max"):
            continue
        x = filled(dtype, (n,), n, special=n % 2 == 1)
        if combine == "all":
            x[:] = True
            x[n // 2 : n // 2 + n % 3] = False
        check(whole_form(combine, dtype), (n,), [memory(x), scalar(dtype)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("combine", ["min", "max"])
def test_extremes_of_zeros_and_nan(combine: str, dtype: str) -> None:
    """One odd element at any place of a row of equals: a zero of the other sign, NaN of either sign."""
    for n in (1, 65, 300):
        for usual, odd in ((-0.0, 0.0), (0.0, -0.0), (-1.0, np.nan), (np.inf, -np.nan), (-np.inf, -np.nan)):
            for at in {0, n // 3, n - 1}:
                x = np.full(n, usual, dtype)
                x[at] = odd
                check(whole_form(combine, dtype), (n,), [memory(x), scalar(dtype)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_strided_rows_give_the_same_bits(dtype: str) -> None:
    for n in SIZES:
        x = filled(dtype, (n,), n)
        wide, back = np.repeat(x, 3)[::3], x[::-1].copy()[::-1]
        contiguous = check(whole_form("sum", dtype), (n,), [memory(x), scalar(dtype)])[1].buffer
        for view in (wide, back):
            m = memory(view)
            m.strides = (view.strides[0],)
            assert (check(whole_form("sum", dtype, "n"), (n,), [m, scalar(dtype)])[1].buffer == contiguous).all()


def test_empty_sums_and_sums_of_negative_zeros_are_zero() -> None:
    for n in (0, 1, 40):
        x = np.full(n, -0.0, "f4")
        out = scalar("float32")
        launch(whole_form("sum", "float32"), (n,), [memory(x), out])
        assert out.buffer.tobytes() == b"\0\0\0\0"


def partial_form(combine: str, dtype: str) -> KernelForm:
    b = Builder()
    b.stage("reduce", Reduction(combine, dtype, (b.load(0, dtype),), "partial", store_to=(1,)))
    return b.form(1, 1, 1, [Operand(dtype, ("0", "1")), Operand(dtype, ("n", "0"), True)])


def final_form(combine: str, dtype: str) -> KernelForm:
    b = Builder()
    (total,) = b.stage("reduce", Reduction(combine, dtype, (), "final", load_from=(0,)))
    b.store(1, dtype, total)
    b.stage("point")
    return b.form(0, 1, 0, [Operand(dtype, ("n",)), Operand(dtype, ("0",), True)])


@pytest.mark.parametrize(("combine", "dtype"), REDUCTIONS)
def test_partial_and_final_give_the_bits_of_whole(combine: str, dtype: str) -> None:
    size, lanes = np.dtype(dtype).itemsize, sum_lanes(np.dtype(dtype).itemsize)
    for n in (0, 1, 100, CHUNK, CHUNK + 1, 3 * CHUNK + 777, 8 * CHUNK):
        if n == 0 and combine in ("min", "max"):
            continue
        x = filled(dtype, (n,), n)
        chunks = -(-n // CHUNK)
        rows = memory(np.zeros((chunks, lanes), dtype).ravel() if chunks else np.zeros(1, dtype))
        rows.strides = (lanes * size, 0)
        source = memory(x)
        source.strides = (0, size)
        if combine in ("sum", "prod") and dtype.startswith("float"):
            written = check(partial_form(combine, dtype), (chunks, n), [source, rows], pieces=2)[1]
        else:  # any rows will do that fold to the right result
            written = rows
            launch(partial_form(combine, dtype), (chunks, n), [source, rows], pieces=2)
        written.strides = (lanes * size,)
        split = check(final_form(combine, dtype), (chunks,), [written, scalar(dtype)])[1]
        whole = scalar(dtype)
        launch(whole_form(combine, dtype), (n,), [memory(x), whole])
        assert (split.buffer == whole.buffer).all()


# ---------------------------------------------------------------------- several stages
def softmax_form(dtype: str) -> KernelForm:
    b = Builder()
    (largest,) = b.stage("reduce", Reduction("max", dtype, (b.load(0, dtype),)))
    e = b.add("exp", dtype, b.add("subtract", dtype, b.load(0, dtype), largest))
    b.add("keep", dtype, e, imm=0)
    (total,) = b.stage("reduce", Reduction("sum", dtype, (e,)))
    b.store(1, dtype, b.add("divide", dtype, b.add("kept", dtype, imm=0), total))
    b.stage("map")
    return b.form(1, 1, 1, [Operand(dtype, ("n", "1")), Operand(dtype, ("n", "1"), True)], keeps=(dtype,))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax(dtype: str) -> None:
    for shape in ((3, 1), (2, 16), (5, 33), (4, 1000), (2, 5000), (0, 7)):
        x, out = filled(dtype, (shape[0], shape[1] + 3))[:, 3:], np.zeros((shape[0], shape[1] + 5), dtype)[:, :-5]
        check(softmax_form(dtype), shape, [memory(x), memory(out)], ulps=6, pieces=2)
        check(softmax_form(dtype), shape, [memory(x), memory(out)], ulps=6, flags=1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_layer_norm_with_several_results(dtype: str) -> None:
    """Mean, deviation kept, sum of squares and a flag in one stage, weights of the columns, a point result."""
    form = layer_norm_form(dtype)
    for shape in ((3, 5), (2, 100), (4, 777), (2, 2048)):
        x, w = filled(dtype, shape), np.broadcast_to(filled(dtype, (shape[1],), 1), shape)
        means = np.broadcast_to(np.zeros((shape[0], 1), dtype), shape)
        check(form, shape, [memory(v) for v in (x, w, np.zeros(shape, dtype), means)], [shape[1]])


def test_sums_of_different_widths_in_one_stage() -> None:
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
    operands = [Operand("float32", ("1",))] + [Operand(d, ("0",), True) for d in dtypes]
    form = b.form(0, 1, 0, operands)
    for n in (1, 31, 255, 256, 257, 512, 513, 768, 1025, 9999):
        check(form, (n,), [memory(filled("float32", (n,), n)), *(scalar(d) for d in dtypes)])


@pytest.mark.parametrize("inner", [(3, None), (None, 4), (None, None), (2, 3, None)])
def test_several_inner_axes(inner: tuple[int | None, ...]) -> None:
    for extent in (1, 7, 40):
        sizes = (3, *(e or extent for e in inner))
        x = filled("float32", sizes)
        views: list[Any] = [x, filled("float32", sizes[::-1], 1).T]
        k = len(inner)
        b = Builder()
        v = b.add("subtract", "float32", b.load(0, "float32"), b.load(1, "float32"))
        i = b.add("astype", "float32", b.add("index", "int64", imm=k))
        (total,) = b.stage("reduce", Reduction("sum", "float32", (b.add("multiply", "float32", v, i),)))
        b.store(2, "float32", b.add("add", "float32", b.load(0, "float32"), total))
        b.stage("map")
        views.append(np.zeros(sizes, "f4"))
        form = b.form(1, inner, k, [memory(v).operand(j == 2) for j, v in enumerate(views)])
        check(form, sizes, [memory(v) for v in views], pieces=2)


def test_rows_of_a_deep_grid() -> None:
    sizes = (3, 2, 4, 50)
    x, out = filled("float64", sizes[::-1]).T, np.zeros(sizes[:3])
    b = Builder()
    (total,) = b.stage("reduce", Reduction("sum", "float64", (b.load(0, "float64"),)))
    b.store(1, "float64", total)
    b.stage("point")
    result = memory(out)
    result.strides = (*out.strides, 0)
    form = b.form(3, 1, 3, [memory(x).operand(), result.operand(True)])
    got = check(form, sizes, [memory(x), result], pieces=5)[1]
    assert np.allclose(got.buffer.view("f8").reshape(sizes[:3]), x.sum(axis=3))
    assert math.prod(sizes[:3]) == out.size


@pytest.mark.parametrize("dtype", ["float32", "float64", "bool"])
def test_rows_of_runs_that_no_vector_divides(dtype: str) -> None:
    """Two inner axes that do not merge, the last adjacent: runs shorter and longer than vectors and their groups."""
    combine = "all" if dtype == "bool" else "sum"
    b = Builder()
    (total,) = b.stage("reduce", Reduction(combine, dtype, (b.load(0, dtype),)))
    b.store(1, dtype, total)
    b.stage("point")
    out = scalar(dtype)
    out.strides = (0, 0)
    form = b.form(0, 2, 1, [Operand(dtype, ("n", "1")), Operand(dtype, ("0", "0"), True)])
    for n, m in ((3, 1), (40, 7), (9, 16), (33, 17), (20, 31), (50, 64), (50, 65), (21, 100), (7, 1000)):
        x = filled(dtype, (n, m + 3), n, special=n % 2 == 0)
        check(form, (n, m), [memory(x[:, :m]), out])
        if dtype == "bool":
            x[:] = True
            x[n - 1, m - 1] = n % 2
            check(form, (n, m), [memory(x[:, :m]), out])
