"""CutWireErrors: for each way in which a program breaks, the fields and the text."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jitfuse.backends.interpreter import diagnostics
from jitfuse.backends.interpreter.numpy_tensor import NumPyTensor
from jitfuse.backends.interpreter.runner import ProgramRunner
from jitfuse.errors import ArgumentError, BoundInput, BoundsError, CutWireError, DTypeError, NumericError, ShapeError
from jitfuse.ir.program import FusedProgram, Meta, OpStep, make_attrs

X, Y = np.ones((3, 4), "float32"), np.ones(4, "float32")
PROGRAM = FusedProgram.from_text("""\
program 1 {
  feed %0: float32[3, 4] 'x'
  feed %1: float32[4] 'y'
  %2: float32[3, 4] = exp(%0)  {step 0, level 0}  # model.py:10
  %3: float32[4] = negative(%1)  {step 1, level 1}  # model.py:11
  %4: float32[3, 4] = add(%2, %3)  {step 2, level 2}  # model.py:12
  %5: float32[3, 4] = sqrt(%4)  {step 3, level 3}  # model.py:13
  %6: float32[3] = sum(%5, axis=(1,), keepdims=False)  {step 4, level 4}  # model.py:14
  %7: float32[] = max(%6, axis=None, keepdims=False)  {step 5, level 5}  # model.py:15
  return '': %7
}""")


def with_step(k: int, **changes: Any) -> FusedProgram:
    steps = list(PROGRAM.steps)
    steps[k] = replace(steps[k], **changes)
    return replace(PROGRAM, steps=tuple(steps))


def cut(program: FusedProgram, feeds: dict[int, Any], like: type[Exception] = CutWireError) -> CutWireError:
    """The error of a run, which can be caught as `like`, too."""
    with pytest.raises(like) as caught:
        ProgramRunner(program)(feeds)
    assert isinstance(caught.value, CutWireError)
    return caught.value


def around(error: CutWireError) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(step, distance) of the neighbours on both sides."""
    before, after = ([(n.step_id, n.distance) for n in side] for side in (error.producers, error.consumers))
    return before, after


def test_a_program_that_is_whole_runs() -> None:
    assert ProgramRunner(PROGRAM)({0: X, 1: Y}).outputs[""] > 0


# ---------------------------------------------------------------- the boundary
def test_a_missing_feed() -> None:
    error = cut(PROGRAM, {0: X}, ArgumentError)
    assert (error.step_id, error.op_name, error.result_id) == (None, None, None)
    assert error.inputs == (BoundInput(1, False, Meta((4,), "float32")),)
    assert around(error) == ([], [(1, 1), (2, 2)])
    assert error.source == "model.py:11"
    assert str(error) == """\
nothing is bound to the feed y (%1)
  written at model.py:11
  input %1: MISSING, float32[4]
  after the cut:
    %3: float32[4] = negative(%1)  {step 1, level 1}  # model.py:11
      %4: float32[3, 4] = add(%2, %3)  {step 2, level 2}  # model.py:12"""


def test_all_missing_feeds_are_named() -> None:
    error = cut(PROGRAM, {})
    assert error.reason == "nothing is bound to the feed x (%0), y (%1)"
    assert [i.id for i in error.inputs] == [0, 1]


def test_a_surplus_feed() -> None:
    error = cut(PROGRAM, {0: X, 1: Y, 9: Y}, ArgumentError)
    assert str(error) == "%9 is bound, but is no feed of the program\n  input %9: bound"
    error = cut(PROGRAM, {0: X, 1: Y, 4: X})
    assert error.reason == "%4 is bound, but is no feed of the program; a step makes %4"
    assert error.inputs == (BoundInput(4, True, Meta((3, 4), "float32")),)
    assert around(error)[1] == [(3, 1), (4, 2)]


@pytest.mark.parametrize(("value", "like", "reason", "actual"), [
    (X.T, ShapeError, "has the wrong shape", "float32[4, 3]"),
    (X.astype("float64"), DTypeError, "has the wrong dtype", "float64[3, 4]"),
    (2.0, ShapeError, "has the wrong shape", "float64[] weak"),
    (X.astype("longdouble"), DTypeError, "cannot be bound: dtype float128 is not supported", "ndarray"),
    ([1.0], ArgumentError, "cannot be bound: list is no array", "list"),
    (None, ArgumentError, "cannot be bound: NoneType is no array", "NoneType"),
])
def test_a_feed_that_does_not_fit(value: Any, like: type[Exception], reason: str, actual: str) -> None:
    error = cut(PROGRAM, {0: value, 1: Y}, like)
    assert error.reason.startswith("the feed x (%0) " + reason)
    assert (error.expected, error.actual) == ("float32[3, 4]", actual)
    assert error.inputs[0].id == 0 and error.inputs[0].bound
    assert around(error) == ([], [(0, 1), (2, 2)])
    assert f"expected float32[3, 4], got {actual}" in str(error)
    assert "    %2: float32[3, 4] = exp(%0)" in str(error)


def test_a_strong_value_for_a_weak_feed_of_another_dtype() -> None:
    program = FusedProgram.from_text("program 1 { feed %0: float64[] weak 's' return '': %0 }")
    assert cut(program, {0: 2}, DTypeError).reason == "the feed s (%0) has the wrong dtype"
    assert cut(program, {0: np.float32(2)}, DTypeError).actual == "float32[]"
    assert cut(program, {0: np.ones(1)}, ShapeError).actual == "float64[1]"


class Elsewhere(NumPyTensor):
    """A NumPyTensor that says it lives on another device."""

    __slots__ = ()
    device = "gpu"


def test_a_wrong_device() -> None:
    error = cut(PROGRAM, {0: Elsewhere(X), 1: Y}, ArgumentError)
    assert error.reason == "the feed x (%0) has the wrong device"
    assert (error.expected, error.actual) == ("float32[3, 4]", "float32[3, 4] @gpu")


def test_an_output_that_nothing_makes() -> None:
    error = cut(replace(PROGRAM, outputs={"": 99}), {0: X, 1: Y})
    assert error.reason == "%99 is to be delivered, but neither a feed nor a step makes it"
    assert error.inputs == (BoundInput(99, False, None),)


# ---------------------------------------------------------------- steps
def test_an_unknown_operator_names_the_closest_and_the_class() -> None:
    error = cut(with_step(2, op_name="addd"), {0: X, 1: Y}, ArgumentError)
    assert (error.step_id, error.op_name, error.result_id, error.source) == (2, "addd", 4, "model.py:12")
    assert error.reason.startswith(
        "'addd' is no operator; searched jitfuse.backends.interpreter.numpy_tensor.NumPyTensor: the closest are add"
    )
    assert around(error) == ([(0, 1), (1, 1)], [(3, 1), (4, 2)])
    error = cut(with_step(2, op_name="qqqqq"), {0: X, 1: Y})
    assert error.reason.endswith("NumPyTensor: no operator has a name like it")


def test_an_operator_that_the_class_lacks() -> None:
    class Poor(NumPyTensor):
        __slots__ = ()
        add = None

    error = cut(PROGRAM, {0: Poor(X), 1: Y})
    assert "'add' is no method of this class; searched" in error.reason and "Poor: the closest are" in error.reason


MODES = FusedProgram.from_text("""\
program 1 {
  feed %0: float32[3, 4]
  feed %1: float32[4]
  %2: float32[3, 4] = exp(%0)  {step 0, level 0}
  %3: float32[3, 4] = add(%0, %1)  {step 1, level 1}
  %4: float32[3, 4] = mode_select(%2, %3)  {step 2, level 2, mode}
  return '': %4
}""")
FIVE = {**PROGRAM.meta, 1: Meta((5,), "float32"), 3: Meta((5,), "float32")}


@pytest.mark.parametrize(("program", "feeds", "inputs"), [
    (PROGRAM, {}, {0: False, 1: False}),
    (PROGRAM, {1: Y}, {0: False}),
    (PROGRAM, {0: X, 1: Y, 9: Y}, {9: True}),
    (PROGRAM, {0: X, 9: Y}, {1: False, 9: True}),
    (PROGRAM, {0: X, 1: Y[:2]}, {1: True}),
    (PROGRAM, {0: X, 1: "y"}, {1: True}),
    (PROGRAM, {0: Elsewhere(X), 1: Y}, {0: True}),
    (with_step(2, op_name="addd"), {0: X, 1: Y}, {2: True, 3: True}),
    (with_step(4, attrs=(("axes", 1),)), {0: X, 1: Y}, {5: True}),
    (with_step(2, input_ids=(2,)), {0: X, 1: Y}, {2: True}),
    (with_step(2, op_name="addd", input_ids=(0, 3, 5)), {0: X, 1: Y}, {0: True, 3: True, 5: False}),
    (with_step(2, input_ids=(2, 99)), {0: X, 1: Y}, {2: True, 99: False}),
    (with_step(2, result_ids=(4, 40)), {0: X, 1: Y}, {2: True, 3: True}),
    (replace(PROGRAM, meta=FIVE), {0: X, 1: np.ones(5, "float32")}, {2: True, 3: True}),
    (replace(PROGRAM, meta={**PROGRAM.meta, 6: Meta((3,), "float32", "gpu")}), {0: X, 1: Y}, {5: True}),
    (replace(MODES, meta={**MODES.meta, 4: Meta((9,), "float32")}), {0: X, 1: Y}, {2: True, 3: True}),
    (replace(PROGRAM, outputs={"": 99}), {0: X, 1: Y}, {99: False}),
], ids=[
    "no feeds", "missing", "surplus", "misnamed", "shape of a feed", "kind of a feed", "device of a feed",
    "unknown operator", "attribute", "arity", "unknown operator that reads early", "made by nothing", "results",
    "shapes", "device", "what the mode leaves out", "output",
])
def test_missing_is_said_of_what_is_missing_alone(
    program: FusedProgram, feeds: dict[int, Any], inputs: dict[int, bool]
) -> None:
    error = cut(program, feeds)
    assert {i.id: i.bound for i in error.inputs} == inputs
    for i, bound in inputs.items():
        assert f"  input %{i}: {'bound' if bound else 'MISSING'}" in str(error)
    assert str(error).count("MISSING") == list(inputs.values()).count(False)


def test_a_feed_by_the_wrong_id_is_named_with_the_one_that_is_missing() -> None:
    assert cut(PROGRAM, {0: X, 4: X}).reason == (
        "nothing is bound to the feed y (%1); %4 is bound, but is no feed of the program; a step makes %4"
    )


@pytest.mark.parametrize("name", ["shape", "call", "T", "__init__", "flatten", "expand_dims"])
def test_what_is_no_operator_is_not_called(name: str) -> None:
    assert cut(with_step(0, op_name=name), {0: X, 1: Y}).reason.startswith(f"{name!r} is no operator")


@pytest.mark.parametrize(("changes", "reason"), [
    ({"attrs": (("axes", 1),)}, "sum has no attribute 'axes'; it takes axis, keepdims"),
    ({"attrs": (("axis", "1"),)}, "sum: the attribute axis should be None, an int or a tuple of ints, not '1'"),
    ({"attrs": (("axis", 1), ("dim", 1))}, "sum got both 'dim' and its alias 'axis'"),
    ({"op_name": "reshape", "attrs": ()}, "reshape needs the attribute 'shape'"),
    ({"op_name": "add", "attrs": ()}, "add takes 2 operand(s), not 1"),
])
def test_a_bad_attribute_or_arity(changes: dict[str, Any], reason: str) -> None:
    error = cut(with_step(4, **changes), {0: X, 1: Y}, ArgumentError)
    assert error.reason == reason
    assert (error.step_id, error.result_id, error.source) == (4, 6, "model.py:14")
    assert around(error) == ([(3, 1), (2, 2)], [(5, 1)])


def test_operands_whose_shapes_clash_show_both_sides() -> None:
    program = replace(PROGRAM, meta={**PROGRAM.meta, 1: Meta((5,), "float32"), 3: Meta((5,), "float32")})
    error = cut(program, {0: X, 1: np.ones(5, "float32")}, ShapeError)
    assert isinstance(error, ValueError)
    assert (error.step_id, error.op_name, error.result_id, error.source) == (2, "add", 4, "model.py:12")
    assert error.inputs == (
        BoundInput(2, True, Meta((3, 4), "float32")), BoundInput(3, True, Meta((5,), "float32")),
    )
    assert error.expected == "float32[3, 4]"
    assert str(error) == """\
add: shapes (3, 4), (5,) do not broadcast together: axis -1 is both 4 and 5. \
Reshape one of them, or insert an axis with x[:, None].
  at step 2: add -> %4
  written at model.py:12
  input %2: bound, float32[3, 4]
  input %3: bound, float32[5]
  expected float32[3, 4], got ShapeError from float32[3, 4], float32[5]
  before the cut:
    %2: float32[3, 4] = exp(%0)  {step 0, level 0}  # model.py:10
    %3: float32[5] = negative(%1)  {step 1, level 1}  # model.py:11
  after the cut:
    %5: float32[3, 4] = sqrt(%4)  {step 3, level 3}  # model.py:13
      %6: float32[3] = sum(%5, axis=(1,), keepdims=False)  {step 4, level 4}  # model.py:14"""


def test_operands_whose_dtypes_clash() -> None:
    error = cut(with_step(2, op_name="bitwise_and"), {0: X, 1: Y}, DTypeError)
    assert isinstance(error, TypeError)
    assert error.reason.startswith("bitwise_and does not take float32, float32. Bitwise operators want")
    assert error.step_id == 2


@pytest.mark.parametrize(("meta", "like", "reason"), [
    (Meta((9,), "float32"), ShapeError, "sum made %6 with the wrong shape"),
    (Meta((3,), "float64"), DTypeError, "sum made %6 with the wrong dtype"),
    (Meta((3,), "float32", "gpu"), ArgumentError, "sum made %6 with the wrong device"),
])
def test_a_result_that_is_not_what_the_program_says(meta: Meta, like: type[Exception], reason: str) -> None:
    error = cut(replace(PROGRAM, meta={**PROGRAM.meta, 6: meta}), {0: X, 1: Y}, like)
    assert error.reason == reason
    assert (error.step_id, error.result_id, error.expected, error.actual) == (4, 6, str(meta), "float32[3]")


def test_a_value_that_is_read_before_it_is_made() -> None:
    error = cut(with_step(2, input_ids=(2, 5)), {0: X, 1: Y})
    assert error.reason == "%5 is read, but nothing before this step makes it"
    assert error.inputs == (
        BoundInput(2, True, Meta((3, 4), "float32")), BoundInput(5, False, Meta((3, 4), "float32")),
    )
    assert "input %5: MISSING, float32[3, 4]" in str(error)


def test_an_operator_that_fails_on_a_value() -> None:
    program = FusedProgram.from_text(
        "program 1 { feed %0: int64[2] 'base' %1: int64[] weak = full(dtype='int64', shape=(), value=-1, weak=True) "
        "{step 0, level 0} %2: int64[2] = power(%0, %1) {step 1, level 1} # model.py:3\n return '': %2 }"
    )
    error = cut(program, {0: np.array([2, 3])}, NumericError)
    assert isinstance(error, ValueError)
    assert error.reason == "power failed: ValueError: Integers to negative integer powers are not allowed."
    assert (error.step_id, error.op_name, error.result_id) == (1, "power", 2)
    assert error.actual == "ValueError from int64[2], int64[] weak"
    assert isinstance(error.__cause__, ValueError)
    assert around(error) == ([(0, 1)], [])


def test_a_python_int_out_of_range_fails_on_its_value() -> None:
    program = FusedProgram.from_text(
        "program 1 { feed %0: int32[2] feed %1: int64[] weak "
        "%2: int32[2] = add(%0, %1) {step 0, level 0} return '': %2 }"
    )
    error = cut(program, {0: np.ones(2, "int32"), 1: 2**40}, NumericError)
    assert "OverflowError" in error.reason


def test_an_index_out_of_bounds_can_be_caught_as_numpys() -> None:
    program = FusedProgram.from_text(
        "program 1 { feed %0: int64[2] feed %1: int64[1] %2: int64[1] = gather(%0, %1, axes=(0,), place=0) "
        "{step 0, level 0} return '': %2 }")
    error = cut(program, {0: np.ones(2, "int64"), 1: np.array([2])}, BoundsError)
    assert isinstance(error, IndexError) and (error.step_id, error.op_name) == (0, "gather")


def test_a_wrong_number_of_results() -> None:
    error = cut(with_step(2, result_ids=(4, 40)), {0: X, 1: Y})
    assert error.reason == "add made 1 value(s), the step names 2"


def test_neighbours_are_two_deep_and_each_is_shown_once() -> None:
    steps = [OpStep(0, "exp", (0,), (), (1,))]
    steps += [OpStep(k, "add", (k, k), make_attrs({}), (k + 1,)) for k in range(1, 6)]
    program = FusedProgram(frozenset({0}), tuple(steps), {"": 6}, {})
    assert [(n.step_id, n.distance) for n in diagnostics.producers(program, [4])] == [(3, 1), (2, 2)]
    assert [(n.step_id, n.distance) for n in diagnostics.consumers(program, [1, 2])] == [(1, 1), (2, 1), (3, 2)]
