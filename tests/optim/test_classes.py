"""Steps that are methods: each object moves its own state, and objects of one structure share a trace."""
from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import jitfuse as jf


class Trainer:
    def __init__(self, value: float, kind: Any = jf.optim.Adam, **options: Any) -> None:
        self.params = jf.nn.parameters({"w": np.full((4, 3), value), "b": np.zeros(3)})
        self.opt = kind(self.params, **{"lr": 0.1, **options})
        self.ema = jf.optim.EMA(self.params, decay=0.5)
        self.seen = jf.Buffer(np.int64(0))

    @jf.fuse(training=True)
    def step(self, x: Any, y: Any) -> Any:
        self.seen[...] = self.seen + 1
        loss = np.mean((x @ self.params["w"] + self.params["b"] - y) ** 2)
        self.opt.minimize(loss)
        self.ema.update()
        return loss

    @jf.fuse
    def plain(self, x: Any, y: Any) -> Any:
        return np.mean((x @ self.params["w"] + self.params["b"] - y) ** 2)


def alone(value: float, steps: int, data: Any, kind: Any = jf.optim.Adam, **options: Any) -> dict[str, Any]:
    """Return the state of a trainer whose step is a function of its own."""
    one = Trainer(value, kind, **options)
    step = jf.fuse(Trainer.step.__wrapped__, training=True)
    for _ in range(steps):
        step(one, *data)
    return state(one)


def state(one: Trainer) -> dict[str, Any]:
    return jf.nn.state_dict({"p": one.params, "o": one.opt, "e": one.ema, "s": one.seen})


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, x in one.items():
        np.testing.assert_allclose(x, other[name], rtol=1e-12, err_msg=name)


def test_objects_share_a_trace_and_move_their_own_state(data: Any) -> None:
    before = Trainer.step.stats()["traces"]
    values = np.linspace(0.0, 1.0, 5)
    ours = [Trainer(v) for v in values]
    for _ in range(4):
        for one in ours:
            one.step(*data)
    for one, value in zip(ours, values, strict=True):
        assert_same(state(one), alone(value, 4, data))
    assert Trainer.step.stats()["traces"] <= before + 1 and Trainer.step.stats()["fallbacks"] == 0


def test_numbers_are_read_from_each(data: Any) -> None:
    slow, fast = Trainer(1.0, lr=0.0), Trainer(1.0, lr=0.1)
    for _ in range(3):
        slow.step(*data), fast.step(*data)
    np.testing.assert_array_equal(slow.params["w"].array, 1.0)
    assert_same(state(fast), alone(1.0, 3, data))
    slow.opt.groups[0].lr = 0.1
    slow.step(*data)
    assert (slow.params["w"].array != 1.0).all()


def test_a_hundred_objects_are_not_kept(data: Any) -> None:
    Trainer(0.0).step(*data)
    before, found = Trainer.step.stats()["traces"], []
    for k in range(100):
        one = Trainer(k / 100)
        one.step(*data), one.plain(*data)
        found.append(weakref.ref(one.opt))
    del one
    gc.collect()
    assert Trainer.step.stats()["traces"] == before and Trainer.step.stats()["fallbacks"] == 0
    assert not any(ref() for ref in found)


@pytest.mark.parametrize("other", [
    {"kind": jf.optim.AdamW}, {"amsgrad": True}, {"accumulate": 2}, {"clip_norm": 0.1}, {"maximize": True},
    {"lr": jf.optim.Cosine(0.1, steps=5)}, {"lr": jf.optim.Cosine(0.2, steps=5)},
    {"lr": lambda count: 0.1 / (count + 1)}, {"loss_scale": 8.0}, {"betas": (0.5, 0.9)},
], ids=lambda options: next(iter(options)))
def test_another_structure_is_another_trace(other: dict[str, Any], data: Any) -> None:
    """In turn with one of the usual structure, and with a second of the same."""
    same, one, two = Trainer(1.0), Trainer(1.0, **other), Trainer(0.5, **other)
    for _ in range(4):
        same.step(*data), one.step(*data), two.step(*data)
    assert_same(state(same), alone(1.0, 4, data))
    assert_same(state(one), alone(1.0, 4, data, **other))
    assert_same(state(two), alone(0.5, 4, data, **other))


def test_schedules_are_compared_by_their_values(data: Any) -> None:
    Trainer(0.0, lr=jf.optim.Linear(0.3, steps=7)).step(*data)
    before = Trainer.step.stats()["traces"]
    for k in range(3):
        Trainer(float(k), lr=jf.optim.Linear(0.3, steps=7)).step(*data)
    assert Trainer.step.stats()["traces"] == before


def test_an_optimiser_of_other_parameters_is_found(data: Any) -> None:
    for _ in range(5):
        Trainer(1.0).step(*data)
    wrong, other = Trainer(1.0), Trainer(1.0)
    wrong.opt = other.opt
    with pytest.raises(jf.DerivativeError, match="does not depend on"):
        wrong.step(*data)
    for one in (wrong, other):
        np.testing.assert_array_equal(one.params["w"].array, 1.0)


def test_buffers_that_become_one_with_a_parameter() -> None:
    class Model:
        def __init__(self, tied: bool) -> None:
            self.w = jf.Parameter(np.full(3, 2.0), "w")
            self.kept = self.w if tied else jf.Buffer(np.full(3, 2.0))
            self.opt = jf.optim.SGD([self.w], lr=0.25)

        @jf.fuse(training=True)
        def step(self, x: Any) -> Any:
            self.opt.minimize(np.sum(self.w * self.w * x))
            return self.kept @ np.eye(3)

    for _ in range(2):
        for tied in (False, False, True, False, True):
            one = Model(tied)
            for k in range(1, 4):
                expected = 2.0 * 0.5**k
                np.testing.assert_allclose(np.asarray(one.step(np.ones(3))), expected if tied else 2.0)
                np.testing.assert_allclose(one.w.array, expected)


def test_an_optimiser_may_be_an_argument(data: Any) -> None:
    @jf.fuse(training=True)
    def step(params: Any, opt: Any, x: Any, y: Any) -> Any:
        loss = np.mean((x @ params["w"] + params["b"] - y) ** 2)
        opt.minimize(loss)
        return loss

    ours = [Trainer(v) for v in (0.0, 0.5, 1.0)]
    for _ in range(3):
        for one in ours:
            step(one.params, one.opt, *data)
    for one, value in zip(ours, (0.0, 0.5, 1.0), strict=True):
        expected = alone(value, 3, data)
        np.testing.assert_allclose(one.params["w"].array, expected["p.w"], rtol=1e-12)
    assert step.stats()["traces"] == 1
    with pytest.raises(jf.DerivativeError, match="does not depend on"):
        step(ours[0].params, ours[1].opt, *data)


def test_copies_share_the_trace(data: Any) -> None:
    one = Trainer(1.0)
    one.step(*data)
    before = Trainer.step.stats()["traces"]
    other = copy.deepcopy(one)
    other.step(*data)
    assert Trainer.step.stats()["traces"] == before
    assert one.opt.count.item() == 1 and other.opt.count.item() == 2
    assert_same(state(other), alone(1.0, 2, data))


def test_methods_that_read_hidden_state_are_of_one_object() -> None:
    class Model:
        def __init__(self, momentum: float) -> None:
            self.opt = jf.optim.SGD([jf.Parameter(np.ones(3), "w")], lr=0.1, momentum=momentum)

        @jf.fuse
        def scaled(self, x: Any) -> Any:
            return x * len(self.opt.buffers())

    for momentum in (0.0, 0.9, 0.0):
        one = Model(momentum)
        for _ in range(2):
            np.testing.assert_array_equal(one.scaled(np.ones(2)), 2.0 if momentum else 1.0)
