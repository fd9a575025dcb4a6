"""Maps over memory of every layout: strides, offsets, broadcasts, masks, several grid axes, streaming."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from amount import drawn
from evaluate import memory
from forms import combined
from harness import Builder, check, filled, launch

from jitfuse.ir.kernels.form import Operand
from jitfuse.ir.kernels.stages import Reduction


def run(views: list[Any], out: Any, lane_axis: int = -1, grid: Any = None, **options: Any) -> None:
    lane_axis %= out.ndim
    views = [np.broadcast_to(v, out.shape) for v in views]
    check(combined(views, out, lane_axis, grid), out.shape, [memory(v) for v in [*views, out]], **options)


def shifted(dtype: str, n: int, by: int) -> Any:
    return filled(dtype, (n + by,), n)[by:]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("n", [1, 15, 17, 1000, 9001])
def test_one_axis_of_any_stride(dtype: str, n: int) -> None:
    x = filled(dtype, (3 * n + 7,), n)
    for a, o in ((x[::3][:n], 1), (x[::-1][:n], 1), (x[5 : 5 + n], 2), (x[3::2][:n], -1)):
        out = filled(dtype, (2 * n + 9,), 5)[3:][::o][:n]
        run([a, shifted(dtype, n, 1)], out)


@pytest.mark.parametrize("flags", [0, 1])
@pytest.mark.parametrize("n", [1, 16, 63, 4096, 4097, 12_345])
def test_streaming_writes_the_same_bytes(n: int, flags: int) -> None:
    """Whether the output begins at a cache line or not."""
    for dtype, by in itertools.product(("float32", "float64"), (0, 1, 5)):
        x, out = shifted(dtype, n, by), filled(dtype, (n + 64,), 2)
        line = -out.ctypes.data % 64 // out.itemsize
        run([shifted(dtype, n, 0), x], out[line + by :][:n], flags=flags, pieces=3)


def test_streaming_of_bools() -> None:
    b = Builder()
    b.store(1, "bool", b.add("logical_not", "bool", b.load(0, "bool")))
    b.stage("map")
    for by in (0, 1, 3):
        x, out = filled("bool", (10_007,)), filled("bool", (10_050,), 2)[by:][:10_007]
        form = b.form(1, 0, 0, [memory(x).operand(), memory(out).operand(True)])
        check(form, (10_007,), [memory(x), memory(out)], flags=1)


@pytest.mark.parametrize("lane_axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(3, 5, 33), (1, 1, 1), (2, 0, 4), (4, 3, 1), (17, 3, 130)])
def test_several_axes(shape: tuple[int, ...], lane_axis: int) -> None:
    x = filled("float32", shape)
    t = filled("float32", shape[::-1], 1).T
    row, column = filled("float32", shape[-1:], 2), filled("float32", (shape[0], 1, 1), 3)
    flipped = filled("float32", shape, 4)[::-1, :, ::-1]
    scalar = filled("float32", (1, 1, 1), 5)
    for order in (1, -1):
        out = np.zeros(shape[::order], "float32").transpose(range(3)[::order])
        run([x, t, row, column, flipped, scalar], out, lane_axis, pieces=2)


def test_static_extents() -> None:
    x, out = filled("float64", (40, 3)), np.zeros((40, 3))
    run([x, filled("float64", (3,))], out, 1, grid=(None, 3))
    run([x, filled("float64", (3,))], out, 0, grid=(None, 3))


@pytest.mark.parametrize(
    "dtypes", [("float32", "float64"), ("bool", "float64"), ("int64", "float32"), ("bool", "int32")]
)
def test_mixed_widths(dtypes: tuple[str, str]) -> None:
    source, target = dtypes
    for n in (5, 64, 1000):
        b = Builder()
        x = b.load(0, source)
        wide = b.add("astype", target, x)
        b.store(1, target, b.add("add", target, wide, wide))
        b.store(2, "bool", b.add("astype", "bool", wide))
        b.stage("map")
        views = [filled(source, (n,)), filled(target, (n,)), filled("bool", (n,))]
        operands = [memory(v).operand(k > 0) for k, v in enumerate(views)]
        check(b.form(1, 0, 0, operands), (n,), [memory(v) for v in views])


def test_zero_dimensional() -> None:
    b = Builder()
    x = b.load(0, "float64")
    b.store(1, "float64", b.add("sin", "float64", b.add("add", "float64", x, b.add("param", "float64", imm=0))))
    b.stage("point")
    views = [np.array(0.25), np.array(0.0)]
    form = b.form(0, 0, 0, [memory(v).operand(k > 0) for k, v in enumerate(views)], ("float64",))
    check(form, (), [memory(v) for v in views], [0.5], ulps=1)


def test_masked_loads_join_two_arrays() -> None:
    for p, q in ((5, 30), (100, 60), (0, 17), (40, 0)):
        for step in (1, 2):
            a, c = filled("float32", (p * step,))[::step], filled("float32", (q * step,), 1)[::step]
            out = np.zeros(p + q, "f4")
            b = Builder()
            i = b.add("index", "int64", imm=0)
            split = b.add("param", "int64", imm=0)
            first = b.add("less", "bool", i, split)
            x = b.load(0, "float32", mask=first)
            back = b.add("negative", "int64", b.add("multiply", "int64", split, b.add("param", "int64", imm=1)))
            y = b.load(1, "float32", offset=back, mask=b.add("logical_not", "bool", first))
            b.store(2, "float32", b.add("where", "float32", first, x, y))
            b.stage("map")
            kind = "1" if step == 1 else "n"
            operands = [Operand("float32", (kind,)), Operand("float32", (kind,)), Operand("float32", ("1",), True)]
            form = b.form(1, 0, 0, operands, ("int64", "int64"))
            bound = [memory(v) for v in (a, c, out)]
            for m in bound[:2]:
                m.strides = (4 * step,)
            result = check(form, (p + q,), bound, [p, 4 * step])[2]
            assert (result.buffer.view("f4") == np.concatenate([a, c])).all()


def test_loads_at_computed_offsets_and_masked_stores() -> None:
    """out.reshape(-1)[i] = x[i % n, i // n], and only where i is even."""
    n, m = 7, 41
    for dtype in ("float32", "int64", "bool"):
        size = np.dtype(dtype).itemsize
        x, out = filled(dtype, (n, m)), filled(dtype, (n * m,), 4)
        b = Builder()
        i = b.add("index", "int64", imm=0)
        rows = b.add("param", "int64", imm=0)
        row, column = b.add("remainder", "int64", i, rows), b.add("floor_divide", "int64", i, rows)
        element = b.add("add", "int64", b.add("multiply", "int64", row, b.add("param", "int64", imm=1)), column)
        offset = b.add("multiply", "int64", element, b.add("param", "int64", imm=2))
        two = b.add("const", "int64", imm=2)
        even = b.add("equal", "bool", b.add("remainder", "int64", i, two), b.add("const", "int64", imm=0))
        b.store(1, dtype, b.load(0, dtype, offset=offset), mask=even)
        b.stage("map")
        operands = [memory(x.ravel()), memory(out)]
        operands[0].strides = (0,)
        form = b.form(1, 0, 0, [operands[0].operand(), operands[1].operand(True)], ("int64",) * 3)
        result = check(form, (n * m,), operands, [n, m, size])[1]
        expected = out.copy()
        expected[::2] = x.T.ravel()[::2]
        assert (result.buffer.view(dtype) == expected).all()


def test_values_that_all_lanes_share_are_computed_and_loaded_once() -> None:
    b = Builder()
    scale = b.add("exp", "float32", b.load(1, "float32"))
    row = b.add("exp", "float32", b.load(2, "float32"))
    b.store(3, "float32", b.add("multiply", "float32", b.add("multiply", "float32", b.load(0, "float32"), scale), row))
    b.stage("map")
    shape = (5, 70)
    views = [filled("float32", shape), np.broadcast_to(np.full((1, 1), 0.3, "f4"), shape),
             np.broadcast_to(filled("float32", (5, 1)), shape), np.zeros(shape, "f4")]
    form = b.form(2, 0, 1, [memory(v).operand(k == 3) for k, v in enumerate(views)])
    check(form, shape, [memory(v) for v in views], ulps=3)


def test_in_place() -> None:
    x = filled("float32", (777,))
    b = Builder()
    v = b.load(0, "float32")
    b.store(1, "float32", b.add("multiply", "float32", v, v))
    b.stage("map")
    form = b.form(1, 0, 0, [memory(x).operand(), memory(x).operand(True)])
    for flags in (0, 1):
        y = x.copy()
        launch(form, (777,), [memory(y), memory(y)], flags=flags)
        assert (y == x * x).all()


@pytest.mark.parametrize("seed", range(drawn(12)))
def test_random_chains(seed: int) -> None:
    r = np.random.default_rng(seed)
    b = Builder()
    dtype = ("float32", "float64", "int32", "int64")[seed % 4]
    values = [b.load(k, dtype) for k in range(3)]
    names = ["add", "subtract", "multiply", "minimum", "maximum", "abs", "negative", "square", "sign", "where"]
    for _ in range(40):
        name = str(r.choice(names))
        picked = [int(r.choice(values)) for _ in range(2)]
        if name == "where":
            values.append(b.add("where", dtype, b.add("less", "bool", *picked), *picked))
        else:
            values.append(b.add(name, dtype, *picked[: 1 if name in ("abs", "negative", "square", "sign") else 2]))
    b.store(3, dtype, values[-1])
    b.store(4, dtype, values[-2])
    b.stage("map")
    shape = (3, int(r.integers(1, 400)))
    row = np.broadcast_to(filled(dtype, (shape[1],), 2), shape)
    views = [filled(dtype, shape, seed), filled(dtype, shape[::-1], 1).T, row, np.zeros(shape, dtype),
             np.zeros(shape[::-1], dtype).T]
    form = b.form(2, 0, int(r.integers(2)), [memory(v).operand(k > 2) for k, v in enumerate(views)])
    check(form, shape, [memory(v) for v in views])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bodies_too_long_for_two_copies(dtype: str) -> None:
    """Over a grid axis, then along an inner axis with a sum."""
    for inner in (0, 1):
        b = Builder()
        x = v = b.load(0, dtype)
        for _ in range(40):
            v = b.add("add", dtype, b.add("sin", dtype, v), x)
        operands = [Operand(dtype, ("1",)), Operand(dtype, ("1",), True)]
        if inner:
            total, = b.stage("reduce", Reduction("sum", dtype, (v,)))
            v = b.add("multiply", dtype, b.load(0, dtype), total)
        b.store(1, dtype, v)
        b.stage("map")
        form = b.form(1 - inner, inner, 0, operands)
        for n in (3, 100, 1000):
            check(form, (n,), [memory(filled(dtype, (n,), n)), memory(np.zeros(n, dtype))], ulps=60 + n)
