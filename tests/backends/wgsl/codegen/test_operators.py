"""Every elementwise operator on the GPU against the evaluator, bit for bit, special values included."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from evaluate import memory
from gpu_harness import applied, check
from harness import Builder, filled

from jitfuse.ir.kernels.form import Operand

N = 1501
ARITHMETIC = ("add", "subtract", "multiply", "minimum", "maximum", "floor_divide", "remainder", "fmin", "fmax")
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift")
LOGICAL = ("logical_and", "logical_or", "logical_xor")
UNARY = ("negative", "abs", "square", "sign", "positive", "floor", "ceil", "trunc")
FLOATS, INTS = ("float32", "float64"), ("int32", "int64")


def cases() -> list[tuple[str, tuple[str, ...], str]]:
    found = [(op, (d, d), d) for op in ARITHMETIC for d in FLOATS + INTS]
    found += [(op, (d, d), d) for op in ("divide", "fmod", "copysign", "heaviside") for d in FLOATS]
    found += [(op, (d,), d) for op in ("sqrt", "rint", "reciprocal") for d in FLOATS]
    found += [(op, (d, d), "bool") for op in COMPARISONS for d in (*FLOATS, *INTS, "bool")]
    found += [(op, (d, d), d) for op in BITWISE for d in INTS]
    found += [(op, ("bool", "bool"), "bool") for op in LOGICAL + BITWISE[:3] + ARITHMETIC[:1] + ARITHMETIC[2:5]]
    found += [(op, (d,), d) for op in UNARY for d in FLOATS + INTS]
    found += [(op, (d,), "bool") for op in ("isnan", "isinf", "isfinite", "signbit") for d in FLOATS]
    return [*found, ("logical_not", ("bool",), "bool"), *((op, ("bool", d, d), d) for op in ("where",) for d in FLOATS)]


@pytest.mark.parametrize(("op", "dtypes", "result"), cases())
def test_operator(device: Any, op: str, dtypes: tuple[str, ...], result: str) -> None:
    inputs = [filled(d, (N,), k, special=d != "bool") for k, d in enumerate(dtypes)]
    check(device, applied(op, dtypes, result), (N,), [*map(memory, inputs), memory(np.zeros(N, result))])


@pytest.mark.parametrize("target", (*FLOATS, *INTS, "bool"))
@pytest.mark.parametrize("source", (*FLOATS, *INTS, "bool"))
def test_cast(device: Any, source: str, target: str) -> None:
    x = filled(source, (N,), special=source != "bool")
    check(device, applied("astype", (source,), target), (N,), [memory(x), memory(np.zeros(N, target))])


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 31])
@pytest.mark.parametrize("dtype", INTS)
def test_integer_power_of_a_known_exponent(device: Any, dtype: str, exponent: int) -> None:
    b = Builder()
    x = b.load(0, dtype)
    b.store(1, dtype, b.add("power", dtype, x, b.add("const", dtype, imm=exponent)))
    b.stage("point")
    form = b.form(1, 0, 0, [Operand(dtype, ("1",)), Operand(dtype, ("1",), True)])
    check(device, form, (N,), [memory(filled(dtype, (N,), special=True)), memory(np.zeros(N, dtype))])


@pytest.mark.parametrize("dtype", FLOATS)
def test_arithmetic_is_not_rewritten(device: Any, dtype: str) -> None:
    """x - x, x * 0, x + 0, (x + y) - x, x * y - z and x / x by the letter of IEEE 754."""
    x, y = filled(dtype, (N,), special=True), filled(dtype, (N,), 1, special=True)
    b = Builder()
    u, v = b.load(0, dtype), b.load(1, dtype)
    zero, one = b.add("const", dtype, imm=0), b.add("const", dtype, imm=1)
    results = [
        b.add("subtract", dtype, u, u), b.add("multiply", dtype, u, zero), b.add("add", dtype, u, zero),
        b.add("subtract", dtype, b.add("add", dtype, u, v), u), b.add("divide", dtype, u, u),
        b.add("subtract", dtype, b.add("multiply", dtype, u, v), b.add("multiply", dtype, v, u)),
        b.add("add", dtype, u, b.add("negative", dtype, u)), b.add("multiply", dtype, u, one),
        b.add("add", dtype, b.add("multiply", dtype, u, v), b.add("multiply", dtype, u, u)),
    ]
    for k, r in enumerate(results):
        b.store(2 + k, dtype, r)
    b.stage("point")
    operands = [Operand(dtype, ("1",))] * 2 + [Operand(dtype, ("1",), True)] * len(results)
    outs = [memory(np.zeros(N, dtype)) for _ in results]
    check(device, b.form(1, 0, 0, operands), (N,), [memory(x), memory(y), *outs])


def test_scalars_in_the_words(device: Any) -> None:
    """Parameters, scalars of the call and what comes of them are computed by the host, and read from the words."""
    b = Builder()
    x, scale = b.load(0, "float32"), b.add("astype", "float32", b.load(1, "float64"))
    n = b.add("astype", "float32", b.add("astype", "float64", b.add("param", "int64", imm=0)))
    b.store(2, "float32", b.add("divide", "float32", b.add("multiply", "float32", x, scale), n))
    b.stage("point")
    declared = [Operand("float32", ("1",)), Operand("float64", ("0",)), Operand("float32", ("1",), True)]
    form = b.form(1, 0, 0, declared, ("int64",))
    number = memory(np.array([0.1]))
    number.strides = (0,)
    for inline in (False, True):
        operands = [memory(filled("float32", (N,))), number, memory(np.zeros(N, "float32"))]
        check(device, form, (N,), operands, [7], inline=inline)
