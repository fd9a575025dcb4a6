"""Derivatives of loops: Python's long ones are re-rolled first, so that a derivative is a scan too."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import amount
import numpy as np
import pytest

import jitfuse as jf

ROWS = np.random.default_rng(0).random((200, 3))
AT = np.array([0.3, 0.5, 0.7])


def carried(x: Any) -> Any:
    s = x * 0
    for _ in range(400):
        s = np.sin(s) * 0.9 + x
    return np.sum(s)


def over_rows(x: Any) -> Any:
    s = np.zeros(3)
    for i in range(len(ROWS)):
        s = np.tanh(s * x + ROWS[i])
    return np.sum(s * s)


def layered(x: Any) -> Any:
    s, t, total = np.zeros(3), x, 0.0
    for i in range(len(ROWS) - 1):
        s = np.tanh(s * x + ROWS[i])
        t = np.tanh(t * x[0] + s)
        total = total + np.sum(t * ROWS[i + 1])
    return total


def backwards(x: Any) -> Any:
    s = np.zeros(3)
    for i in range(len(ROWS) - 1, -1, -1):
        s = np.tanh(s * x + ROWS[i, ::-1] * ROWS[i, 0])
    return np.sum(s * s)


def collected(x: Any) -> Any:
    out, s = np.zeros(200), x[0]
    for i in range(200):
        s = np.sin(s) * 0.9 + x[1]
        out[i] = s
    return np.sum(out**2) * x[2]


def recurrent(x: Any) -> Any:
    out = np.zeros(200)
    out[0] = x[0]
    for i in range(1, 200):
        out[i] = np.sin(out[i - 1]) * x[1] + x[2]
    return np.sum(out**2)


def oscillating(x: Any) -> Any:
    place, speed = np.zeros(200), np.zeros(200)
    place[0], speed[0] = x[0], x[1]
    for i in range(1, 200):
        speed[i] = speed[i - 1] - 0.05 * x[2] * place[i - 1]
        place[i] = place[i - 1] + 0.05 * speed[i]
    return np.sum(place**2) * speed[-1]


def of_two_before(x: Any) -> Any:
    out = np.ones(200) * x[0]
    for i in range(2, 200):
        out[i] = np.sin(out[i - 1]) * x[1] + x[2] * out[i - 2] + 0.01 * i * out[i]
    return np.sum(out * np.linspace(0, 1, 200))


def smoothed(x: Any) -> Any:
    out = np.linspace(0, 1, 300) * x[0]
    for i in range(1, 299):
        out[i] = 0.5 * out[i] + 0.25 * out[i - 1] + 0.25 * out[i + 1] * x[1]
    return np.sum(np.sin(out)) * x[2]


def of_columns(x: Any) -> Any:
    out = np.zeros((3, 200))
    out[:, 0] = x
    for i in range(1, 200):
        out[:, i] = np.tanh(out[:, i - 1] * 1.01 + x)
    return np.sum(out**2)


def of_rows(x: Any) -> Any:
    out = np.zeros((200, 3))
    out[0] = x
    for i in range(1, 200):
        out[i] = np.tanh(out[i - 1] * 1.01 + x * out[i - 1, 1]) + out[0, 2]
    return np.sum(out**2)


def from_the_end(x: Any) -> Any:
    out = np.zeros((200, 2))
    out[-1] = x[:2]
    for i in range(198, -1, -1):
        out[i] = np.cos(out[i + 1, ::-1]) * x[1] + x[2] * 0.1
    return np.sum(out)


def of_itself(x: Any) -> Any:
    out = np.ones((200, 3)) * x
    for i in range(200):
        out[i] = np.tanh(out[i] * i * 0.01) + out[i, ::-1]
    return np.sum(out**2)


def overlapping(x: Any) -> Any:
    out = np.zeros(200)
    out[:3] = x
    for i in range(150):
        out[i + 1 : i + 4] = np.sin(out[i : i + 3]) * x + 0.1
    return np.sum(out**2)


def counted(x: Any, n: int) -> Any:
    return np.sum(jf.fori_loop(0, n, lambda i, v: v * x + i, x))


def differences(f: Callable[[Any], Any], x: Any) -> Any:
    steps = np.eye(len(x)) * 1e-6
    return np.array([(f(x + h) - f(x - h)) / 2e-6 for h in steps])


@pytest.mark.parametrize("f", [carried, over_rows, layered, backwards, collected, recurrent], ids=lambda f: f.__name__)
def test_pythons_loops(f: Callable[[Any], Any]) -> None:
    gradient = jf.grad(f)
    np.testing.assert_allclose(gradient(AT), differences(f, AT), rtol=1e-5, atol=1e-6)
    value, tangent = jf.jvp(f, (AT,), (np.ones(3),))
    np.testing.assert_allclose(value, f(AT), rtol=1e-12)
    np.testing.assert_allclose(tangent, np.sum(gradient(AT)), rtol=1e-9)


@pytest.mark.parametrize("f", [carried, over_rows, layered], ids=lambda f: f.__name__)
def test_long_loops_are_scans(f: Callable[[Any], Any]) -> None:
    gradient = jf.grad(f)
    names = [step.op_name for step in gradient.program(AT).steps]
    assert names.count("scan") == 2 and len(names) < 200
    second = jf.grad(lambda x: np.sum(gradient(x)))
    np.testing.assert_allclose(second(AT), differences(lambda x: np.sum(gradient(x)), AT), rtol=1e-4, atol=1e-5)


def test_counted_loops_between_pythons_ints() -> None:
    gradient = jf.grad(counted)
    for n in (0, 1, 4):
        np.testing.assert_allclose(gradient(AT, n), differences(lambda x, n=n: counted(x, n), AT), rtol=1e-6)


def test_loops_without_a_known_end() -> None:
    def doubled(x: Any) -> Any:
        return np.sum(jf.while_loop(lambda v: v.sum() < 100, lambda v: v * 2, x))

    with pytest.raises(jf.DerivativeError, match=r"jf.scan.*forward mode"):
        jf.grad(doubled)(AT)
    assert jf.jvp(doubled, (AT,), (AT,)) == (192.0, 192.0)


@pytest.mark.parametrize("around", ["scan", "fori_loop", "checkpoint"])
def test_choices_in_loops_keep_infinities_out(around: str) -> None:
    def kept(x: Any) -> Any:
        big = np.exp(x) * 2.0  # inf, which is not chosen
        if around == "scan":
            return jf.scan(lambda c, a: (c + np.where(a < 1e300, a, 0.0), None), 0.0, big)[0]
        if around == "fori_loop":
            return np.sum(jf.fori_loop(0, 2, lambda i, v: np.where(v < 1e300, v * 1.5, 0.0), big))
        return np.sum(jf.checkpoint(lambda a: np.where(a < 1e300, a, 0.0))(big))

    factor = 2.25 if around == "fori_loop" else 1.0
    np.testing.assert_allclose(jf.grad(kept)(np.array([1000.0, 1.0])), [0.0, 2 * np.e * factor], rtol=1e-12)


def test_memory_of_a_scan_is_linear_in_its_carry() -> None:
    rounds, carry = 2000, 100

    def f(x: Any) -> Any:
        return np.sum(jf.scan(lambda c, _: (np.sin(c) * 0.99 + x, None), x, None, length=rounds)[0])

    (kept,) = [meta for step in jf.grad(f).program(np.ones(carry)).steps if step.op_name == "scan"
               for meta in [jf.grad(f).program(np.ones(carry)).meta[step.result_ids[-1]]] if len(meta.shape) == 2]
    assert kept.shape == (rounds, carry)


# ---------------------------------------------------------------- loops under checkpoints
def checkpointed(how: str, reverse: bool) -> Callable[[Any, Any, Any], Any]:
    def loss(x: Any, w: Any, xs: Any) -> Any:
        def body(carry: Any, row: Any) -> Any:
            made = np.tanh(carry * 0.9 + row * w)
            return made, made[:2] * row[:2]

        def whole(x: Any, w: Any, xs: Any) -> Any:
            carry, ys = jf.scan(jf.checkpoint(body) if how == "body" else body, x, xs, reverse=reverse)
            return np.sum(carry) + np.sum(ys**2)

        return (jf.checkpoint(whole) if how == "whole" else whole)(x, w, xs)

    return loss


@pytest.mark.parametrize(("length", "how", "reverse"), amount.crossed(
    2, [0, 1, 15, 16, 17, 103], ["body", "whole"], [False, True]))
def test_checkpoints_of_loops_change_no_derivative(how: str, length: int, reverse: bool) -> None:
    rng = np.random.default_rng(length)
    args = rng.normal(size=4), rng.normal(size=4), rng.normal(size=(length, 4))
    found, plain = (jf.grad(checkpointed(one, reverse), argnums=(0, 1, 2)) for one in (how, ""))
    for got, expected in zip(found(*args), plain(*args), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-13)
    second, expected = (jf.grad(lambda x, g=g: sum(np.sum(np.sin(part)) for part in g(x, *args[1:])))(args[0])
                        for g in (found, plain))
    np.testing.assert_allclose(second, expected, rtol=1e-8, atol=1e-12)


def arena(f: Callable[..., Any], *args: Any) -> int:
    (line,) = (line for line in jf.fuse(f).explain(*args).split("\n") if line.startswith("  arena "))
    return int(line.split()[1])


@pytest.mark.parametrize("loop", ["scan", "fori_loop", "python"])
def test_what_loops_keep(loop: str) -> None:
    x, rounds = np.full(500, 0.1), 2500

    def body(v: Any) -> Any:
        return np.tanh(v * 0.9 + x)

    def whole(x: Any) -> Any:
        if loop == "scan":
            return np.sum(jf.scan(lambda v, _: (body(v), None), x, None, length=rounds)[0])
        if loop == "fori_loop":
            return np.sum(jf.fori_loop(0, rounds, lambda k, v: body(v), x))
        for _ in range(rounds):
            x = body(x)
        return np.sum(x)

    carry = x.nbytes
    assert arena(jf.grad(whole), x) <= 1.2 * rounds * carry
    kept = arena(jf.grad(jf.checkpoint(whole)), x)
    assert kept <= 4 * rounds**0.5 * carry
    np.testing.assert_array_equal(jf.grad(jf.checkpoint(whole))(x), jf.grad(whole)(x))
