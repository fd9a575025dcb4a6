"""Maps over memory of every layout on the GPU: strides, offsets, broadcasts, masks, several grid axes."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from evaluate import memory
from forms import combined
from gpu_harness import check
from harness import Builder, filled

from jitfuse.backends.wgsl.codegen.variant import POINT_GROUP
from jitfuse.backends.wgsl.runtime.pipelines import MAX_GROUPS
from jitfuse.ir.kernels.form import Operand


def run(device: Any, views: list[Any], out: Any) -> None:
    views = [np.broadcast_to(v, out.shape) for v in views]
    check(device, combined(views, out, kind="point"), out.shape, [memory(v) for v in [*views, out]])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
@pytest.mark.parametrize("n", [1, 63, 64, 1000])
def test_one_axis_of_any_stride(device: Any, dtype: str, n: int) -> None:
    x = filled(dtype, (3 * n + 7,), n)
    for a, o in ((x[::3][:n], 1), (x[::-1][:n], 1), (x[5 : 5 + n], 2), (x[3::2][:n], -1)):
        out = filled(dtype, (2 * n + 9,), 5)[3:][::o][:n]
        run(device, [a], out)


@pytest.mark.parametrize("shape", [(3, 5, 33), (1, 1, 1), (2, 0, 4), (4, 3, 1), (17, 3, 130)])
def test_several_axes(device: Any, shape: tuple[int, ...]) -> None:
    x = filled("float32", shape)
    t = filled("float32", shape[::-1], 1).T
    row, column = filled("float32", shape[-1:], 2), filled("float32", (shape[0], 1, 1), 3)
    flipped = filled("float32", shape, 4)[::-1, :, ::-1]
    for order in (1, -1):
        out = np.zeros(shape[::order], "float32").transpose(range(3)[::order])
        run(device, [x, t, row, column, flipped], out)


@pytest.mark.full
def test_more_points_than_one_round_of_workgroups(device: Any) -> None:
    n = MAX_GROUPS * POINT_GROUP + 129
    x = np.arange(n, dtype="int32")
    run(device, [x], np.zeros(n, "int32"))


def test_masked_loads_join_two_arrays(device: Any) -> None:
    for n, m in ((1, 1), (5, 100), (63, 2), (64, 64)):
        x, y, out = filled("float32", (n,)), filled("float32", (m,), 1), np.zeros(n + m, "float32")
        b = Builder()
        i = b.add("index", "int64", imm=0)
        first = b.add("less", "bool", i, b.add("param", "int64", imm=0))
        behind = b.add("logical_not", "bool", first)
        back = b.add("multiply", "int64", b.add("param", "int64", imm=0), b.add("const", "int64", imm=-4))
        left, right = b.load(0, "float32", mask=first), b.load(1, "float32", offset=back, mask=behind)
        b.store(2, "float32", b.add("where", "float32", first, left, right))
        b.stage("point")
        form = b.form(1, 0, 0, [Operand("float32", ("1",)), Operand("float32", ("1",)),
                                Operand("float32", ("1",), True)], ("int64",))
        got = check(device, form, (n + m,), [memory(x), memory(y), memory(out)], [n])[2]
        assert (got.buffer.view("f4") == np.concatenate([x, y])).all()


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_cells_are_stored_element_by_element(device: Any, dtype: str) -> None:
    for n, step in ((1, 3), (65, 3), (300, 4)):
        columns, out = [filled(dtype, (n,), k) for k in range(3)], filled(dtype, (n, step), 9)
        b = Builder()
        b.store(3, dtype, *[b.load(k, dtype) for k in range(3)])
        b.stage("point")
        cells = Operand(dtype, ("1" if step == 3 else "n",), True, 3)
        bound = memory(out)
        bound.strides = bound.strides[:1]
        check(device, b.form(1, 0, 0, [Operand(dtype, ("1",))] * 3 + [cells]), (n,), [*map(memory, columns), bound])


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_computed_offsets_and_masked_stores(device: Any, dtype: str) -> None:
    n, size = 1000, np.dtype(dtype).itemsize
    b = Builder()
    i = b.add("index", "int64", imm=0)
    place = b.add("remainder", "int64", b.add("multiply", "int64", i, b.add("param", "int64", imm=0)),
                  b.add("param", "int64", imm=1))
    offset = b.add("multiply", "int64", place, b.add("param", "int64", imm=2))
    keep = b.add("less", "bool", place, b.add("param", "int64", imm=3))
    b.store(1, dtype, b.load(0, dtype, offset=offset), mask=keep)
    b.stage("point")
    form = b.form(1, 0, 0, [Operand(dtype, ("0",)), Operand(dtype, ("1",), True)], ("int64",) * 4)
    source = memory(filled(dtype, (n,)))
    source.strides = (0,)
    check(device, form, (n,), [source, memory(filled(dtype, (n,), 3))], [7, n, size, 600])


def test_index_values_past_32_bits_are_not_cut(device: Any) -> None:
    """An arange in steps of 2**40: the launch's numbers say that 32 bits do not do."""
    b = Builder()
    i = b.add("index", "int64", imm=0)
    b.store(0, "int64", b.add("multiply", "int64", i, b.add("param", "int64", imm=0)))
    b.stage("point")
    form = b.form(1, 0, 0, [Operand("int64", ("1",), True)], ("int64",))
    for step in (3, 2**40, -(2**31), 2**30):
        check(device, form, (100,), [memory(np.zeros(100, "int64"))], [step])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_random_numbers(device: Any, dtype: str) -> None:
    n = 300
    b = Builder()
    seed = b.load(0, "int64")
    counter = b.load(0, "int64", offset=b.add("param", "int64", imm=1))
    index, element = b.add("param", "int64", imm=0), b.add("index", "int64", imm=0)
    b.store(1, dtype, b.add("random", dtype, seed, counter, index, element))
    b.stage("point")
    form = b.form(1, 0, 0, [Operand("int64", ("0",)), Operand(dtype, ("1",), True)], ("int64", "int64"))
    for state in ([5, 0], [-(2**60) - 3, 2**33 + 1]):
        source = memory(np.array(state, "int64"))
        source.strides = (0,)
        check(device, form, (n,), [source, memory(np.zeros(n, dtype))], [3, 8])
