"""Tables of records: what is refused, and that native code and NumPy agree about all that is not."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amount import drawn
from semiring_tables import FIRST, SECOND, attributes, products, record, walks

import jitfuse as jf
from jitfuse.compile.bind.host_functions import host_function
from jitfuse.errors import ArgumentError, DerivativeError, VerifyError
from jitfuse.ir.program import FusedProgram, Meta, OpStep, make_attrs
from jitfuse.ir.semirings import words as w
from jitfuse.ir.semirings.derivatives import pulled_back
from jitfuse.ir.semirings.reference import semiring_sums
from jitfuse.ir.semirings.tables import sums
from jitfuse.ir.semirings.tape import Table
from jitfuse.plans import HostCall

OPERANDS = (9, 3)
RNG = np.random.default_rng(0)


def checked(attrs: dict[str, Any], operands: tuple[int, ...] = OPERANDS) -> Any:
    return sums(attrs["records"], operands, attrs["workspace"], attrs["size"])


def native(attrs: dict[str, Any], stacks: list[np.ndarray]) -> np.ndarray:
    result = np.full(attrs["size"], np.nan, stacks[0].dtype)
    call = HostCall("semiring_sums", make_attrs(attrs), (None,) * len(stacks), (None,), 0, None)  # type: ignore[arg-type]
    host_function(call)(*stacks, result)
    return result


@pytest.mark.parametrize("carrier", ["log", "sum_product"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_native_code_and_numpy_agree_with_matrices(carrier: str, dtype: Any) -> None:
    matrix, vector = RNG.random((3, 3)), RNG.random(3)
    given = [np.asarray(np.log(x) if carrier == "log" else x, dtype) for x in (matrix, vector)]
    wanted = np.array([*(matrix @ vector), (matrix @ (matrix @ vector)) @ vector])
    wanted = np.log(wanted) if carrier == "log" else wanted
    attrs = walks(carrier, 3)
    assert len(checked(attrs)) == 3
    for found in (native(attrs, given), semiring_sums(*given, **attrs)):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-14 if dtype is np.float64 else 1e-6)


ROW, ONE = (1,), (w.ONE, 0, (0,))
DAMAGED = {
    "no words": b"123", "ends early": products("log", 3)["records"][:-8],
    "another kind": [(w.KIND, w.EXTREMES)], "no kind": [(w.KIND, 77)], "too long": [(w.LENGTH, 1 << 40)],
    "no length": [(w.LENGTH, 0)], "units": [(w.UNITS, 2)], "more units than axes say": [(w.PARALLEL, 2)],
    "no memory": [(w.A, 99)], "the least": [(w.B, w.LEAST)], "negative memory": [(w.B, -1)],
    "writes an operand": [(w.OUT, FIRST)], "writes one": [(w.OUT, w.ONE)], "behind the result": [(w.OUT + 1, 1)],
    "before the result": [(w.OUT + 1, -1)], "behind an operand": [(w.A + 1, 7)], "before an operand": [(w.B + 1, -1)],
    "no extent": [(w.EXTENT, 0)], "less than all": [(w.EXTENT, 2)], "negative stride": [(w.INNER_STRIDES + 1, -1)],
    "strides of another kind": [(w.INNER_STRIDES + 2, 0)], "rank": [(w.RANK, 3)], "no offsets": [(w.OFFSETS, 0)],
    "offset behind an operand": [(w.AXES, 1 << 50)], "negative offset": [(w.AXES + 1, -1)],
    "reads what nothing wrote": [(w.A, w.WORKSPACE)], "reads the result before": [(w.A, w.RESULT)],
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_tables_are_refused(name: str) -> None:
    attrs, change = products("log", 3) | {"workspace": 8}, DAMAGED[name]
    if isinstance(change, bytes):
        attrs["records"] = change
    else:
        code = np.frombuffer(attrs["records"], "<i8").copy()
        for word, value in change:
            code[word] = value
        attrs["records"] = code.tobytes()
    with pytest.raises(ArgumentError):
        checked(attrs)
    with pytest.raises(ArgumentError):
        native(attrs, [np.zeros(9), np.zeros(3)])


@pytest.mark.parametrize("records", [
    [record([3], (w.RESULT, 0, ROW), (FIRST, 0, ROW), ONE)] * 2,
    [record([3], (w.WORKSPACE, 0, ROW), (FIRST, 0, ROW), ONE)],
    [record([3], (w.WORKSPACE, 0, ROW), (FIRST, 0, ROW), ONE),
     record([3], (w.WORKSPACE, 1, ROW), (FIRST, 0, ROW), ONE),
     record([3], (w.RESULT, 0, ROW), (w.WORKSPACE, 0, ROW), ONE)],
    [record([3], (w.WORKSPACE, 0, ROW), (FIRST, 0, ROW), ONE),
     record([3], (w.WORKSPACE, 0, ROW), (w.WORKSPACE, 0, ROW), ONE),
     record([3], (w.RESULT, 0, ROW), (w.WORKSPACE, 0, ROW), ONE)],
], ids=["the result twice", "no result", "what is overwritten", "in its place"])
def test_tables_whose_records_do_not_fit_together_are_refused(records: list[np.ndarray]) -> None:
    with pytest.raises(ArgumentError):
        checked(attributes("log", records, 8, 3))


def test_any_table_with_a_changed_word_is_refused_or_runs_alike() -> None:
    stacks, ran = [RNG.random(9), RNG.random(3)], 0
    for _ in range(drawn(400)):
        attrs = walks("sum_product", 3)
        code = np.frombuffer(attrs["records"], "<i8").copy()
        place = RNG.integers(len(code))
        near, any_word = code[place] + RNG.integers(-3, 4), RNG.integers(-(1 << 62), 1 << 62)
        code[place] = RNG.choice([near, RNG.integers(8), any_word])
        attrs["records"] = code.tobytes()
        try:
            checked(attrs)
        except ArgumentError:
            continue
        ran += 1
        np.testing.assert_allclose(native(attrs, stacks), semiring_sums(*stacks, **attrs), rtol=1e-13)
    assert ran


def program(attrs: dict[str, Any]) -> FusedProgram:
    meta = {0: Meta((3, 3), "float64"), 1: Meta((3,), "float64"), 2: Meta((attrs["size"],), "float64")}
    step = OpStep(0, "semiring_sums", (0, 1), make_attrs(attrs), (2,))
    return FusedProgram(frozenset({0, 1}), (step,), {"": 2}, meta)


def test_programs_with_damaged_tables_are_refused_when_they_are_read() -> None:
    made = program(walks("log", 3))
    assert FusedProgram.from_json(made.to_json()) == FusedProgram.from_text(str(made)) == made
    code = np.frombuffer(walks("log", 3)["records"], "<i8").copy()
    code[w.A + 1] = 1 << 40
    for changed in ({"records": code.tobytes()}, {"carrier": "max_sum"}, {"size": 5}, {"workspace": 2}):
        damaged = program({**walks("log", 3), **changed})
        with pytest.raises(VerifyError):
            FusedProgram.from_json(damaged.to_json())


def test_records_that_read_parts_have_no_derivative() -> None:
    parts = attributes("log", [record([2], (w.WORKSPACE, 0, ROW), (SECOND, 0, ROW), ONE),
                               record([1], (w.RESULT, 0, ROW), (w.WORKSPACE, 0, ROW), ONE)], 2, 1)
    assert checked(parts)
    with pytest.raises(DerivativeError, match="a part of a tensor"):
        pulled_back(Table(parts["records"], 2, 1), OPERANDS, (1,), 1)


def test_large_sums_are_split_in_derivatives_too() -> None:
    sizes = (2,) * 14

    def total(x: Any, y: Any) -> Any:
        graph = jf.factors.FactorGraph(sizes, [(tuple(range(14)), x), ((3,), y)], log=True)
        return graph.log_partition()

    x, y = RNG.normal(size=sizes), RNG.normal(size=2)
    found = jf.grad(total, argnums=(0, 1))(x, y)
    weights = np.exp(x + y.reshape(2, *[1] * 10))
    weights /= weights.sum()
    np.testing.assert_allclose(found[0], weights, rtol=1e-10)
    np.testing.assert_allclose(found[1], weights.sum(axis=tuple(a for a in range(14) if a != 3)), rtol=1e-12)
