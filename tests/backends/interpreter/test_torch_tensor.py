"""TorchProgramTensor: NumPy's values and dtypes by torch, and programs over torch feeds."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitfuse.backends.interpreter.numpy_tensor import NumPyTensor
from jitfuse.backends.interpreter.runner import ProgramRunner, tensor_class
from jitfuse.errors import ArgumentError, CutWireError, DTypeError, ShapeError
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram

torch = pytest.importorskip("torch", reason="torch is not installed")

from jitfuse.backends.interpreter import torch_functions  # noqa: E402
from jitfuse.backends.interpreter.torch_tensor import TorchProgramTensor  # noqa: E402

# torch's square roots of doubles are not rounded correctly on every machine
TRANSCENDENTAL = {op.name for op in ops.table() if op.ulps} | {"softmax", "log_softmax", "logsumexp", "angle", "sqrt"}
ROOTS = {"std", "nanstd"}
SUMS = {"sum", "mean", "var", "matmul", "nansum", "nanmean", "nanvar", "layer_norm", "rms_norm", *ROOTS}


def _wide(x: Any) -> Any:
    x = np.asarray(x)
    return x.astype("float32") if x.dtype.name == "bfloat16" else x


def tolerance(op: ops.Op, operands: list[Any], dtype: str) -> dict[str, float]:
    """Bit-equal but for transcendental functions, tiny results of which torch drops, and for sums."""
    if op.name not in TRANSCENDENTAL | SUMS:
        return {"rtol": 0.0, "atol": 0.0}
    rtol, tiny = {
        "float32": (1e-6, 1e-37), "complex64": (1e-6, 1e-37), "float16": (2e-3, 1e-7), "bfloat16": (16e-3, 1e-37)
    }.get(dtype, (1e-13, 1e-300))
    if op.name in SUMS:  # sums may cancel
        tiny += (rtol**0.5 if op.name in ROOTS else rtol) * sum(
            float(np.max(np.abs(x), where=np.isfinite(x), initial=0.0)) for x in map(_wide, operands)
        )
    return {"rtol": rtol, "atol": tiny}


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_operator_gives_numpys_values_and_dtypes_in_a_program(op: ops.Op, cases: Any, comparable: Any) -> None:
    for operands, attrs in cases(op, 250):
        for training in (False, True) if op.mode_sensitive else (None,):
            mode = {} if training is None else {"training": training}
            with np.errstate(all="ignore"):
                want = op.numpy(*operands, **attrs, **mode)
            tensors = [TorchProgramTensor(torch_functions.from_numpy(np.array(x))) for x in operands]
            first = tensors[0] if tensors else TorchProgramTensor(0)
            got = first.call(op.name, *tensors[1:], **attrs, **mode) if tensors else first.create(op.name, **attrs)
            for one, wanted in zip(got, want, strict=True) if op.is_of_many else [(got, want)]:
                ours, theirs = comparable(one), comparable(wanted)
                same = (one.dtype, one.shape) == (np.asarray(wanted).dtype.name, np.shape(wanted))
                if same and np.array_equal(ours, theirs, equal_nan=ours.dtype.kind in "fc"):
                    continue  # what follows takes its time
                context = f"{op.name} of {operands} with {attrs}"
                assert same, context
                np.testing.assert_allclose(ours, theirs, **tolerance(op, operands, one.dtype), err_msg=context)


def test_functions_of_integers_give_numpys_dtype() -> None:
    x = torch.tensor([1, 4])
    assert TorchProgramTensor(x).sqrt().dtype == "float64"
    assert (TorchProgramTensor(x) / 2).dtype == "float64"
    assert (TorchProgramTensor(x) + x.float()).dtype == "float64"


def test_scalars_of_python_stay_weak_and_operators_take_them_on_both_sides() -> None:
    assert type((TorchProgramTensor(2) * 3.5).value) is float
    x = torch.tensor([1.0, 2.0])
    assert torch.equal((1 - TorchProgramTensor(x)).value, 1 - x)
    assert torch.equal((TorchProgramTensor(x) > 1).value, x > 1)
    assert (TorchProgramTensor(x) * 2).dtype == "float32"


def test_memory_is_shared_with_the_caller_and_with_numpy() -> None:
    x = torch.ones(3)
    assert TorchProgramTensor(x).value is x
    array = np.ones(3)
    TorchProgramTensor(array).value[0] = 5
    assert array[0] == 5
    assert TorchProgramTensor(array[::-1]).shape == (3,)  # torch has no negative strides: a copy


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda t: t + torch.ones(3), ShapeError, r"shapes \(2,\), \(3,\) do not broadcast"),
    (lambda t: t & 1, DTypeError, "Bitwise operators want"),
    (lambda t: t.sum(axis=3), ShapeError, "axis 3 is out of bounds"),
    (lambda t: TorchProgramTensor(torch.ones(2).to(torch.float8_e5m2)), DTypeError, "float8_e5m2 is not supported"),
    (lambda t: TorchProgramTensor("x"), ArgumentError, "str is no tensor"),
    (lambda t: t + torch.ones(2, device="meta"), ArgumentError, r"different devices \(cpu, meta\)"),
    (lambda t: t.astype("int64") ** -1, ValueError, "Integers to negative integer powers"),
])
def test_mistakes_raise_the_same_errors_as_over_numpy(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(TorchProgramTensor(torch.tensor([1.0, 2.0])))


# ---------------------------------------------------------------- programs
PROGRAM = FusedProgram.from_text("""\
program 1 {
  feed %0: int32[3, 4] 'x'
  feed %1: float64[] weak 'scale'
  state %2: int64[2] 'jf.random.state'
  %3: float64[3, 4] = multiply(%0, %1)  {step 0, level 0}
  %4: int64[] weak = full(dtype='int64', shape=(), value=0, weak=True)  {step 1, level 1}
  %5: float64[3, 4] = dropout(%3, %2, %4, p=0.5)  {step 2, level 2, mode}
  %6: float64[] = mean(%5, axis=None, keepdims=False)  {step 3, level 3}
  %7: int64[2] = random_advance(%2)  {step 4, level 4}
  %8: float64[12] = reshape(%3, shape=(12,))  {step 5, level 5}
  return 'y': %5
  return 'mean': %6
  return 'flat': %8
  return 'scaled': %3
  return 'x': %0
  update %2 <- %7
}""")


@pytest.mark.parametrize("training", [False, True])
def test_a_program_gives_over_torch_what_it_gives_over_numpy(training: bool) -> None:
    x, state = np.arange(12, dtype="int32").reshape(3, 4), np.array([3, 4])
    over_numpy = ProgramRunner(PROGRAM)({0: x, 1: 0.1, 2: state}, training)
    feed = torch.from_numpy(x)
    over_torch = ProgramRunner(PROGRAM)({0: feed, 1: 0.1, 2: torch.from_numpy(state)}, training)
    for path, want in over_numpy.outputs.items():
        got = over_torch.outputs[path]
        assert isinstance(got, torch.Tensor) and str(got.dtype) == f"torch.{want.dtype}"
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-15)
    assert over_torch.outputs["x"] is feed
    assert over_torch.state[2].tolist() == over_numpy.state[2].tolist() == [3, 5]
    storages = [over_torch.outputs[p].untyped_storage().data_ptr() for p in over_numpy.outputs]
    assert len(set(storages)) == len(storages)


def test_torch_wins_over_numpy() -> None:
    assert tensor_class([np.ones(2), torch.ones(2)]) is TorchProgramTensor
    assert tensor_class([NumPyTensor(np.ones(2)), TorchProgramTensor(torch.ones(2))]) is TorchProgramTensor
    result = ProgramRunner(PROGRAM)({0: np.ones((3, 4), "int32"), 1: 1.0, 2: torch.tensor([3, 4])})
    assert isinstance(result.outputs["y"], torch.Tensor)


def test_a_feed_on_another_device_is_refused() -> None:
    elsewhere = torch.ones((3, 4), dtype=torch.int32, device="meta")
    with pytest.raises(CutWireError) as caught:
        ProgramRunner(PROGRAM)({0: elsewhere, 1: 1.0, 2: torch.tensor([3, 4])})
    assert caught.value.reason == "the feed x (%0) has the wrong device"
    assert (caught.value.expected, caught.value.actual) == ("int32[3, 4]", "int32[3, 4] @meta")
