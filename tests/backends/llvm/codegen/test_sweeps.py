"""Kernels that run whole loops, in one piece and in several."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from harness import compiled

from jitfuse.ir.kernels.decoding import form_of
from jitfuse.ir.kernels.form import KernelAxis, KernelForm, Operand, Sweep
from jitfuse.ir.kernels.stages import Instr, Stage
from jitfuse.ir.statuses import OUT_OF_BOUNDS


def run(form: KernelForm, words: list[int], *bounds: int) -> int:
    """Run iterations, units and all, from each bound to the next."""
    kernel, _ = compiled(form)
    block = np.array(words, np.int64)
    for begin, end in itertools.pairwise(bounds):
        status = kernel(block.ctypes.data, begin, end, None)
        if status:
            return int(status)
    return 0


def recurrence(carried: bool) -> KernelForm:
    """y = before * 2 + x, by numbers, the number before in a register or in memory."""
    body = (
        Instr("load", "int64", (), (0, False, False)), Instr("load", "int64", (), (1, False, False)),
        Instr("const", "int64", (), 2), Instr("multiply", "int64", (1, 2)), Instr("add", "int64", (0, 3)),
        Instr("store", "int64", (4,), (2, False, False)),
    )
    before = Operand("int64", ("0" if carried else "n", "0"))
    operands = Operand("int64", ("n", "0")), before, Operand("int64", ("n", "0"), True)
    sweep = Sweep(((1, 2),), (0, None, 1)) if carried else Sweep((), (0, 1, 1))
    return KernelForm((KernelAxis(None), KernelAxis(1)), (), 1, operands, (), (Stage("point", body),), sweep=sweep)


@pytest.mark.parametrize("bounds", [(0, 9), (0, 1, 9), (0, 0, 4, 4, 9), tuple(range(10))])
@pytest.mark.parametrize("step", [8, 16, -8, 0])
@pytest.mark.parametrize("carried", [False, True])
def test_a_recurrence(bounds: tuple[int, ...], step: int, carried: bool) -> None:
    form = recurrence(carried)
    assert form_of(form.canonical_bytes) == form and "g0 in order" in str(form)
    x, y = np.arange(1, 10), np.zeros(40, np.int64)
    first = np.array([5])
    at = y.ctypes.data + 8 * 20
    y[20 - step // 8] = 5
    before = first.ctypes.data if carried else at - step
    steps = [8, step]
    assert run(form, [x.ctypes.data, before, at, *steps, 9, 0], *bounds) == 0
    want, value = np.zeros(40, np.int64), 5
    want[20 - step // 8] = 5
    for k in range(9):
        value = want[20 + k * step // 8] = value * 2 + x[k]
    np.testing.assert_array_equal(y, want)


def rows() -> KernelForm:
    """A row of each iteration is twice the one before, plus its number and its column's; rows have several units."""
    body = (
        Instr("load", "float64", (), (0, False, False)), Instr("add", "float64", (0, 0)),
        Instr("index", "int64", (), 0), Instr("index", "int64", (), 2),
        Instr("add", "int64", (2, 3)), Instr("astype", "float64", (4,)), Instr("add", "float64", (1, 5)),
        Instr("store", "float64", (6,), (1, False, False)),
    )
    operands = Operand("float64", ("n", "n", "1")), Operand("float64", ("n", "n", "1"), True)
    grid = KernelAxis(None), KernelAxis(None), KernelAxis(None)
    return KernelForm(grid, (), 2, operands, (), (Stage("point", body),), sweep=Sweep((), (0, 0)))


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 4100)])
def test_iterations_of_several_units(shape: tuple[int, int]) -> None:
    n, m = shape
    units = n * -(-m // 4096)
    t = np.zeros((6, n, m))
    t[0] = 0.25
    words = [t.ctypes.data, t[1].ctypes.data, 8 * m, 8 * m, 8 * n * m, 5, n, m, 0]
    assert run(rows(), words, 0, 2 * units, 3 * units, 5 * units) == 0
    want = np.full((n, m), 0.25)
    for k in range(5):
        want = want + want + (k + np.arange(m))
        np.testing.assert_array_equal(t[k + 1], want)


def test_a_status_ends_the_loop() -> None:
    body = (
        Instr("load", "int64", (), (0, False, False)), Instr("const", "int64", (), 2),
        Instr("bounded", "int64", (0, 1), 0), Instr("store", "int64", (2,), (1, False, False)),
    )
    operands = Operand("int64", ("n", "0")), Operand("int64", ("n", "0"), True)
    grid = KernelAxis(None), KernelAxis(1)
    form = KernelForm(grid, (), 1, operands, (), (Stage("point", body),), sweep=Sweep((), (0, 0)))
    index, out = np.array([0, 1, 5, 1, 9, 1]), np.full(6, 7)
    words: list[Any] = [index.ctypes.data, out.ctypes.data, 8, 6, 0]
    assert run(form, words, 0, 6) == 5 << 16 | OUT_OF_BOUNDS
    assert out.tolist() == [0, 1, 0, 7, 7, 7]
