"""Parameters, buffers, their names, dicts and files."""
from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import jitfuse as jf

Made = Callable[..., Any]


def arrays(tree: Any) -> dict[str, Any]:
    return {name: x.copy() for name, x in jf.nn.state_dict(tree).items()}


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, x in one.items():
        np.testing.assert_array_equal(x, other[name], err_msg=name)


def test_parameters_are_named_by_their_paths() -> None:
    given = np.ones(2)
    tree = jf.nn.parameters({"layers": [{"w": given}, {"w": np.zeros((2, 3))}], "n": jf.Buffer(0)})
    assert list(jf.nn.state_dict(tree)) == ["layers.0.w", "layers.1.w", "n"]
    given[...] = 5.0
    assert tree["layers"][0]["w"].tolist() == [1.0, 1.0]
    assert jf.nn.parameters(tree)["n"] is tree["n"]
    assert repr(tree["layers"][1]["w"]).startswith("Parameter(layers.1.w: float64[2, 3], 48 B")


def test_they_behave_as_arrays() -> None:
    w = jf.Parameter(np.arange(6.0).reshape(2, 3))
    assert w.shape == (2, 3) and (w @ w.T).shape == (2, 2) and float((w + 1).sum()) == 21.0
    assert np.sin(w).shape == (2, 3) and np.asarray(w)[1, 2] == 5.0
    for made in (w + 1, w > 0, w.astype("int8"), w.reshape(3, 2), w.T, w[0], -w, np.exp(w), w.copy(), 1 - w, jf.sum(w)):
        assert type(made) is type(jf.asarray(np.ones(1)))
    w -= 1.0
    assert type(w) is jf.Parameter and w[0, 0] == -1.0


def through_pickle(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("through", [copy.deepcopy, through_pickle])
def test_copies_train_on_by_themselves(through: Any, made: Made, data: Any) -> None:
    params, optimiser, step = made(jf.optim.Adam)
    step(*data)
    before = arrays({"p": params, "o": optimiser})
    other, again = through((params, optimiser))
    assert again.parameters[1] is other["w"]
    again.apply({"w": np.ones((4, 3)), "b": np.ones(3)})
    assert_same(before, arrays({"p": params, "o": optimiser}))
    step(*data)
    assert (arrays(other)["w"] != before["p.w"]).all()


def test_files_hold_parameters_and_optimisers(made: Made, data: Any, tmp_path: Path) -> None:
    params, optimiser, step = made(jf.optim.Adam, accumulate=2)
    for _ in range(3):
        step(*data)
    file, saved = tmp_path / "state.safetensors", arrays({"p": params, "o": optimiser})
    jf.nn.save(file, {"p": params, "o": optimiser})
    expected = [float(step(*data)) for _ in range(4)]
    jf.nn.load(file, {"p": params, "o": optimiser})
    assert_same(saved, arrays({"p": params, "o": optimiser}))
    assert [float(step(*data)) for _ in range(4)] == expected
    assert [p.name for p in tmp_path.iterdir()] == ["state.safetensors"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "int8", "uint64", "bool"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 5)])
def test_files_of_each_dtype(dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    value = np.random.default_rng(0).integers(0, 2, shape).astype(kind)
    buffer = jf.Buffer(value, "x")
    jf.nn.save(tmp_path / "x", buffer)
    buffer.array[...] = np.zeros(shape, kind)
    jf.nn.load(tmp_path / "x", buffer)
    np.testing.assert_array_equal(buffer.array, value)


def test_a_full_disk_leaves_the_old_file(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params, _, _ = made()
    file = tmp_path / "state"
    jf.nn.save(file, params)
    old = file.read_bytes()
    params["w"][...] = 7.0

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            jf.nn.save(file, params)
    assert file.read_bytes() == old and [p.name for p in tmp_path.iterdir()] == ["state"]


def test_a_killed_process_leaves_a_whole_file(tmp_path: Path) -> None:
    """It is killed between two saves, or in one: the file has one number, wherever that was."""
    script = (
        "import sys, numpy as np, jitfuse as jf\n"
        "x = jf.Buffer(np.zeros(200_000), 'x')\n"
        "print('begins', flush=True)\n"
        "while True:\n"
        "    x += 1.0\n"
        "    jf.nn.save(sys.argv[1], x)\n")
    file = tmp_path / "state"
    for wait in (0.02, 0.05, 0.09):
        with subprocess.Popen([sys.executable, "-c", script, str(file)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(wait)
            while not file.exists():
                assert process.poll() is None
            process.kill()
        buffer = jf.Buffer(np.zeros(200_000), "x")
        jf.nn.load(file, buffer)
        assert len(set(buffer.tolist())) == 1 and buffer[0] > 0
        file.unlink()


def test_states_of_other_names_or_shapes_change_nothing(made: Made, tmp_path: Path) -> None:
    params, _, _ = made()
    before = arrays(params)
    for state, message in (
        ({"w": np.zeros((4, 3))}, "lacks b"), ({"w": np.zeros((4, 3)), "b": np.zeros(3), "c": 1}, "has also c"),
        ({"b": np.zeros(3), "w": np.zeros((3, 4))}, r"w has the shape \(3, 4\), and \(4, 3\)"),
    ):
        with pytest.raises((jf.ArgumentError, jf.ShapeError), match=message):
            jf.nn.load_state_dict(params, state)
    (tmp_path / "x").write_bytes(b"no such file")
    with pytest.raises(jf.ArgumentError, match="is no safetensors file"):
        jf.nn.load(tmp_path / "x", params)
    with pytest.raises(jf.DTypeError, match="complex128"):
        jf.nn.save(tmp_path / "y", jf.Buffer(1j))
    with pytest.raises(jf.ArgumentError, match="w is a ndarray"):
        jf.nn.state_dict({"w": np.ones(2)})
    assert_same(before, arrays(params))


def test_modules_of_torch_give_and_take() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    params = jf.nn.parameters([{"weight": p.weight.detach().numpy(), "bias": np.zeros(p.out_features, "float32")}
                               for p in module])
    jf.nn.load_state_dict(params, module.state_dict())
    assert params[1]["bias"].tolist() == module[1].bias.tolist()
    params[0]["weight"][...] = 2.0
    module.load_state_dict(jf.nn.state_dict(params, torch=True))
    assert module[0].weight.unique().tolist() == [2.0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_tensors_of_torch_are_copied(dtype: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([1.5, -2.0], dtype=getattr(torch, dtype), requires_grad=True)
    made = [jf.Parameter(tensor, "w"), jf.nn.parameters({"w": tensor})["w"], jf.Buffer(tensor.detach())]
    for p in made:
        assert str(p.dtype) == dtype and p.array.astype("f8").tolist() == [1.5, -2.0]
    with torch.no_grad():
        tensor *= 2
    assert made[0].array.astype("f8").tolist() == [1.5, -2.0]
    back = jf.nn.state_dict({"w": made[0]}, torch=True)["w"]
    assert back.dtype == tensor.dtype and back.tolist() == [1.5, -2.0]
    for kind in (dtype, "float32"):
        into = jf.nn.parameters({"w": np.zeros(2, ml_dtypes.bfloat16 if kind == "bfloat16" else kind)})
        jf.nn.load_state_dict(into, {"w": tensor})
        assert str(into["w"].dtype) == kind and into["w"].array.astype("f8").tolist() == [3.0, -4.0]


def test_tensors_without_arrays_are_refused() -> None:
    torch = pytest.importorskip("torch")
    params = jf.nn.parameters({"w": np.zeros(2)})
    for tensor in (torch.ones(2).to(torch.float8_e4m3fn), torch.ones(2).to_sparse()):
        for use in (jf.Parameter, jf.Buffer, lambda x: jf.nn.load_state_dict(params, {"w": x})):
            with pytest.raises(jf.DTypeError, match=r"NumPy has no array.*to_dense\(\).to\(torch.float32\)"):
                use(tensor)
    assert params["w"].tolist() == [0.0, 0.0]
