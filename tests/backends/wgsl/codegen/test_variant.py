"""What an adapter or WGSL does not have is refused by name; what needs no 64-bit type runs without them."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from evaluate import memory
from gpu_harness import applied, check
from harness import Builder, filled

from jitfuse.backends.wgsl.codegen.kernel import emit_shader
from jitfuse.backends.wgsl.codegen.operators import UnknownOperatorError
from jitfuse.backends.wgsl.codegen.types import Facts
from jitfuse.backends.wgsl.codegen.variant import choose
from jitfuse.ir.kernels.form import KernelForm, Operand

ALL = Facts(frozenset({"shader-f64", "shader-int64"}), True)


def emitted(form: KernelForm, facts: Facts = ALL) -> str:
    variant = choose(form, (5,) * len(form.axes), [0] * len(form.params), range(len(form.operands)), {})
    return emit_shader(form, variant, facts).text


def test_the_message_names_operator_and_dtype() -> None:
    with pytest.raises(UnknownOperatorError, match="gcd of int32"):
        emitted(applied("gcd", ("int32", "int32"), "int32"))


@pytest.mark.parametrize(("dtype", "feature"), [("float64", "shader-f64"), ("int64", "shader-int64")])
def test_types_that_the_adapter_lacks(dtype: str, feature: str) -> None:
    with pytest.raises(UnknownOperatorError, match=feature):
        emitted(applied("add", (dtype, dtype), dtype), Facts(frozenset(), True))


def test_functions_that_are_computed_in_float64() -> None:
    with pytest.raises(UnknownOperatorError, match="cbrt of float32 needs shader-f64"):
        emitted(applied("cbrt", ("float32",), "float32"), Facts(frozenset(), True))


def test_integers_to_run_time_powers_may_have_to_raise() -> None:
    with pytest.raises(UnknownOperatorError, match="power"):
        emitted(applied("power", ("int32", "int32"), "int32"))


def test_equal_forms_give_equal_text() -> None:
    form = applied("add", ("float32", "float32"), "float32")
    assert emitted(form) == emitted(form)


def test_index_arithmetic_and_scalars_need_no_64_bit_type(plain_device: Any) -> None:
    n = 200
    b = Builder()
    i = b.add("index", "int64", imm=0)
    place = b.add("subtract", "int64", b.add("param", "int64", imm=0), i)
    offset = b.add("multiply", "int64", place, b.add("param", "int64", imm=1))
    scale = b.add("astype", "float32", b.load(1, "float64"))
    value = b.add("multiply", "float32", b.load(0, "float32", offset=offset), scale)
    b.store(2, "float32", b.add("add", "float32", value, b.add("astype", "float32", i)))
    b.stage("point")
    operands = [Operand("float32", ("0",)), Operand("float64", ("0",)), Operand("float32", ("1",), True)]
    form = b.form(1, 0, 0, operands, ("int64", "int64"))
    source, number = memory(filled("float32", (n,))), memory(np.array([1.7]))
    source.strides = number.strides = (0,)
    check(plain_device, form, (n,), [source, number, memory(np.zeros(n, "float32"))], [n - 1, 4], inline=True)


def test_random_numbers_need_no_64_bit_type(plain_device: Any) -> None:
    b = Builder()
    seed, counter = b.load(0, "int64"), b.load(0, "int64", offset=b.add("param", "int64", imm=0))
    index, element = b.add("param", "int64", imm=1), b.add("index", "int64", imm=0)
    b.store(1, "float32", b.add("random", "float32", seed, counter, index, element))
    b.stage("point")
    form = b.form(1, 0, 0, [Operand("int64", ("0",)), Operand("float32", ("1",), True)], ("int64", "int64"))
    state = memory(np.array([-(2**60) - 3, 2**33 + 1], "int64"))
    state.strides = (0,)
    check(plain_device, form, (100,), [state, memory(np.zeros(100, "float32"))], [8, 3])
