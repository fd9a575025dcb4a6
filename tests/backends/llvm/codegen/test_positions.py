"""argmin and argmax: the first of equal elements, the first NaN, along rows and columns, in all their phases."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from evaluate import memory
from harness import Builder, check, filled, launch
from test_columns import placed

from jitfuse.ir.kernels.form import KernelForm, Operand
from jitfuse.ir.kernels.stages import Reduction
from jitfuse.ir.kernels.sum_tree import CHUNK

COMBINES = ("argmin", "argmax")
DTYPES = ("float32", "float64", "int32", "int64", "bool")


def form_of(combine: str, dtype: str, kinds: tuple[str, str], lane_axis: int, extent: int | None = None) -> KernelForm:
    b = Builder()
    (total,) = b.stage("reduce", Reduction(combine, dtype, (b.load(0, dtype),)))
    b.store(1, "int64", total)
    b.stage("point")
    return b.form(1, (extent,), lane_axis, [Operand(dtype, kinds), Operand("int64", ("1", "0"), True)])


def contents(dtype: str, shape: tuple[int, ...]) -> list[Any]:
    """Ordinary elements, special ones, many equal ones, all the same (the extreme one too)."""
    x = filled(dtype, shape, 1)
    kinds = [x, filled(dtype, shape, 2, special=True), (filled(dtype, shape, 3).astype("int32") % 3).astype(dtype)]
    kinds += [np.full(shape, v, dtype) for v in ((-np.inf, np.inf, np.nan) if dtype[0] == "f" else (0, 1))]
    if dtype.startswith("int"):
        kinds += [np.full(shape, v, dtype) for v in (np.iinfo(dtype).min, np.iinfo(dtype).max)]
    return kinds


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("combine", COMBINES)
def test_positions_in_rows_and_columns(combine: str, dtype: str) -> None:
    size = np.dtype(dtype).itemsize
    for n in (1, 2, 4, 16, 33, 300):
        for m in (1, 5, 40):
            for x in contents(dtype, (m, n)):
                out = placed(np.zeros(m, "int64"), 8, 0)
                check(form_of(combine, dtype, ("n", "1"), 1), (m, n), [placed(x, n * size, size), out])
                columns = placed(np.ascontiguousarray(x.T), size, m * size)
                check(form_of(combine, dtype, ("1", "n"), 0), (m, n), [columns, out])
                if n <= 4:
                    check(form_of(combine, dtype, ("1", "n"), 0, n), (m, n), [columns, out])


@pytest.mark.parametrize("combine", COMBINES)
def test_positions_count_over_several_axes(combine: str) -> None:
    b = Builder()
    (total,) = b.stage("reduce", Reduction(combine, "float64", (b.load(0, "float64"),)))
    b.store(1, "int64", total)
    b.stage("point")
    x = filled("float64", (7, 5), 1, special=True)
    out = memory(np.zeros(1, "int64"))
    out.strides = (0, 0)
    form = b.form(0, 2, 1, [Operand("float64", ("n", "n")), Operand("int64", ("0", "0"), True)])
    check(form, (5, 7), [memory(x.T), out])


@pytest.mark.parametrize("lane_axis", ["rows", "columns"])
@pytest.mark.parametrize(("combine", "dtype"), [("argmin", "float32"), ("argmax", "int64"), ("argmax", "bool")])
def test_partial_and_final(combine: str, dtype: str, lane_axis: str) -> None:
    size, m = np.dtype(dtype).itemsize, 3
    b = Builder()
    b.stage("reduce", Reduction(combine, dtype, (b.load(0, dtype),), "partial", store_to=(1, 2)))
    outs = [Operand(dtype, ("n", "n", "0"), True), Operand("int64", ("n", "n", "0"), True)]
    partial = b.form(2, 1, 2 if lane_axis == "rows" else 0, [Operand(dtype, ("n", "0", "n")), *outs])
    b = Builder()
    (total,) = b.stage("reduce", Reduction(combine, dtype, (), "final", load_from=(0, 1)))
    b.store(2, "int64", total)
    b.stage("point")
    ins = [Operand(dtype, ("n", "n")), Operand("int64", ("n", "n"))]
    final = b.form(1, 1, 1 if lane_axis == "rows" else 0, [*ins, Operand("int64", ("1", "0"), True)])
    for n in (1, 40, CHUNK + 3, 2 * CHUNK):
        for x in contents(dtype, (n, m)):
            chunks = -(-n // CHUNK)
            rows = [placed(np.zeros((m, chunks), dtype), chunks * size, size, 0),
                    placed(np.zeros((m, chunks), "int64"), chunks * 8, 8, 0)]
            source = placed(x, size, 0, m * size)
            launch(partial, (m, chunks, n), [source, *rows], pieces=2)
            for w in rows:
                w.strides = w.strides[:2]
            (found,) = check(final, (m, chunks), [*rows, placed(np.zeros(m, "int64"), 8, 0)])[2:]
            assert found.buffer.view("int64").tolist() == getattr(np, combine)(x, axis=0).tolist()
