"""Stores of cells: several values for each position, interleaved in memory."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from evaluate import Memory, memory
from harness import Builder, check, filled

from jitfuse.backends.llvm.codegen.analysis import Analysis
from jitfuse.backends.llvm.codegen.layout import MAP_BLOCK
from jitfuse.ir.kernels.form import MAX_CELL, KernelForm, Operand

ALL = tuple(range(2, MAX_CELL + 1))
FEW = (2, 3, 4, 5, 6, 9, 13, MAX_CELL)
"""Few as there are many lanes of a byte: primes, their powers and products, more parts than lanes of a wide dtype."""


def cell_form(dtype: str, cell: int, step: str = "1", grid: int = 1) -> KernelForm:
    """Return the form that stores `cell` arrays as the columns of one."""
    b = Builder()
    b.store(cell, dtype, *[b.load(k, dtype) for k in range(cell)])
    b.stage("point")
    lead = ("n",) * (grid - 1)
    operands = [Operand(dtype, (*lead, "1"))] * cell + [Operand(dtype, (*lead, step), True, cell)]
    return b.form(grid, 0, grid - 1, operands)


def of_cells(out: Any) -> Memory:
    """Bind an array whose last axis are cells."""
    bound = memory(out)
    bound.strides = bound.strides[:-1]
    return bound


def columns(dtype: str, cell: int, n: int) -> list[Any]:
    return [filled(dtype, (n,), k) for k in range(cell)]


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "int8", "bool", "float16"])
def test_columns_are_interleaved(dtype: str, vector_bytes: int) -> None:
    for cell in (ALL if dtype == "float32" else FEW if dtype == "bool" else (2, 3, 4)):
        for n in (1, 7, 64, 65, 1000):
            out = filled(dtype, (n, cell), 9)
            given = columns(dtype, cell, n)
            operands = [*map(memory, given), of_cells(out)]
            stored = check(cell_form(dtype, cell), (n,), operands, vector_bytes=vector_bytes)[-1]
            assert (stored.buffer == np.stack(given, axis=1).view(np.uint8).reshape(-1)).all()


@pytest.mark.parametrize("dtype", ["float64", "int8", "bool"])
def test_blocks_threads_and_stores_past_the_caches(dtype: str) -> None:
    for n, flags in ((MAP_BLOCK * 2 + 5, 0), (MAP_BLOCK * 2 + 5, 1), (MAP_BLOCK, 1)):
        for first in (0, 1):
            out = filled(dtype, (n + 1, 3), 9)[first : n + first]
            operands = [*map(memory, columns(dtype, 3, n)), of_cells(out)]
            check(cell_form(dtype, 3), (n,), operands, flags=flags, pieces=3)


@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_cells_that_are_apart(dtype: str) -> None:
    for n in (1, 17, 300):
        for out in (filled(dtype, (n, 5), 9)[:, 1:4], filled(dtype, (2 * n, 3), 9)[::-2]):
            check(cell_form(dtype, 3, "n"), (n,), [*map(memory, columns(dtype, 3, n)), of_cells(out)])


def test_rows_of_cells() -> None:
    given = [filled("float32", (5, 33), k) for k in range(2)]
    for out in (np.zeros((5, 33, 2), "float32"), np.zeros((9, 40, 2), "float32")[::2, :33]):
        check(cell_form("float32", 2, grid=2), (5, 33), [*map(memory, given), of_cells(out)])


def test_values_that_all_lanes_share() -> None:
    b = Builder()
    one = b.add("param", "float32", imm=0)
    b.store(1, "float32", b.load(0, "float32"), one, one)
    b.stage("point")
    form = b.form(1, 0, 0, [Operand("float32", ("1",)), Operand("float32", ("1",), True, 3)], ("float32",))
    out = np.zeros((100, 3), "float32")
    check(form, (100,), [memory(filled("float32", (100,))), of_cells(out)], [2.5])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_long_bodies_have_one_copy_and_pads(dtype: str) -> None:
    b = Builder()
    b.store(1, dtype, *[b.add(op, dtype, b.load(0, dtype)) for op in ("sin", "cos", "exp")])
    high = b.add("greater", "bool", b.load(0, dtype), b.add("const", dtype, imm=0))
    b.store(2, "bool", high, b.add("logical_not", "bool", high))
    b.stage("point")
    form = b.form(1, 0, 0, [Operand(dtype, ("1",)), Operand(dtype, ("1",), True, 3), Operand("bool", ("1",), True, 2)])
    assert Analysis(form).pads
    for n in (1, 31, 64, 300, MAP_BLOCK + 3):
        for flags in (0, 1):
            outs = filled(dtype, (n, 3), 9), filled("bool", (n, 2), 9)
            check(form, (n,), [memory(filled(dtype, (n,))), *map(of_cells, outs)], ulps=4, flags=flags)


def test_a_single_cell() -> None:
    b = Builder()
    b.store(1, "bool", *[b.add("equal", "bool", b.load(0, "int32"), b.add("const", "int32", imm=k)) for k in (0, 1)])
    b.stage("point")
    form = b.form((1,), 0, 0, [Operand("int32", ("0",)), Operand("bool", ("0",), True, 2)])
    given, out = memory(np.array([1], "int32")), memory(np.zeros(2, bool))
    given.strides = out.strides = (0,)
    check(form, (1,), [given, out])
