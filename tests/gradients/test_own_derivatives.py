"""custom_vjp, custom_jvp and checkpoint: functions with derivatives of their own, in loops and in any order."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitfuse as jf

SCALE = 2.0


@jf.custom_vjp
def clipped(x: Any) -> Any:
    return x * 1


clipped.defvjp(lambda x: (x, None), lambda kept, g: (np.clip(g, -1, 1),))


@jf.custom_vjp
def scaled_product(x: Any, y: Any) -> Any:
    return x * y


scaled_product.defvjp(lambda x, y: (x * y, {"y": y}), lambda kept, g: (SCALE * g * kept["y"], None))


@jf.custom_jvp
def softplus(x: Any) -> Any:
    return np.log1p(np.exp(x))


softplus.defjvp(lambda xs, ts: (softplus(xs[0]), ts[0] / (1 + np.exp(-xs[0]))))


def test_the_function_itself_is_unchanged() -> None:
    x = np.array([3.0, -4.0])
    assert np.array_equal(clipped(x), x) and np.array_equal(jf.fuse(lambda x: clipped(x) + 1)(x), x + 1)
    assert softplus.__name__ == "softplus"


def test_reverse_rules() -> None:
    x = np.ones(2)
    assert np.array_equal(jf.grad(lambda x: np.sum(clipped(x) * 5))(x), x)
    product = jf.grad(lambda x: jf.scan(lambda c, a: (clipped(c * a), None), np.float64(1.0), x)[0])
    found = product(np.array([2.0, 3.0, 4.0]))
    assert np.array_equal(found, [1.0, 2.0, 6.0])


def test_rules_read_names_again_in_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    gradient = jf.grad(lambda x, y: np.sum(scaled_product(x, y)), (0, 1))
    x, y = np.ones(2), np.full(2, 3.0)
    assert np.array_equal(gradient(x, y), [[6, 6], [0, 0]])
    monkeypatch.setitem(globals(), "SCALE", 10.0)
    assert np.array_equal(gradient(x, y), [[30, 30], [0, 0]])


def test_tangent_rules_have_both_modes_in_any_order() -> None:
    assert jf.grad(softplus)(1000.0) == 1.0
    assert jf.jvp(softplus, (0.3,), (2.0,))[1] == pytest.approx(2 / (1 + np.exp(-0.3)))
    third = jf.grad(jf.grad(jf.grad(softplus)))(0.3)
    s = 1 / (1 + np.exp(-0.3))
    assert third == pytest.approx(s * (1 - s) * (1 - 2 * s))


def test_wrong_rules_say_what_is_wrong() -> None:
    with pytest.raises(jf.DerivativeError, match="custom_jvp"):
        jf.jvp(clipped, (np.ones(2),), (np.ones(2),))

    @jf.custom_vjp
    def without(x: Any) -> Any:
        return x * 2

    with pytest.raises(jf.DerivativeError, match="defvjp"):
        jf.grad(lambda x: np.sum(without(x)))(np.ones(2))
    without.defvjp(lambda x: (x * 2, None), lambda kept, g: g)
    with pytest.raises(jf.DerivativeError, match="tuple of 1"):
        jf.grad(lambda x: np.sum(without(x)))(np.ones(2))
    without.defvjp(lambda x: (x * 2, None), lambda kept, g: (np.sum(g),))
    with pytest.raises(jf.ShapeError, match="rule"):
        jf.grad(lambda x: np.sum(without(x)))(np.ones(2))


def test_a_checkpoint_computes_again() -> None:
    x = np.array([0.1, 0.2])

    def block(x: Any) -> Any:
        return np.sin(np.exp(x) @ np.full((2, 2), 0.5)) * x

    def loss(wrap: Any) -> Any:
        return lambda x: np.sum(wrap(block)(wrap(block)(x)))

    plain, again = jf.grad(loss(lambda f: f)), jf.grad(loss(jf.checkpoint))
    np.testing.assert_allclose(again(x), plain(x), rtol=1e-15)
    names = [step.op_name for step in again.program(x).steps]
    assert names.count("exp") > [step.op_name for step in plain.program(x).steps].count("exp")
    second = [jf.grad(lambda x, g=g: np.sum(g(x) ** 2))(x) for g in (plain, again)]
    np.testing.assert_allclose(second[0], second[1], rtol=1e-13)
    value, tangent = jf.jvp(loss(jf.checkpoint), (x,), (np.ones(2),))
    assert (value, tangent) == pytest.approx(jf.jvp(loss(lambda f: f), (x,), (np.ones(2),)))


def test_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    straight = jf.custom_vjp(lambda x: x.round())
    straight.defvjp(lambda x: (x.round(), None), lambda kept, g: (g,))
    x = torch.tensor([0.2, 1.7])
    assert torch.equal(jf.grad(lambda x: (straight(x) * 3).sum())(x), torch.full((2,), 3.0))
    x.requires_grad_()
    jf.fuse(lambda x: (straight(x) * 3).sum())(x).backward()
    assert torch.equal(x.grad, torch.full((2,), 3.0))


@pytest.mark.parametrize("rounds", [0, 1, 20])
def test_checkpoints_draw_the_same_random_numbers_again(rounds: int) -> None:
    def drawn(x: Any) -> Any:
        def step(c: Any, v: Any) -> Any:
            return np.sin(c * jf.random.uniform((3,))) + v, c * jf.random.uniform((3,))

        c, ys = jf.scan(step, np.cos(x * jf.random.uniform((3,))), np.ones((rounds, 3)))
        return np.sum(c) + np.sum(ys)

    def behind(f: Any) -> Any:
        return lambda x: f(x) * np.sum(x * jf.random.uniform((3,)))

    x, found = np.array([0.3, 0.5, 0.7]), []
    for f in (drawn, jf.checkpoint(drawn), jf.checkpoint(jf.checkpoint(drawn))):
        jf.random.seed(3)
        found.append(jf.value_and_grad(behind(f))(x))
        jf.random.seed(3)
        found.append(jf.jvp(behind(f), (x,), (np.ones(3),)))
        np.testing.assert_allclose(found[-1][1], np.sum(found[-2][1]))
    for value, change in found[2:]:
        np.testing.assert_allclose(value, found[0][0])
        np.testing.assert_allclose(np.sum(change), np.sum(found[0][1]))


def test_a_checkpointed_function_runs_once() -> None:
    calls: list[int] = []

    def counted(x: Any) -> Any:
        calls.append(1)
        return x * x

    x, buffer = np.array([0.3, 0.5]), np.zeros(2)
    with pytest.raises(jf.UntraceableError, match="writes attributes, items or variables that outlive it"):
        jf.grad(lambda x: np.sum(jf.checkpoint(counted)(x)))(x)

    def writing(x: Any) -> Any:
        buffer[...] = 7.0
        return x * x

    np.testing.assert_allclose(jf.grad(lambda x: np.sum(jf.checkpoint(writing)(x)))(x), 2 * x)
    np.testing.assert_array_equal(buffer, [7.0, 7.0])

    def drawing(x: Any) -> Any:
        return np.sin(x * np.random.normal(size=2))

    np.random.seed(0)
    found = jf.grad(lambda x: np.sum(jf.checkpoint(drawing)(x)))(x)
    np.random.seed(0)
    np.testing.assert_allclose(found, jf.grad(lambda x: np.sum(drawing(x)))(x), rtol=1e-12)
