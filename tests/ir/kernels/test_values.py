"""What the values of a form refer to."""
from __future__ import annotations

from jitfuse.ir.kernels.form import KernelAxis, KernelForm, Operand
from jitfuse.ir.kernels.stages import Instr, Reduction, Stage
from jitfuse.ir.kernels.values import AccessImmediate, access, needed

LOAD = Instr("load", "float64", (), (0, False, False))
FORM = KernelForm(
    (KernelAxis(),), (KernelAxis(),), 1, (Operand("float64", ("n", "1")), Operand("float64", ("1", "0"), True)), (),
    (
        Stage("reduce", (LOAD, Instr("multiply", "float64", (0, 0)), Instr("negative", "float64", (0,))), (
            Reduction("sum", "float64", (1,)), Reduction("max", "float64", (0, 2)),
        )),
        Stage("point", (Instr("add", "float64", (3, 5)), Instr("store", "float64", (6,), (1, False, False)))),
    ),
)


def test_stages_with_their_numbers() -> None:
    first, second = FORM.numbered
    assert [n for n, _ in first.body] == [0, 1, 2] and [n for n, _ in first.reductions] == [3, 4]
    assert [n for n, _ in second.body] == [6, 7] and len(FORM.instructions) == 8
    assert all(FORM.instructions[n] is i for stage in FORM.numbered for n, i in stage.body)


def test_what_loads_and_stores_refer_to() -> None:
    assert access(LOAD) == AccessImmediate(0, False, False)
    assert access(Instr("load", "float32", (0,), (2, True, False, 1))) == AccessImmediate(2, True, False, 1)


def test_what_values_are_computed_from() -> None:
    assert needed(FORM, [1]) == {0, 1} and needed(FORM, [4]) == {0, 2, 4}
    assert needed(FORM, [6]) == {0, 1, 2, 3, 5, 6}


def test_text_names_every_value() -> None:
    text = str(FORM)
    assert "v3: float64 = reduce sum whole(v1)" in text and "v6: float64 = add(v3, v5)" in text
