"""ProgramRunner: replay, modes, liveness, memory, what is delivered, and nested programs."""
from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from jitfuse.backends.interpreter.numpy_tensor import NumPyTensor
from jitfuse.backends.interpreter.runner import NestedProgram, ProgramRunner, tensor_class
from jitfuse.errors import ArgumentError, CutWireError
from jitfuse.ir.analysis.liveness import live_steps
from jitfuse.ir.analysis.verify import verify
from jitfuse.ir.operators import ops
from jitfuse.ir.operators.op import _TABLE
from jitfuse.ir.program import FusedProgram, Meta, OpStep, make_attrs
from jitfuse.ir.semantics import reference

TRAINING = FusedProgram.from_text("""\
program 1 {
  feed %0: float32[3, 4] 'x'
  feed %1: float64[] weak 'scale'
  state %2: int64[2] 'jf.random.state'
  state %3: float32[4] 'w'
  %4: float32[3, 4] = multiply(%0, %1)  {step 0, level 0}
  %5: int64[] weak = full(dtype='int64', shape=(), value=0, weak=True)  {step 1, level 1}
  %6: float32[3, 4] = dropout(%4, %2, %5, p=0.5)  {step 2, level 2, mode}
  %7: float32[4] = mean(%6, axis=(0,), keepdims=False)  {step 3, level 3}
  %8: float32[4] = subtract(%3, %7)  {step 4, level 4}
  %9: int64[2] = random_advance(%2)  {step 5, level 5}
  return 'y': %6
  update %2 <- %9
  update %3 <- %8
  write %0 <- %4
}""")


class Recording(NumPyTensor):
    """A NumPyTensor that notes which operators it carried out."""

    __slots__ = ()
    done: ClassVar[list[str]] = []

    def _apply(self, op: ops.Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        Recording.done.append(op.name)
        return super()._apply(op, inputs, attrs)


@pytest.fixture
def done() -> Iterator[list[str]]:
    Recording.done.clear()
    yield Recording.done


def feeds() -> dict[int, Any]:
    return {
        0: np.arange(12, dtype="float32").reshape(3, 4), 1: 2.0, 2: np.array([7, 5]), 3: np.ones(4, "float32"),
    }


def run(text: str, *values: Any, training: bool = False) -> Any:
    """The only output of a program whose feeds are bound in order."""
    program = FusedProgram.from_text(text)
    verify(program)
    result = ProgramRunner(program)(dict(zip(program.ordered_feeds, values, strict=True)), training)
    (output,) = result.outputs.values()
    return output


def test_training_runs_dropout_and_moves_all_state() -> None:
    verify(TRAINING)
    bound = feeds()
    x = bound[0] * np.float32(2)
    result = ProgramRunner(TRAINING)(bound, training=True)
    want = reference.dropout(x, bound[2], 0, p=0.5, training=True)
    np.testing.assert_array_equal(result.outputs["y"], want, strict=True)
    np.testing.assert_array_equal(result.state[2], [7, 6], strict=True)
    np.testing.assert_array_equal(result.state[3], bound[3] - want.mean(0), strict=True)
    np.testing.assert_array_equal(result.writes[0], x, strict=True)
    for i, value in feeds().items():
        np.testing.assert_array_equal(bound[i], value)  # feeds are left as they are


def test_evaluation_skips_dropout_and_moves_the_random_state_alone() -> None:
    result = ProgramRunner(TRAINING)(feeds())
    np.testing.assert_array_equal(result.outputs["y"], feeds()[0] * np.float32(2), strict=True)
    assert set(result.state) == {2} and result.state[2].tolist() == [7, 6]


def test_only_the_steps_that_a_mode_delivers_run(done: list[str]) -> None:
    bound = {i: Recording(v) for i, v in feeds().items()}
    runner = ProgramRunner(TRAINING)
    runner(bound)
    assert done == ["multiply", "full", "dropout", "random_advance"]
    done.clear()
    runner(bound, training=True)
    assert done == ["multiply", "full", "dropout", "mean", "subtract", "random_advance"]
    assert [s.op_name for s in live_steps(TRAINING, True)] == done


SELECT = """\
program 1 {
  feed %0: int64[2]
  feed %1: int64[2]
  %2: int64[2] = power(%0, %1)  {step 0, level 0}
  %3: int64[2] = add(%0, %1)  {step 1, level 1}
  %4: int64[2] = mode_select(%2, %3)  {step 2, level 2, mode}
  return '': %4
}"""


def test_the_other_modes_branch_is_not_run() -> None:
    base, exponent = np.array([2, 3]), np.array([-1, 2])
    assert run(SELECT, base, exponent).tolist() == [1, 5]
    with pytest.raises(CutWireError, match="negative integer powers"):
        run(SELECT, base, exponent, training=True)
    assert run(SELECT, base, abs(exponent), training=True).tolist() == [2, 9]


def test_aliases_and_defaults_of_attributes_are_normalised() -> None:
    text = "program 1 { feed %0: int64[2, 3] %1: int64[2] = sum(%0, dim=1) {step 0, level 0} return '': %1 }"
    program = FusedProgram.from_text(text, check=False)
    assert ProgramRunner(program)({0: np.ones((2, 3), "int64")}).outputs[""].tolist() == [3, 3]


def test_every_operator_runs_by_name(op: ops.Op, cases: Any, comparable: Any) -> None:
    """A program of one step gives what the tensor's own method gives."""
    for operands, attrs in cases(op, 30):
        metas = [Meta(np.shape(x), np.asarray(x).dtype.name) for x in operands]
        n, made = len(operands), op.result_metas(metas, attrs)
        results = tuple(range(n, n + len(made)))
        step = OpStep(0, op.name, tuple(range(n)), make_attrs(attrs), results, op.mode_sensitive)
        outputs = {f"[{k}]": i for k, i in enumerate(results)}
        program = FusedProgram(frozenset(range(n)), (step,), outputs, dict(enumerate([*metas, *made])))
        verify(program)
        assert FusedProgram.from_json(program.to_json()) == FusedProgram.from_text(str(program)) == program
        for training in (False, True):
            mode = {"training": training} if op.mode_sensitive else {}
            with np.errstate(all="ignore"):
                want = op.numpy(*operands, **attrs, **mode)
            delivered = ProgramRunner(program)(dict(enumerate(operands)), training).outputs.values()
            for got, wanted in zip(delivered, want if op.is_of_many else (want,), strict=True):
                assert np.asarray(got).dtype == np.asarray(wanted).dtype
                np.testing.assert_array_equal(comparable(got), comparable(wanted), strict=True)


# ---------------------------------------------------------------- what is delivered
def test_a_returned_feed_is_the_object_that_was_bound() -> None:
    x = np.ones(3)
    assert run("program 1 { feed %0: float64[3] return '': %0 }", x) is x
    tensor = NumPyTensor(x)
    assert run("program 1 { feed %0: float64[3] return '': %0 }", tensor) is tensor


VIEWS = """\
program 1 {
  feed %0: float64[2, 3]
  %1: float64[6] = reshape(%0, shape=(6,))  {step 0, level 0}
  %2: float64[2, 3] = exp(%0)  {step 1, level 1}
  %3: float64[3, 2] = transpose(%2, axes=(1, 0))  {step 2, level 2}
  %4: float64[5, 2, 3] = broadcast_to(%2, shape=(5, 2, 3))  {step 3, level 3}
  return 'reshaped': %1
  return 'exp': %2
  return 'transposed': %3
  return 'repeated': %4
  return 'again': %2
  write %0 <- %2
}"""


def test_deliveredshare_memory_with_nothing() -> None:
    x = np.zeros((2, 3))
    result = ProgramRunner(FusedProgram.from_text(VIEWS))({0: x})
    assert result.outputs["exp"] is result.outputs["again"]
    different = [x, *(result.outputs[p] for p in ("reshaped", "exp", "transposed", "repeated")), result.writes[0]]
    for k, a in enumerate(different):
        assert a.flags.writeable
        assert not any(np.shares_memory(a, b) for b in different[k + 1 :])
    assert result.outputs["repeated"].shape == (5, 2, 3)


def test_a_repeated_temporary_comes_out_as_whole_memory() -> None:
    text = (
        "program 1 { feed %0: int64[2] %1: int64[2] = negative(%0) {step 0, level 0} "
        "%2: int64[3, 2] = broadcast_to(%1, shape=(3, 2)) {step 1, level 1} return '': %2 }"
    )
    result = run(text, np.array([1, 2]))
    result[0] = 0
    assert result.tolist() == [[0, 0], [-1, -2], [-1, -2]]


def test_axes_of_a_transpose_may_count_from_the_end() -> None:
    text = ("program 1 { feed %0: int64[2, 3] %1: int64[2, 3] = negative(%0) {step 0, level 0} "
            "%2: int64[3, 2] = transpose(%1, axes=(-1, -2)) {step 1, level 1} return '': %2 }")
    x = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(run(text, x), -x.T, strict=True)


def test_a_written_feed_that_swaps_with_another_is_a_copy() -> None:
    program = FusedProgram.from_text("program 1 { feed %0: bool[1] feed %1: bool[1] write %0 <- %1 write %1 <- %0 }")
    a, b = np.array([True]), np.array([False])
    writes = ProgramRunner(program)({0: a, 1: b}).writes
    a[:], b[:] = writes[0], writes[1]
    assert (a[0], b[0]) == (False, True)


def test_scalars_are_numpys_and_weak_ones_pythons() -> None:
    text = "program 1 { feed %0: float64[] %1: float64[] = %2(%0, %0) {step 0, level 0} return '': %1 }"
    strong, weak = text.replace("%2", "add"), text.replace("%2", "add").replace("float64[]", "float64[] weak")
    assert type(run(strong, np.float64(2))) is np.float64
    assert type(run(strong, 2.0)) is np.float64
    assert type(run(strong, np.array(2.0))) is np.float64
    assert type(run(weak, 2.0)) is float
    assert type(run(weak, np.float64(2))) is float
    assert type(run(weak, np.array(2.0))) is float


def test_a_weak_feed_gives_way_to_its_array() -> None:
    text = (
        "program 1 { feed %0: float32[2] feed %1: float64[] weak "
        "%2: float32[2] = add(%0, %1) {step 0, level 0} return '': %2 }"
    )
    assert run(text, np.ones(2, "float32"), np.float64(1.5)).dtype == np.float32


def test_nothing_warns() -> None:
    text = "program 1 { feed %0: float32[3] %1: float32[3] = log(%0) {step 0, level 0} return '': %1 }"
    assert np.isnan(run(text, np.array([-1, 0, 1], "float32")))[0]
    text = (
        "program 1 { feed %0: float64[0] %1: float64[] = mean(%0, axis=None, keepdims=False) {step 0, level 0} "
        "%2: float64[] = var(%0, axis=None, correction=1, keepdims=False) {step 1, level 1} "
        "%3: float64[] = add(%1, %2) {step 2, level 2} return '': %3 }"
    )
    assert np.isnan(run(text, np.zeros(0)))


def test_values_are_freed_after_their_last_use() -> None:
    chain = "".join(f"%{k + 1}: float64[100000] = exp(%{k}) {{step {k}, level {k}}}\n" for k in range(30))
    program = FusedProgram.from_text(f"program 1 {{ feed %0: float64[100000]\n{chain} return '': %30 }}")
    runner, bound = ProgramRunner(program), {0: np.full(100_000, -1e300)}
    runner(bound)
    tracemalloc.start()
    try:
        runner(bound)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 800_000 <= peak < 3 * 800_000


def test_a_value_that_is_read_twice_lives_until_the_second_time() -> None:
    text = (
        "program 1 { feed %0: int64[2] %1: int64[2] = add(%0, %0) {step 0, level 0} "
        "%2: int64[2] = add(%1, %1) {step 1, level 1} %3: int64[2] = add(%1, %2) {step 2, level 2} return '': %3 }"
    )
    assert run(text, np.array([1, 2])).tolist() == [6, 12]


def test_a_program_without_feeds_makes_its_values() -> None:
    text = (
        "program 1 { %0: int32[4] = arange(count=4, dtype='int32', start=1, step=2) {step 0, level 0} return '': %0 }"
    )
    np.testing.assert_array_equal(run(text), np.arange(1, 9, 2, dtype="int32"), strict=True)


def test_the_class_of_the_feeds_decides() -> None:
    assert tensor_class([]) is tensor_class([np.ones(2), 1.0, NumPyTensor(1)]) is NumPyTensor
    assert tensor_class([np.ones(2), Recording(1)]) is Recording


def test_running_over_numpy_does_not_import_torch() -> None:
    code = (
        "import sys, numpy\nfrom jitfuse.ir.program import FusedProgram\n"
        "from jitfuse.backends.interpreter.runner import ProgramRunner\n"
        "p = FusedProgram.from_text(\"program 1 { feed %0: bool[1] \"\n"
        "    \"%1: bool[1] = logical_not(%0) {step 0, level 0} return '': %1 }\")\n"
        "ProgramRunner(p)({0: numpy.ones(1, bool)})\nprint({'torch', 'llvmlite', 'wgpu'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# ---------------------------------------------------------------- nested programs
BODY = """\
program 1 {
    feed %4: float64[2]
    feed %9: float64[] weak
    %10: float64[2] = multiply(%4, %9)  {step 0, level 0}
    %11: float64[2] = mode_select(%10, %4)  {step 1, level 1, mode}
    return 'a': %11
    return 'b': %4
  }"""
REPEAT = f"""\
program 1 {{
  feed %0: float64[2]
  feed %1: float64[] weak
  %2: float64[2] = repeat(%0, %1, body={BODY}, times=3)  {{step 0, level 0}}
  return '': %2
}}"""


def repeat(x: Any, scale: Any, *, body: Any, times: int) -> Any:
    """Apply a program to its own first result."""
    for _ in range(times):
        x, before = body(x, scale)
        assert np.shape(before) == np.shape(x)
    return x


@pytest.fixture(params=["reference", "decomposition"])
def repeat_operator(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator over arrays, as the reference gets them, or over tensors, as a decomposition does."""

    def over_tensors(x: Any, scale: Any, **attrs: Any) -> Any:
        return repeat(NumPyTensor(x), NumPyTensor(scale), **attrs).value

    numpy = repeat if request.param == "reference" else over_tensors
    attrs = {"body": ops.REQUIRED, "times": 1}
    op = ops.Op("repeat", 2, ops.ELEMENTWISE, attrs, lambda metas, attrs: metas[0], numpy)
    monkeypatch.setitem(_TABLE, "repeat", op)
    method = lambda x, *others, **attrs: x.call("repeat", *others, **attrs)  # noqa: E731
    monkeypatch.setattr(NumPyTensor, "repeat", method, raising=False)


@pytest.mark.usefixtures("repeat_operator")
def test_a_nested_program_binds_operands_in_ascending_order_and_gets_the_mode() -> None:
    assert run(REPEAT, np.array([1.0, 2.0]), 3.0).tolist() == [1.0, 2.0]
    assert run(REPEAT, np.array([1.0, 2.0]), 3.0, training=True).tolist() == [27.0, 54.0]


def test_a_nested_program_refuses_the_wrong_number_of_operands() -> None:
    with pytest.raises(ArgumentError, match=r"the nested program has 2 feed\(s\), not 1"):
        NestedProgram(FusedProgram.from_text(BODY), False)(np.ones(2))
