"""Every elementwise operator on every dtype against NumPy, special values included."""
from __future__ import annotations

import numpy as np
import pytest
from elementwise_forms import DTYPES, cases, elementwise_form
from evaluate import memory
from harness import Builder, check, filled, launch

from jitfuse.ir.kernels.form import Operand
from jitfuse.ir.operators import ops

ULPS = {op.name for op in ops.table() if op.ulps}
SIZES = (0, 1, 2, 15, 16, 17, 33, 1000, 4097)


@pytest.mark.parametrize(("op", "inputs", "result"), cases())
def test_operator(op: str, inputs: tuple[str, ...], result: str) -> None:
    form = elementwise_form(op, inputs, result)
    integer_power = op == "power" and inputs[1].startswith("int")
    for n in SIZES:
        arrays = [filled(d, (n,), seed=k + n, special=True) for k, d in enumerate(inputs)]
        if integer_power:
            arrays[1] = np.abs(arrays[1] % 70)
        out = filled(result, (n,), 9)
        check(form, (n,), [memory(x) for x in [*arrays, out]], ulps=3 if op in ULPS else 0, pieces=2)


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_cast(source: str, target: str) -> None:
    form = elementwise_form("astype", (source,), target)
    for n in (1, 17, 1000):
        check(form, (n,), [memory(filled(source, (n,), n, special=True)), memory(filled(target, (n,)))])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("exponent", [2, 1, 0, 0.5, -1, 3, -0.5])
def test_power_of_a_known_exponent_has_the_bits_of_numpys_scalar_power(dtype: str, exponent: float) -> None:
    b = Builder()
    x = b.load(0, dtype)
    b.store(1, dtype, b.add("power", dtype, x, b.add("const", dtype, imm=exponent)))
    b.stage("map")
    form = b.form(1, 0, 0, [Operand(dtype, ("1",)), Operand(dtype, ("1",), True)])
    exact = exponent in (2, 1, 0, 0.5, -1)
    x_ = np.abs(filled(dtype, (999,), 3)) if not exact else filled(dtype, (999,), 3, special=True)
    check(form, (999,), [memory(x_), memory(filled(dtype, (999,)))], ulps=0 if exact else 2)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 10, 31])
def test_integer_power_of_a_known_exponent(dtype: str, exponent: int) -> None:
    b = Builder()
    b.store(1, dtype, b.add("power", dtype, b.load(0, dtype), b.add("const", dtype, imm=exponent)))
    b.stage("map")
    form = b.form(1, 0, 0, [Operand(dtype, ("1",)), Operand(dtype, ("1",), True)])
    check(form, (133,), [memory(filled(dtype, (133,), 3, special=True)), memory(filled(dtype, (133,)))])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_negative_integer_power_is_reported(dtype: str) -> None:
    form = elementwise_form("power", (dtype, dtype), dtype)
    for n, at in ((1, 0), (40, 39), (5000, 4998)):
        x, e, out = filled(dtype, (n,)), np.full(n, 3, dtype), filled(dtype, (n,))
        assert launch(form, (n,), [memory(a) for a in (x, e, out)]) == 0
        e[at] = -1
        assert launch(form, (n,), [memory(a) for a in (x, e, out)]) == 1


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("op", ["floor_divide", "remainder"])
def test_division_of_large_and_small_integers(op: str, dtype: str) -> None:
    form = elementwise_form(op, (dtype, dtype), dtype)
    info = np.iinfo(dtype)
    values = [info.min, info.min + 1, info.max, info.max - 1, 2**31 - 1, -(2**31), 2**30 + 1, 1, -1, 0, 3, -3]
    if dtype == "int64":
        values += [2**52, 2**52 + 1, -(2**52) - 1, 2**53 - 1, 2**62 - 1]
    a, b = (x.ravel().astype(dtype) for x in np.meshgrid(values, values))
    check(form, a.shape, [memory(x) for x in (a, b, np.zeros_like(a))])
    small = np.abs(a) < 2**52
    a, b = a[small & (np.abs(b) < 2**52)], b[small & (np.abs(b) < 2**52)]
    check(form, a.shape, [memory(x) for x in (a, b, np.zeros_like(a))])


def test_random_numbers() -> None:
    for dtype in ("float32", "float64"):
        b = Builder()
        args = [b.add("param", "int64", imm=k) for k in range(3)]
        b.store(0, dtype, b.add("random", dtype, *args, b.add("index", "int64", imm=0)))
        b.stage("map")
        form = b.form(1, 0, 0, [Operand(dtype, ("1",), True)], ("int64",) * 3)
        check(form, (99,), [memory(filled(dtype, (99,)))], [2**63 - 25, 7, 3])
