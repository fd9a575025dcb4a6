"""Optimisers that users write, beside the same in plain NumPy."""
from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

Made = Callable[..., Any]


class Signs(jf.optim.Optimizer):
    """The sign of a mean of gradients, in steps that grow, with a bool that Python decides by."""

    def __init__(self, params: Any, lr: Any = 0.01, *, beta: float = 0.9, up: bool = False, **common: Any) -> None:
        self.power = 0.5
        super().__init__(params, {"lr": lr, "beta": beta, "up": up}, **common)

    def start(self, p: Any, group: Any) -> dict[str, Any]:
        return {"mean": np.zeros_like(p)}

    def step(self, p: Any, g: Any, slots: Any, by: Any) -> Any:
        mean = by.beta * slots["mean"] + (1.0 - by.beta) * g
        away = by.lr * np.sign(mean) * (by.count**self.power).astype(str(p.dtype))
        return (p + away if by.up else p - away), {"mean": mean}


class Bounded(jf.optim.Adam):
    """Adam whose parameters stay in [-0.5, 0.9]."""

    def step(self, p: Any, g: Any, slots: Any, by: Any) -> Any:
        new, kept = super().step(p, g, slots, by)
        return np.clip(new, -0.5, 0.9), kept


def by_hand(steps: int, data: Any, lr: Callable[[int], float] = lambda k: 0.01, sign: int = -1) -> Any:
    (x, y), w, b, m, n = data, np.ones((4, 3)), np.zeros(3), np.zeros((4, 3)), np.zeros(3)
    for k in range(1, steps + 1):
        g = 2 * (x @ w + b - y) / y.size
        m, n = 0.9 * m + 0.1 * (x.T @ g), 0.9 * n + 0.1 * g.sum(axis=0)
        w, b = w + sign * lr(k) * np.sign(m) * k**0.5, b + sign * lr(k) * np.sign(n) * k**0.5
    return w, b, m


def test_steps_are_those_of_numpy(made: Made, data: Any) -> None:
    params, optimiser, step = made(Signs, lr=0.01)
    for k in range(1, 7):
        before = step(*data, training=False)
        assert step(*data) == before
        w, b, m = by_hand(k, data)
        np.testing.assert_allclose(params["w"].array, w, rtol=1e-12)
        np.testing.assert_allclose(params["b"].array, b, rtol=1e-12)
        np.testing.assert_allclose(optimiser.state_dict()["w.mean"], m, rtol=1e-12)
    assert step.stats()["traces"] == 1 and step.stats()["fallbacks"] == 0


def test_numbers_change_and_bools_are_guarded(made: Made, data: Any) -> None:
    params, optimiser, step = made(Signs, lr=0.01)
    rates = {k: 0.01 / k for k in range(1, 6)}
    for rate in rates.values():
        optimiser.groups[0].lr = rate
        step(*data)
    np.testing.assert_allclose(params["w"].array, by_hand(5, data, rates.__getitem__)[0], rtol=1e-12)
    assert step.stats()["traces"] == 1
    held = params["w"].array.copy()
    optimiser.groups[0].up = True
    step(*data)
    _, down, again = made(Signs, lr=0.01)
    assert (np.sign(params["w"].array - held) == np.sign(by_hand(1, data, sign=1)[0] - 1.0)).mean() > 0.5
    assert step.stats()["traces"] == 2 and down.count.item() == again.stats()["traces"] == 0


def test_what_is_shared_works(made: Made, data: Any) -> None:
    schedule, _, step = made(Signs, lr=lambda count: 0.01 / (count + 1.0))
    for _ in range(4):
        step(*data)
    np.testing.assert_allclose(schedule["w"].array, by_hand(4, data, lambda k: 0.01 / k)[0], rtol=1e-12)
    params, optimiser, twice = made(Signs, lr=0.01, accumulate=2, clip_norm=1e6, loss_scale=2.0)
    for _ in range(4):
        twice(*data)
    np.testing.assert_allclose(params["w"].array, by_hand(2, data)[0], rtol=1e-12)
    assert optimiser.count.item() == 2
    gradient = jf.grad(lambda p, x, y: np.mean((x @ p["w"] + p["b"] - y) ** 2))
    plain, own, _ = made(Signs, lr=0.01)
    for _ in range(3):
        own.apply(gradient({k: p.array for k, p in plain.items()}, *data))
    np.testing.assert_allclose(plain["w"].array, by_hand(3, data)[0], rtol=1e-12)
    _, again = pickle.loads(pickle.dumps((plain, own)))
    assert again.count.item() == 3 and type(again) is Signs


def test_a_built_in_one_is_a_base(made: Made, data: Any) -> None:
    params, _, step = made(Bounded, lr=0.1)
    plain, reference, _ = made(jf.optim.Adam, lr=0.1)
    gradient = jf.grad(lambda p, x, y: np.mean((x @ p["w"] + p["b"] - y) ** 2))
    for _ in range(5):
        step(*data)
        reference.apply(gradient({k: p.array for k, p in plain.items()}, *data))
        for p in plain.values():
            p[...] = np.clip(p.array, -0.5, 0.9)
    np.testing.assert_allclose(params["w"].array, plain["w"].array, rtol=1e-12)
    assert step.stats()["traces"] == 1 and params["w"].array.max() <= 0.9


def test_objects_with_one_share_a_trace(data: Any) -> None:
    class Trainer:
        def __init__(self, lr: float) -> None:
            self.params = jf.nn.parameters({"w": np.ones((4, 3)), "b": np.zeros(3)})
            self.opt = Signs(self.params, lr=lr)

        @jf.fuse(training=True)
        def step(self, x: Any, y: Any) -> Any:
            self.opt.minimize(np.mean((x @ self.params["w"] + self.params["b"] - y) ** 2))

    for lr in (0.01, 0.02, 0.03):
        one = Trainer(lr)
        for _ in range(3):
            one.step(*data)
        np.testing.assert_allclose(one.params["w"].array, by_hand(3, data, lambda k, lr=lr: lr)[0], rtol=1e-12)
    assert Trainer.step.stats()["traces"] == 1


@pytest.mark.parametrize(("returned", "message"), [
    (lambda p: p, r"Wrong.step returns a Traced|Wrong.step returns a"),
    (lambda p: (p, {"speed": p}), "the slots speed, and must return a pair.*which has none"),
    (lambda p: [p, {}], "Wrong.step returns a list"),
])
def test_steps_of_another_kind_are_refused(returned: Any, message: str, made: Made, data: Any) -> None:
    class Wrong(jf.optim.Optimizer):
        def __init__(self, params: Any, lr: float = 0.1) -> None:
            super().__init__(params, {"lr": lr})

        def step(self, p: Any, g: Any, slots: Any, by: Any) -> Any:
            return returned(p)

    params, _, step = made(Wrong)
    with pytest.raises(jf.ArgumentError, match=message):
        step(*data)
    np.testing.assert_array_equal(params["w"].array, 1.0)


def test_a_new_shape_is_refused(made: Made, data: Any) -> None:
    class Wrong(jf.optim.Optimizer):
        def __init__(self, params: Any, lr: float = 0.1) -> None:
            super().__init__(params, {"lr": lr})

        def step(self, p: Any, g: Any, slots: Any, by: Any) -> Any:
            return p[:1], {}

    params, _, step = made(Wrong)
    with pytest.raises(jf.ShapeError, match="state of shape"):
        step(*data)
    np.testing.assert_array_equal(params["w"].array, 1.0)
