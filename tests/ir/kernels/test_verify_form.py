"""Kernel forms against their rules: each rule is broken in turn, and what the rules admit can be emitted."""
from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.backends.llvm.jit import compile_text
from jitfuse.compile.objects.kernel_object import kernel_text
from jitfuse.dtypes import KINDS
from jitfuse.errors import VerifyError
from jitfuse.ir.kernels import verify_form as rules
from jitfuse.ir.kernels.form import MAX_CELL, KernelAxis, KernelForm, Operand, Sweep
from jitfuse.ir.kernels.stages import Contraction, Instr, Reduction, Stage
from jitfuse.ir.kernels.verify_fields import REAL, result_dtype
from jitfuse.ir.kernels.verify_form import MAX_OPERANDS, verify_form
from jitfuse.ir.operators.families import FAMILIES

N = KernelAxis()
IN, OUT = Operand("float64", ("1",)), Operand("float64", ("1",), True)
LOAD, STORE = Instr("load", "float64", (), (0, False, False)), Instr("store", "float64", (1,), (1, False, False))


def point(*body: Instr, **changes: Any) -> KernelForm:
    """Return a kernel over one grid axis that reads operand 0 and writes operand 1."""
    form = KernelForm((N,), (), 0, (IN, OUT), ("float64",), (Stage("point", body),))
    return form.replace(**changes)


SIN = Instr("sin", "float64", (0,))
MAP = point(LOAD, SIN, STORE)
CELLS = point(LOAD, SIN, STORE._replace(args=(0, 1, 0)), operands=(IN, OUT._replace(cell=3)))
ROWS = KernelForm(
    (N,), (N,), 1, (Operand("float64", ("n", "1")), Operand("float64", ("1", "0"), True)), (),
    (Stage("reduce", (LOAD,), (Reduction("sum", "float64", (0,)),)), Stage("point", (STORE,))),
)
PARTIAL = KernelForm(
    (N,), (N,), 1, (Operand("float64", ("0", "1")), Operand("float64", ("n", "0"), True)), (),
    (Stage("reduce", (LOAD,), (Reduction("max", "float64", (0,), "partial", (1,)),)),),
)
FINAL = KernelForm(
    (N,), (N,), 1, (Operand("float64", ("n", "n")), Operand("float64", ("1", "0"), True)), (),
    (Stage("reduce", (), (Reduction("max", "float64", (), "final", (), (0,)),)),
     Stage("point", (STORE._replace(args=(0,)),))),
)
PRODUCT = KernelForm(
    (N,), (N,), 1, (
        Operand("float64", ("n", "0", "1")), Operand("float64", ("0", "1", "n")),
        Operand("float64", ("n", "1", "0"), True),
    ), (), (
        Stage("contract", (LOAD, LOAD._replace(imm=(1, False, False))), (),
              Contraction("sum", "multiply", "float64", 0, 1)),
        Stage("map", (Instr("kept", "float64", (), 0), Instr("store", "float64", (2,), (2, False, False)))),
    ), ("float64",), (N,),
)
SWEPT = point(
    LOAD, SIN, STORE, grid=(N, KernelAxis(1)), lane_axis=1,
    operands=(Operand("float64", ("0", "0")), Operand("float64", ("0", "0"), True)),
    sweep=Sweep(((0, 1),), (None, None)),
)
CHAIN = PRODUCT.replace(then=PRODUCT.replace(
    operands=(Operand("float64", ("n", "0", "1")), *PRODUCT.operands[1:])), link=(2, 0))


@pytest.mark.parametrize("form", [MAP, CELLS, ROWS, PARTIAL, FINAL, PRODUCT, SWEPT, CHAIN])
def test_valid_forms_compile(form: KernelForm) -> None:
    verify_form(form)
    assert compile_text(kernel_text([form]), verify=True)


def stages(form: KernelForm, k: int, **changes: Any) -> KernelForm:
    """Return a form with a stage changed."""
    made = list(form.stages)
    made[k] = made[k]._replace(**changes)
    return form.replace(stages=tuple(made))


def broken() -> Iterator[tuple[int, KernelForm]]:
    yield 1, MAP.replace(version=2)
    yield 1, MAP.replace(lane_axis=False)
    yield 1, MAP.replace(operands=(IN._replace(out=1), OUT))
    yield 1, MAP.replace(operands=(IN, OUT._replace(cell=True)))
    yield 1, point(LOAD, SIN._replace(args=("0",)), STORE)
    yield 1, MAP.replace(params=("float64", 3))
    yield 2, MAP.replace(grid=(KernelAxis(5),))
    yield 2, MAP.replace(grid=(KernelAxis(0),))
    yield 2, MAP.replace(grid=(N, N), operands=(), lane_axis=0)
    yield 2, MAP.replace(grid=(N,) * 100, lane_axis=99)
    yield 2, MAP.replace(lane_axis=-1)
    yield 3, MAP.replace(operands=(IN._replace(dtype="float128"), OUT))
    yield 3, MAP.replace(operands=(IN._replace(strides=("1", "1")), OUT))
    yield 3, MAP.replace(operands=(IN, OUT._replace(strides=("2",))))
    yield 3, MAP.replace(operands=(IN._replace(strides=("7",)), OUT))
    yield 3, MAP.replace(operands=(IN, OUT) * MAX_OPERANDS)
    yield 3, CELLS.replace(operands=(IN._replace(cell=2), CELLS.operands[1]))
    yield 3, CELLS.replace(operands=(IN, OUT._replace(cell=MAX_CELL + 1)))
    yield 3, CELLS.replace(operands=(IN, OUT._replace(cell=0)))
    yield 4, MAP.replace(params=("complex64",))
    yield 4, MAP.replace(keeps=("object",))
    yield 5, MAP.replace(stages=())
    yield 5, MAP.replace(stages=MAP.stages * 1200)
    yield 5, point(*[LOAD] * 10_000)
    yield 5, stages(ROWS, 0, reductions=(Reduction("sum", "float64", (0,) * 1200),))
    yield 5, ROWS.replace(inner=(KernelAxis(4),) * 8, operands=(), lane_axis=8, stages=(Stage("map", (LOAD,) * 20),))
    yield 6, stages(MAP, 0, kind="loop")
    yield 6, stages(MAP, 0, kind="map")
    yield 6, stages(ROWS, 0, kind="point")
    yield 6, stages(ROWS, 0, kind="scan")
    yield 6, stages(ROWS, 0, reductions=())
    yield 7, point(LOAD, SIN._replace(args=(1,)), STORE)
    yield 7, point(LOAD, SIN._replace(args=(-1,)), STORE)
    yield 7, point(LOAD, STORE._replace(args=(0,)), SIN._replace(args=(1,)))
    yield 7, stages(ROWS, 1, body=(STORE._replace(args=(0,)),))
    yield 7, stages(PRODUCT, 1, body=(LOAD,))
    yield 8, point(LOAD, SIN._replace(op="__import__"), STORE)
    yield 8, point(LOAD, SIN._replace(op="clip"), STORE)
    yield 8, point(LOAD, SIN._replace(imm=1), STORE)
    yield 8, point(LOAD, SIN._replace(args=(0, 0)), STORE)
    yield 8, point(LOAD, SIN._replace(dtype="float32"))
    yield 8, point(LOAD, Instr("param", "float64", (), 1))
    yield 8, point(LOAD, Instr("const", "int8", (), 128))
    yield 8, point(LOAD, Instr("const", "int64", (), 0.5))
    yield 8, point(LOAD, Instr("index", "int64", (), 1))
    yield 8, point(LOAD, Instr("load", "float64", (), (2, False, False)))
    yield 8, point(LOAD, Instr("load", "float64", (), (0, 0, False)))
    yield 8, point(LOAD, Instr("random", "float64", (0, 0, 0, 0)))
    yield 8, point(Instr("const", "bool", (), 1), Instr("require", "bool", (0, 0), 99))
    yield 9, point(LOAD, SIN, STORE._replace(imm=(0, False, False)))
    yield 9, point(LOAD._replace(imm=(1, False, False)))
    yield 9, point(LOAD._replace(dtype="float32"))
    yield 9, point(LOAD, SIN, STORE._replace(imm=(1, True, False)))
    yield 9, CELLS.replace(operands=(IN, OUT._replace(cell=2)))
    yield 9, CELLS.replace(operands=(IN, OUT._replace(cell=4)))
    yield 9, point(LOAD, operands=(Operand("complex128", ("1",)), OUT))
    yield 10, stages(PRODUCT, 1, body=(Instr("kept", "float64", (), 0),)).replace(keeps=("float64", "float64"))
    yield 10, stages(ROWS.replace(keeps=("float64",)), 0, body=(LOAD, Instr("kept", "float64", (), 0)))
    yield 11, stages(ROWS, 0, reductions=(Reduction("median", "float64", (0,)),))
    yield 11, stages(ROWS, 0, reductions=(Reduction("any", "float64", (0,)),))
    yield 11, stages(ROWS, 0, reductions=(Reduction("sum", "float64", ()),))
    yield 11, stages(ROWS, 0, reductions=(Reduction("sum", "float64", (0,), "halved"),))
    yield 11, PARTIAL.replace(stages=PARTIAL.stages * 2)
    yield 11, PARTIAL.replace(operands=PARTIAL.operands[:1] * 2)
    yield 11, PARTIAL.replace(lane_axis=0)
    yield 11, FINAL.replace(operands=(Operand("float32", ("n", "n")), FINAL.operands[1]))
    yield 12, PRODUCT.replace(stages=PRODUCT.stages[1:])
    yield 12, stages(PRODUCT, 0, contraction=Contraction("max", "multiply", "float64", 0, 1))
    yield 12, stages(PRODUCT, 0, contraction=Contraction("sum", "multiply", "float64", 1, 0))
    yield 12, PRODUCT.replace(grid=(KernelAxis(3),))
    yield 12, PRODUCT.replace(keeps=("float32",))
    yield 13, CHAIN.replace(then=MAP)
    yield 13, CHAIN.replace(then=CHAIN)
    yield 13, CHAIN.replace(link=(2, 9))
    yield 13, CHAIN.replace(link=(2, 1))
    yield 13, CHAIN.replace(link=(0, 0))
    yield 14, SWEPT.replace(sweep=Sweep(((1, 0),), (None, None)))
    yield 14, SWEPT.replace(sweep=Sweep(((0, 1),), (None,)))
    yield 14, SWEPT.replace(sweep=Sweep(((0, 1),), (0, None)))
    yield 14, SWEPT.replace(sweep=Sweep(((0, 7),), (None, None)))
    yield 14, SWEPT.replace(sweep=Sweep((), (None, None), (0,)))
    yield 14, SWEPT.replace(grid=(N, N))
    yield 14, MAP.replace(sweep=Sweep((), (None, None)))


@pytest.mark.parametrize(("rule", "form"), list(broken()))
def test_what_breaks_a_rule_is_found(rule: int, form: KernelForm) -> None:
    with pytest.raises(VerifyError, match="finding") as caught:
        verify_form(form)
    assert f"rule {rule}: " in str(caught.value)


def test_every_rule_is_broken_somewhere() -> None:
    assert {rule for rule, _ in broken()} == set(range(1, 15))
    assert all(re.search(rf"^ *{rule}\. ", str(rules.verify_form.__doc__), re.M) for rule in range(1, 15))


def admitted() -> Iterator[KernelForm]:
    """Yield a kernel for every elementwise operator over every dtype that rule 8 admits."""
    names = [op for op in FAMILIES["elementwise"] if op not in ("astype", "require")]  # which have rules of their own
    for op, dtype, arity in itertools.product(names, sorted(REAL), (1, 2, 3)):
        for dtypes in {(dtype,) * arity, ("bool", *(dtype,) * (arity - 1)), (*(dtype,) * (arity - 1), "int32")}:
            result = result_dtype(op, dtypes)
            if result is not None:
                body = [Instr("load", d, (), (k, False, False)) for k, d in enumerate(dtypes)]
                body.append(Instr(op, result, tuple(range(arity))))
                body.append(Instr("store", result, (arity,), (arity, False, False)))
                operands = [*(Operand(d, ("1",)) for d in dtypes), Operand(result, ("1",), True)]
                yield KernelForm((N,), (), 0, tuple(operands), (), (Stage("point", tuple(body)),))


@pytest.mark.full
def test_operators_that_are_admitted_can_be_emitted() -> None:
    forms = list(admitted())
    assert len(forms) > 400
    for form in forms:
        verify_form(form)
        kernel_text([form])
    integers = [form for form in forms if KINDS[form.operands[0].dtype] != "float"]
    assert compile_text(kernel_text(integers[::7]), verify=True)


@pytest.mark.full
def test_casts_between_all_dtypes_can_be_emitted() -> None:
    made = []
    for source, target in itertools.product(sorted(REAL), repeat=2):
        body = LOAD._replace(dtype=source), Instr("astype", target, (0,)), STORE._replace(dtype=target)
        made.append(point(*body, operands=(IN._replace(dtype=source), OUT._replace(dtype=target))))
        verify_form(made[-1])
    assert compile_text(kernel_text(made), verify=True)


def test_debugging_verifies_the_forms_of_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[KernelForm] = []
    monkeypatch.setenv("JITFUSE_DEBUG", "1")
    monkeypatch.setattr(rules, "verify_form", lambda form: seen.append(form) or verify_form(form))
    fused = jf.fuse(lambda x: np.sum(np.sin(x) * 0.25, axis=1))
    fused(np.ones((3, 4)))
    made = tuple(seen)
    assert made and made == tuple(kernel.form for kernel in fused.kernels)


@pytest.mark.full
def test_kernels_of_many_stages_are_valid() -> None:
    """Many reductions one after the other, in an order that no loop has: the planner makes one kernel of them."""
    draw = np.random.default_rng(3).integers(0, 4, 140).tolist()

    def chain(x: Any) -> Any:
        for k in draw:
            y = (np.abs, np.negative, np.square, np.sqrt)[k](np.abs(x))
            x = y - (np.max, np.min, np.sum, np.prod)[(k * 7 + 1) % 4](y, axis=1, keepdims=True)
        return x

    fused = jf.fuse(chain)
    fused.warm(np.ones((8, 50)))
    forms = [form for spec in fused.parts.specs for plan in spec.plans.values() for form in plan.forms]
    assert max(len(form.stages) for form in forms) > 100
    for form in forms:
        verify_form(form)

