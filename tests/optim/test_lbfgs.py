"""LBFGS beside torch's own: parameters, losses, and how often the loss is computed."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amount import crossed

import jitfuse as jf

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(20, 4)), RNG.normal(size=(20,))
START = RNG.normal(size=(4,))


def ours(**options: Any) -> Any:
    params = jf.nn.parameters({"w": START.copy(), "b": np.zeros(())})
    optimiser = jf.optim.LBFGS(params, **options)

    @jf.fuse(training=True)
    def step(x: Any, y: Any) -> Any:
        return optimiser.minimize(
            lambda: np.mean(np.log1p(np.exp(-y * (x @ params["w"] + params["b"])))) + 0.01 * np.sum(params["w"] ** 4))

    return params, optimiser, step


def theirs(**options: Any) -> Any:
    w = torch.tensor(START.copy(), requires_grad=True)
    b = torch.zeros((), dtype=torch.float64, requires_grad=True)
    x, y = torch.tensor(X), torch.tensor(Y)
    optimiser = torch.optim.LBFGS([b, w], **options)

    def closure() -> Any:
        optimiser.zero_grad()
        loss = torch.log1p(torch.exp(-y * (x @ w + b))).mean() + 0.01 * (w**4).sum()
        loss.backward()
        return loss

    return w, optimiser, lambda: float(optimiser.step(closure).detach())


@pytest.mark.parametrize(("search", "options"), crossed(2, [None, "strong_wolfe"], [
    {"lr": 0.5, "max_iter": 5}, {"lr": 0.3, "history_size": 2}, {"max_iter": 1}, {"lr": 0.1, "max_eval": 3},
    {"lr": 0.2, "tolerance_grad": 0.05}, {"lr": 0.2, "tolerance_change": 1e-3}, {"lr": 1e-3, "max_iter": 8},
    {"lr": 0.2, "tolerance_grad": 1e3},
]), ids=str)
def test_steps_are_those_of_torch(search: str | None, options: dict[str, Any]) -> None:
    params, optimiser, step = ours(**options, line_search_fn=search)
    w, reference, right = theirs(**options, line_search_fn=search)
    for _ in range(5):
        assert float(step(X, Y)) == pytest.approx(right(), rel=1e-9)
        np.testing.assert_allclose(params["w"].array, w.detach().numpy(), rtol=1e-9, atol=1e-12)
        kept = reference.state[reference._params[0]]
        assert optimiser.slots[0]["iterations"].item() == kept["n_iter"]
        assert optimiser.slots[0]["evaluations"].item() == kept["func_evals"]
    assert step.stats()["traces"] == 1 and step.stats()["fallbacks"] == 0


def test_nothing_moves_in_evaluation() -> None:
    params, optimiser, step = ours(line_search_fn="strong_wolfe", max_iter=3)
    step(X, Y)
    before = jf.nn.state_dict({"p": params, "o": optimiser})
    loss = step(X, Y, training=False)
    for name, value in jf.nn.state_dict({"p": params, "o": optimiser}).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    assert step(X, Y) == loss


def test_a_state_is_gone_on_with() -> None:
    params, optimiser, step = ours(lr=0.2, max_iter=4)
    other, again, stepped = ours(lr=0.2, max_iter=4)
    for _ in range(2):
        step(X, Y)
    jf.nn.load_state_dict({"p": other, "o": again}, jf.nn.state_dict({"p": params, "o": optimiser}))
    assert step(X, Y) == stepped(X, Y)
    np.testing.assert_array_equal(params["w"].array, other["w"].array)


def test_numbers_change_without_a_trace() -> None:
    params, optimiser, step = ours(lr=0.2, max_iter=4)
    w, reference, right = theirs(lr=0.2, max_iter=4)
    for rate, most in ((0.2, 4), (0.1, 2), (0.3, 7)):
        optimiser.groups[0].lr = reference.param_groups[0]["lr"] = rate
        optimiser.groups[0].max_iter = reference.param_groups[0]["max_iter"] = most
        step(X, Y), right()
        np.testing.assert_allclose(params["w"].array, w.detach().numpy(), rtol=1e-9)
    assert step.stats()["traces"] == 1


def test_float32_and_parameters_as_arguments() -> None:
    params = jf.nn.parameters({"w": np.array([3.0, -2.0, 4.0], "float32")})
    optimiser = jf.optim.LBFGS(params, line_search_fn="strong_wolfe")

    @jf.fuse(training=True)
    def step(params: Any, x: Any) -> Any:
        return optimiser.minimize(lambda: np.sum(x * (params["w"] - 1.0) ** 2))

    x = np.array([1.0, 10.0, 100.0], "float32")
    losses = [float(step(params, x)) for _ in range(3)]
    assert losses[-1] < 1e-6 < losses[0] and str(params["w"].dtype) == "float32"
    np.testing.assert_allclose(params["w"].array, 1.0, rtol=1e-4)


def test_objects_share_a_trace() -> None:
    class Fit:
        def __init__(self, at: float) -> None:
            self.w = jf.Parameter(np.full(3, at), "w")
            self.opt = jf.optim.LBFGS([self.w], line_search_fn="strong_wolfe")

        @jf.fuse(training=True)
        def step(self, x: Any) -> Any:
            return self.opt.minimize(lambda: np.sum((self.w - x) ** 2))

    for at in (0.0, 1.0, 2.0):
        one = Fit(at)
        assert float(one.step(np.full(3, 4.0))) == pytest.approx(3 * (4 - at) ** 2)
        np.testing.assert_allclose(one.w.array, 4.0, rtol=1e-6)
    assert Fit.step.stats()["traces"] == 1


@pytest.mark.parametrize(("make", "message"), [
    (lambda p: jf.optim.LBFGS(p, line_search_fn="armijo"), "line_search_fn is 'armijo'"),
    (lambda p: jf.optim.LBFGS(p, history_size=0), "history_size is 0"),
    (lambda p: jf.optim.LBFGS([{"params": p["w"]}, {"params": p["b"]}]), "one group"),
    (lambda p: jf.optim.LBFGS([p["w"], jf.Parameter(np.zeros(1, "float32"), "z")]), "float32 and float64.*one dtype"),
    (lambda p: jf.optim.LBFGS(p).apply({"w": np.zeros(2), "b": np.zeros(2)}), "as a function"),
    (lambda p: jf.optim.LBFGS(p).minimize(np.sum(p["w"])), "as a function"),
])
@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_mistakes_are_named(make: Any, message: str) -> None:
    with pytest.raises(jf.ArgumentError, match=message):
        make(jf.nn.parameters({"w": np.ones(2), "b": np.ones(2)}))


def test_losses_that_are_none() -> None:
    params = jf.nn.parameters({"w": np.ones(2), "b": np.ones(2)})
    optimiser = jf.optim.LBFGS(params)
    for loss, message in ((lambda: np.sum(params["w"]), "does not depend on b"), (lambda: params["w"], "mean or sum")):
        with pytest.raises(jf.DerivativeError, match=message):
            jf.fuse(lambda loss=loss: optimiser.minimize(loss), training=True)()
    with pytest.raises(jf.DerivativeError, match="outside of a trace"):
        optimiser.minimize(lambda: 1.0)
