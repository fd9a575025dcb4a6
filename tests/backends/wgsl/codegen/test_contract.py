"""Contractions on the GPU: layouts of the operands, rows and columns of what follows."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from evaluate import Memory, memory
from gpu_harness import launch
from harness import filled

from jitfuse.ir.kernels.form import KernelAxis, KernelForm, Operand
from jitfuse.ir.kernels.stages import Contraction, Instr, Reduction, Stage

STORE = (2, False, False)


def contraction_form(operands: list[Operand], dtype: str, *stages: Stage) -> KernelForm:
    """Axes are (row, lane, contracted)."""
    loads = tuple(Instr("load", dtype, (), (k, False, False)) for k in range(2))
    first = Stage("contract", loads, (), Contraction("sum", "multiply", dtype, 0, 1))
    axis = (KernelAxis(),)
    return KernelForm(axis, axis, 1, tuple(operands), (), (first, *stages), (dtype,), axis)


def bound(x: Any, *axes: int | None, out: bool = False) -> tuple[Memory, Operand]:
    m = memory(x)
    m.strides = tuple(0 if a is None else x.strides[a] for a in axes)
    return m, Operand(m.dtype, tuple({0: "0", x.itemsize: "1"}.get(s, "n") for s in m.strides), out)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 7, 3), (33, 40, 300), (4, 5, 0)])
def test_product(device: Any, dtype: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = filled(dtype, (m, k)), filled(dtype, (n, k), 1).T
    for left in (a, np.asfortranarray(a)):
        out = np.full((m + 1, n + 1), 7, dtype)
        bounds = [bound(left, 0, None, 1), bound(b, None, 1, 0), bound(out[:-1, :-1], 0, 1, None, out=True)]
        plain = Stage("map", (Instr("kept", dtype, (), 0), Instr("store", dtype, (2,), STORE)))
        form = contraction_form([o for _, o in bounds], dtype, plain)
        launch(device, form, (m, n, k), [x for x, _ in bounds])
        expected = np.full((m + 1, n + 1), 7, dtype)
        expected[:-1, :-1] = a @ b
        got = bounds[2][0].buffer.view(dtype).reshape(out.shape)
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-3 if dtype == "float32" else 0)


def test_rows_of_a_product_are_reduced(device: Any) -> None:
    """The largest of each row of a product, subtracted: a barrier between the contraction and the reduction."""
    m, n, k = 6, 70, 20
    d = "float32"
    a, b, out = filled(d, (m, k)), filled(d, (k, n), 1), np.zeros((m, n), d)
    bounds = [bound(a, 0, None, 1), bound(b, None, 1, 0), bound(out, 0, 1, None, out=True)]
    largest = Stage("reduce", (Instr("kept", d, (), 0),), (Reduction("max", d, (2,)),))
    last = Stage("map", (Instr("kept", d, (), 0), Instr("subtract", d, (4, 3)), Instr("store", d, (5,), STORE)))
    form = contraction_form([o for _, o in bounds], d, largest, last)
    launch(device, form, (m, n, k), [x for x, _ in bounds])
    got = bounds[2][0].buffer.view(d).reshape(out.shape)
    p = a.astype("f8") @ b
    np.testing.assert_allclose(got, p - p.max(1, keepdims=True), atol=1e-4)
