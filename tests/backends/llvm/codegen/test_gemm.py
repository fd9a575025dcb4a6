"""Contractions as kernel forms: every layout of the operands, edges of tiles, rows and columns of what follows."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from amount import crossed
from evaluate import Memory, memory
from harness import compiled, filled

from jitfuse.backends.llvm.codegen.layout import scratch_bytes, units
from jitfuse.ir.kernels.form import KernelAxis, KernelForm, Operand
from jitfuse.ir.kernels.stages import Contraction, Instr, Reduction, Stage
from jitfuse.plans.launch import make_launch

Array = Any
STORE = (2, False, False)


def contraction_form(operands: list[Operand], dtype: str, *stages: Stage, columns: bool = False) -> KernelForm:
    """Axes are (row, lane, contracted), or (lane, row, contracted) for stages along columns."""
    loads = tuple(Instr("load", dtype, (), (k, False, False)) for k in range(2))
    first = Stage("contract", loads, (), Contraction("sum", "multiply", dtype, 0, 1))
    return KernelForm(
        (KernelAxis(),), (KernelAxis(),), 0 if columns else 1, tuple(operands), (), (first, *stages), (dtype,),
        (KernelAxis(),),
    )


def plain(dtype: str) -> Stage:
    return Stage("map", (Instr("kept", dtype, (), 0), Instr("store", dtype, (2,), STORE)))


def run(
    form: KernelForm, sizes: tuple[int, ...], operands: list[Memory], pieces: int = 1, vector_bytes: int = 0
) -> None:
    launch = make_launch(form, [((), 0)] * len(operands), [o.strides for o in operands], sizes, ())
    words = np.array([*(o.address for o in operands), *launch.words], np.int64)
    kernel, _ = compiled(form, vector_bytes)
    size, total = scratch_bytes(form, sizes), units(form, sizes)
    scratch = np.full(size + 128, 0xA5, np.uint8)
    at = -scratch.ctypes.data % 64
    for begin, end in itertools.pairwise([total * k // pieces for k in range(pieces + 1)]):
        assert kernel(words.ctypes.data, begin, end, scratch.ctypes.data + at) == 0
    assert (scratch[:at] == 0xA5).all() and (scratch[at + size :] == 0xA5).all(), "wrote outside of its scratch"


def walked(x: Array, *axes: int | None) -> Memory:
    """Bind an array along the form's axes: for each the array's own axis, None where it does not move."""
    m = memory(x)
    m.strides = tuple(0 if a is None else x.strides[a] for a in axes)
    return m


def product(a: Array, b: Array, **options: Any) -> Array:
    dtype = a.dtype.name
    out = np.full((a.shape[0] + 1, b.shape[1] + 1), 7, dtype)
    view = out[:-1, :-1]
    operands = [walked(a, 0, None, 1), walked(b, None, 1, 0), walked(view, 0, 1, None)]
    classes = [Operand(o.dtype, tuple({0: "0", a.itemsize: "1"}.get(s, "n") for s in o.strides)) for o in operands]
    classes[2] = Operand(dtype, ("n", "1", "0"), True)
    run(contraction_form(classes, dtype, plain(dtype)), (*view.shape, a.shape[1]), operands, **options)
    assert (out[-1] == 7).all() and (out[:, -1] == 7).all()
    return view


def laid_out(x: Array, layout: str) -> Array:
    if layout == "transposed":
        return np.ascontiguousarray(x.T).T
    if layout == "strided":
        return np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)[::2, ::3]
    return x[::-1, ::-1].copy()[::-1, ::-1] if layout == "negative" else x


def assert_near(actual: Array, a: Array, b: Array) -> None:
    """Compare with float64 within the bound of a sum of products in any order."""
    exact = a.astype("f8") @ b.astype("f8")
    if actual.dtype.kind == "i":
        np.testing.assert_array_equal(actual, a @ b)
        return
    bound = (a.shape[1] + 1) * np.finfo(actual.dtype).eps * (np.abs(a).astype("f8") @ np.abs(b).astype("f8"))
    assert (np.abs(actual - exact) <= bound).all()


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_products_of_every_size(dtype: str, vector_bytes: int) -> None:
    for m, n, k in [
        (1, 1, 1), (3, 5, 2), (14, 32, 16), (15, 33, 17), (13, 31, 0), (0, 4, 3), (4, 0, 3), (29, 64, 256),
        (6, 70, 257), (70, 3, 600), (255, 40, 33), (20, 530, 40),
    ]:
        a, b = filled(dtype, (m, k), m), filled(dtype, (k, n), n)
        result = product(a, b, vector_bytes=vector_bytes)
        assert_near(result, a, b)
        np.testing.assert_array_equal(result, product(a, b, vector_bytes=vector_bytes, pieces=3))


@pytest.mark.parametrize(("dtype", "left", "right"), crossed(
    2, ["float32", "float64", "int64"], *[["plain", "transposed", "strided", "negative"]] * 2))
def test_layouts_give_the_same_bits(dtype: str, left: str, right: str) -> None:
    for m, n, k in ((15, 37, 21), (31, 16, 270)):
        a, b = filled(dtype, (m, k), m), filled(dtype, (k, n), n)
        expected = product(a, b)
        assert_near(expected, a, b)
        np.testing.assert_array_equal(product(laid_out(a, left), laid_out(b, right)), expected)


def test_nan_and_infinities_stay_in_their_rows_and_columns() -> None:
    a, b = np.ones((20, 30), "f4"), np.ones((30, 40), "f4")
    a[3, 4], b[5, 6], b[7, 8] = np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(product(a, b), a @ b)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [False, True])
def test_rows_and_columns_are_normalised_in_the_same_kernel(dtype: str, columns: bool) -> None:
    """The product divided by the largest element of each row or column."""
    largest = Stage("reduce", (Instr("kept", dtype, (), 0),), (Reduction("max", dtype, (2,)),))
    divide = Stage(
        "map", (Instr("kept", dtype, (), 0), Instr("divide", dtype, (4, 3)), Instr("store", dtype, (5,), STORE))
    )
    for m, n, k in ((5, 7, 3), (40, 100, 33), (300, 129, 20)):
        a, b = np.abs(filled(dtype, (m, k), m)) + 1, np.abs(filled(dtype, (k, n), n)) + 1
        out = np.zeros((m, n), dtype)
        if columns:
            operands = [walked(a, None, 0, 1), walked(b, 1, None, 0), walked(out, 1, 0, None)]
            classes = [("0", "n", "1"), ("1", "0", "n"), ("1", "n", "0")]
        else:
            operands = [walked(a, 0, None, 1), walked(b, None, 1, 0), walked(out, 0, 1, None)]
            classes = [("n", "0", "1"), ("0", "1", "n"), ("n", "1", "0")]
        form = contraction_form(
            [Operand(dtype, c, k == 2) for k, c in enumerate(classes)], dtype, largest, divide, columns=columns
        )
        run(form, (n, m, k) if columns else (m, n, k), operands)
        c = product(a, b)
        np.testing.assert_array_equal(out, c / c.max(axis=0 if columns else 1, keepdims=True))
