"""Faults that users found: each a small program, and what is right."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitfuse as jf


def scalars(*values: float) -> list[Any]:
    return [jf.Parameter(np.array(v), "abc"[k]) for k, v in enumerate(values)]


def test_a_later_loss_does_not_see_how_parameters_moved() -> None:
    """As in torch: adversaries in turn."""
    a, b = scalars(2.0, 3.0)
    one, two = jf.optim.SGD([a], lr=0.1), jf.optim.SGD([b], lr=0.1)

    @jf.fuse(training=True)
    def step() -> None:
        one.minimize(a * a * b)
        two.minimize(a * b)

    step()
    assert a.item() == pytest.approx(0.8) and b.item() == pytest.approx(3 - 0.1 * 0.8)


def test_averages_are_constants_of_a_loss() -> None:
    (a,) = scalars(2.0)
    optimiser, ema = jf.optim.SGD([a], lr=0.1), jf.optim.EMA([a], decay=0.5)

    @jf.fuse(training=True)
    def step() -> None:
        ema.update()
        optimiser.minimize((a - 3 * ema.averages[0]) ** 2)

    step()
    assert a.item() == pytest.approx(2 - 0.1 * 2 * (2 - 6))


def test_running_statistics_are_constants_of_a_loss() -> None:
    (a,) = scalars(2.0)
    mean, var = jf.Buffer(np.zeros(3)), jf.Buffer(np.ones(3))
    optimiser = jf.optim.SGD([a], lr=0.1)

    @jf.fuse(training=True)
    def step(x: Any) -> None:
        jf.nn.batch_norm(x * a, None, None, mean, var)
        optimiser.minimize(a + np.sum(mean * mean))

    x = np.arange(6.0).reshape(2, 3)
    step(x)
    assert a.item() == pytest.approx(1.9)
    np.testing.assert_allclose(mean.array, 0.1 * x.mean(axis=0) * 2.0)


@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize("inner", [True, False])
def test_a_fused_function_within_has_its_own_mode(outer: bool, inner: bool) -> None:
    (a,) = scalars(1.0)
    optimiser = jf.optim.SGD([a], lr=0.1)

    @jf.fuse(training=True)
    def step(x: Any) -> Any:
        optimiser.minimize(a * x)
        return 2.0 if jf.is_training() else 1.0

    around = jf.fuse(lambda x: step(x, training=inner) * x)
    inherits = jf.fuse(lambda x: step(x) * x)
    x = np.float64(1.0)
    assert around(x, training=outer) == (2.0 if inner else 1.0)
    assert a.item() == pytest.approx(0.9 if inner else 1.0)
    before = a.item()
    assert inherits(x, training=outer) == (2.0 if outer else 1.0)
    assert a.item() == pytest.approx(before - 0.1 if outer else before)


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_plain_python_moves_nothing_in_evaluation() -> None:
    (a,) = scalars(1.0)
    ema, optimiser, log = jf.optim.EMA([a], decay=0.5), jf.optim.SGD([a], lr=0.1), []
    a[...] = 3.0

    @jf.fuse(training=True)
    def step(g: Any) -> None:
        log.append(1)
        ema.update()
        optimiser.apply([g])

    step(np.array(1.0), training=False)
    assert ema.averages[0].item() == 1.0 and a.item() == 3.0
    step(np.array(1.0))
    assert ema.averages[0].item() == 2.0 and a.item() == pytest.approx(2.9)


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_state_is_not_copied_at_trace_time(tmp_path: Path) -> None:
    (a,) = scalars(1.0)
    ema = jf.optim.EMA([a], decay=0.0)

    @jf.fuse(training=True)
    def step() -> Any:
        ema.update()
        return jf.nn.state_dict({"e": ema})["e.a.average"] * 1

    for value in (2.0, 3.0, 4.0):
        a[...] = value
        assert step() == value


def test_limits_of_norms_in_float16() -> None:
    params = jf.nn.parameters({"w": np.zeros(4, "float16")})
    jf.optim.SGD(params, lr=1.0, clip_norm=1.0).apply({"w": np.full(4, 200, "float16")})
    np.testing.assert_allclose(params["w"].array.astype("f8"), -0.5, rtol=1e-3)


def test_gradients_find_their_parameters_by_name() -> None:
    params = jf.nn.parameters({"a": np.zeros(2), "b": np.zeros(2)})
    optimiser = jf.optim.SGD([{"params": params["b"]}, {"params": params["a"]}], lr=1.0)
    optimiser.apply({"a": np.ones(2), "b": np.full(2, 5.0)})
    assert params["a"].tolist() == [-1, -1] and params["b"].tolist() == [-5, -5]
    for wrong, kind in (({"a": np.ones(2), "z": np.ones(2)}, jf.ArgumentError),
                        ({"a": np.ones(2), "b": np.ones(7)}, jf.ShapeError), ([np.ones(2), np.ones(7)], jf.ShapeError)):
        with pytest.raises(kind):
            optimiser.apply(wrong)
    assert params["a"].tolist() == [-1, -1] and params["b"].tolist() == [-5, -5]


def test_accumulated_gradients_of_parameters_that_a_call_does_not_use() -> None:
    a, b = scalars(1.0, 1.0)
    optimiser = jf.optim.SGD([a, b], lr=0.1, accumulate=2, unused=["b"])
    with_b = jf.fuse(lambda: optimiser.minimize(a + 2 * b), training=True)
    without = jf.fuse(lambda: optimiser.minimize(a * 1), training=True)
    for _ in range(2):
        with_b()
        without()
    assert a.item() == pytest.approx(0.8) and b.item() == pytest.approx(0.8)


def test_names_that_coincide_are_refused() -> None:
    tree = {"a.b": jf.Parameter([1.0]), "a": {"b": jf.Parameter([2.0])}}
    with pytest.raises(jf.ArgumentError, match="two arrays of the tree are named"):
        jf.nn.state_dict(tree)


def test_states_are_loaded_whole_or_not() -> None:
    params = jf.nn.parameters({"a": np.ones(2), "b": np.full(2, 2.0)})
    for wrong in (np.array(["x", "y"]), np.ones(2) * 1j):
        with pytest.raises(jf.DTypeError):
            jf.nn.load_state_dict(params, {"a": np.zeros(2), "b": wrong})
    assert params["a"].tolist() == [1, 1]
    jf.nn.load_state_dict(params, {"a": params["b"], "b": params["a"]})
    assert params["a"].tolist() == [2, 2] and params["b"].tolist() == [1, 1]


@pytest.mark.parametrize("options", [
    {"clip_norm": -1.0}, {"clip_value": 0.0}, {"loss_scale": 0.0}, {"clip_norm": float("nan")}, {"lr": "0.1"},
    {"lr": None}, {"lr": float("nan")}, {"betas": (1.0, 0.9)}, {"betas": [0.9, 0.9]}, {"betas": 0.9}, {"unused": "a"},
])
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(jf.ArgumentError):
        jf.optim.Adam(scalars(1.0), **options)


def test_options_that_are_set_are_checked() -> None:
    optimiser = jf.optim.SGD(scalars(1.0), lr=0.1)
    for name, value in (("lr", 0.0), ("clip_nrm", 1.0), ("clip_norm", -1.0)):
        with pytest.raises(jf.ArgumentError):
            setattr(optimiser, name, value)
    with pytest.raises(jf.ArgumentError):
        optimiser.groups[0].lr = -1.0
    with pytest.raises(jf.ArgumentError, match="takes real parameters alone"):
        jf.optim.Adafactor([jf.Parameter(1j)])
    with pytest.raises(jf.ArgumentError, match="groups are dicts"):
        jf.optim.SGD([{"params": scalars(1.0)}, scalars(2.0)[0]])


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_errors_behind_minimize_are_the_users_own() -> None:
    (a,) = scalars(1.0)
    optimiser = jf.optim.SGD([a], lr=0.1)

    @jf.fuse(training=True)
    def step(x: Any) -> Any:
        loss = a * x
        optimiser.minimize(loss)
        if not np.isfinite(loss):
            raise FloatingPointError("the loss is not finite")
        return {}["missing"] if x > 5 else loss

    step(np.float64(1.0))
    with pytest.raises(FloatingPointError, match="the loss is not finite"):
        step(np.float64("nan"))
    with pytest.raises(KeyError, match="missing"):
        step(np.float64(6.0))


def test_rates_of_asgd_that_change() -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
    params = jf.nn.parameters({"w": np.array([1.0, -2.0])})
    options = {"lr": 0.1, "lambd": 0.01, "t0": 2.0}
    reference, optimiser = torch.optim.ASGD([theirs], **options), jf.optim.ASGD(params, **options)
    for rate in (0.1, 0.1, 0.5, 0.5, 0.02, 0.3):
        optimiser.groups[0].lr = reference.param_groups[0]["lr"] = rate
        theirs.grad = torch.tensor([0.3, -0.7], dtype=torch.float64)
        reference.step()
        optimiser.apply({"w": np.array([0.3, -0.7])})
        np.testing.assert_allclose(params["w"].array, theirs.detach().numpy(), rtol=1e-6)  # torch's rates: float32


@pytest.mark.parametrize("where", ["argument", "constant", "weights"])
def test_a_class_that_is_not_there_is_named_with_the_line(where: str) -> None:
    params = jf.nn.parameters({"w": np.zeros((4, 3))})
    optimiser = jf.optim.SGD(params, lr=0.1)

    @jf.fuse(training=True)
    def step(x: Any, targets: Any) -> Any:
        classes = np.array([0, 3]) if where == "constant" else targets
        weight = np.ones(3) if where == "weights" else None
        loss = jf.nn.cross_entropy(x @ params["w"], classes, weight=weight)
        optimiser.minimize(loss)
        return loss

    x = np.ones((2, 4))
    for _ in range(20 if where != "constant" else 0):
        step(x, np.array([0, 2]))
    before = params["w"].array.copy()
    for _ in range(3):
        with pytest.raises(IndexError, match=r"index 3 is out of bounds.*test_found.py"):
            step(x, np.array([0, 3]))
    np.testing.assert_array_equal(params["w"].array, before)
