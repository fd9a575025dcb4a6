"""Parameters that reach a step as arguments: which ones move is never a guess."""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf


def tree(value: float = 1.0) -> Any:
    return jf.nn.parameters({"w": np.full((4, 3), value), "b": np.zeros(3)})


def loss_of(params: Any, x: Any, y: Any) -> Any:
    return np.mean((x @ params["w"] + params["b"] - y) ** 2)


def by_hand(steps: int, x: Any, y: Any) -> Any:
    w, b = np.ones((4, 3)), np.zeros(3)
    for _ in range(steps):
        g = 2 * (x @ w + b - y) / y.size
        w, b = w - 0.1 * x.T @ g, b - 0.1 * g.sum(axis=0)
    return w


def step_of(optimiser: Any) -> Callable[..., Any]:
    @jf.fuse(training=True)
    def step(params: Any, x: Any, y: Any) -> Any:
        loss = loss_of(params, x, y)
        optimiser.minimize(loss)
        return loss

    return step


def test_parameters_are_arguments(data: Any) -> None:
    params = tree()
    step = step_of(jf.optim.SGD(params, lr=0.1))
    memory = params["w"].array
    for k in range(8):
        before = step(params, *data, training=False)
        assert step(params, *data) == before
        np.testing.assert_allclose(params["w"].array, by_hand(k + 1, *data), rtol=1e-12)
    assert params["w"].array is memory and type(before) is np.float64
    assert step.stats()["traces"] == 1 and step.stats()["fallbacks"] == 0


@pytest.mark.parametrize("of", [lambda p: p, lambda p: {k: v.array for k, v in p.items()},
                                lambda p: {k: jf.asarray(v.array) for k, v in p.items()}])
def test_another_tree_is_not_moved_instead(of: Any, data: Any) -> None:
    params, other = tree(), tree(2.0)
    step = step_of(jf.optim.SGD(params, lr=0.1))
    for _ in range(8):
        step(params, *data)
    before = {id(p): p.array.copy() for t in (params, other) for p in t.values()}
    for given in (other, {"w": other["w"], "b": params["b"]}):
        for _ in range(3):
            with pytest.raises(jf.DerivativeError, match="does not depend on"):
                step(of(given), *data)
    for t in (params, other):
        for p in t.values():
            np.testing.assert_array_equal(p.array, before[id(p)])
    step(params, *data)
    np.testing.assert_allclose(params["w"].array, by_hand(9, *data), rtol=1e-12)


def test_arrays_of_parameters_are_known_by_their_memory(data: Any) -> None:
    params, other = tree(), tree(2.0)
    step = step_of(jf.optim.SGD(params, lr=0.1))
    for _ in range(5):
        step({name: p.array for name, p in params.items()}, *data)
    np.testing.assert_allclose(params["w"].array, by_hand(5, *data), rtol=1e-12)
    held = other["w"].array.copy()
    with pytest.raises(jf.DerivativeError, match="does not depend on"):
        step({name: p.array for name, p in other.items()}, *data)
    np.testing.assert_array_equal(other["w"].array, held)


def test_a_target_network_is_an_argument_that_stays(data: Any) -> None:
    """The tree of the argument is another one, then the one that moves."""
    params, target = tree(), tree(2.0)
    optimiser = jf.optim.SGD(params, lr=0.1)

    @jf.fuse(training=True)
    def step(target: Any, x: Any, y: Any) -> Any:
        optimiser.minimize(np.mean((x @ params["w"] + params["b"] - (x @ target["w"] + target["b"])) ** 2))

    x, y = data
    w, b = np.ones((4, 3)), np.zeros(3)
    for _ in range(3):
        step(target, x, y)
        g = 2 * (x @ w + b - x @ np.full((4, 3), 2.0)) / y.size
        w, b = w - 0.1 * x.T @ g, b - 0.1 * g.sum(axis=0)
        np.testing.assert_allclose(params["w"].array, w, rtol=1e-12)
    np.testing.assert_array_equal(target["w"].array, 2.0)
    step(params, x, y)
    np.testing.assert_allclose(params["w"].array, w, rtol=1e-12)  # the difference of a thing and itself
    step(target, x, y)
    assert (params["w"].array != w).all() and step.stats()["fallbacks"] == 0


def test_two_names_of_a_parameter_may_part(data: Any) -> None:
    a, b = (jf.Parameter(np.full(3, v), n) for v, n in ((1.0, "a"), (2.0, "b")))

    @jf.fuse
    def add(one: Any, two: Any) -> Any:
        one += 1.0
        return two * 1.0

    for _ in range(3):
        expected = a.array + 1.0
        np.testing.assert_array_equal(add(a, a), expected)
        np.testing.assert_array_equal(add(a, b), [2.0, 2.0, 2.0])
        np.testing.assert_array_equal(add(a.array, a), expected + 2.0)


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_a_name_may_be_bound_to_a_view_of_another_parameter() -> None:
    held = {"a": jf.Parameter(np.zeros(3), "a"), "b": jf.Parameter(np.ones(3), "b")}

    @jf.fuse
    def shift() -> Any:
        held["a"][...] = np.arange(3.0)
        return held["b"] * 1.0

    for _ in range(3):
        np.testing.assert_array_equal(shift(), [1, 1, 1])
    held["b"] = jf.asarray(held["a"].array[::-1])
    np.testing.assert_array_equal(np.asarray(shift()), [2, 1, 0])


def test_results_of_parameters_are_arrays() -> None:
    p = jf.Parameter(np.arange(3.0), "p")
    results = jf.fuse(lambda p: (p, p[1:], p * 2, p.sum()))
    for _ in range(3):
        same, part, double, total = results(p)
        assert same is p and type(part) is type(double) is np.ndarray and total == 3.0
        assert np.shares_memory(part, p.array) and not np.shares_memory(double, p.array)
    assert jf.fuse(lambda: p)() is p


def test_a_read_of_a_value_keeps_the_parameters(data: Any) -> None:
    params, other = tree(), tree(2.0)
    optimiser = jf.optim.SGD(params, lr=0.1)

    @jf.fuse(training=True)
    def step(params: Any, x: Any, y: Any) -> Any:
        loss = loss_of(params, x, y)
        optimiser.minimize(loss * (1.0 if float(loss) > 0.0 else 2.0))
        return loss

    for _ in range(5):
        step(params, *data)
    np.testing.assert_allclose(params["w"].array, by_hand(5, *data), rtol=1e-12)
    with pytest.raises(jf.DerivativeError, match="does not depend on"):
        step(other, *data)
    np.testing.assert_array_equal(other["w"].array, 2.0)
    step(params, *data)
    np.testing.assert_allclose(params["w"].array, by_hand(6, *data), rtol=1e-12)
    assert step.stats()["fallbacks"] == 0


@pytest.mark.usefixtures("still")  # collections of garbage call Python, too
def test_a_call_runs_no_more_python_than_with_closures(data: Any) -> None:
    params = tree()
    optimiser = jf.optim.SGD(params, lr=0.1)
    step = step_of(optimiser)

    @jf.fuse(training=True)
    def closed(x: Any, y: Any) -> Any:
        loss = loss_of(params, x, y)
        optimiser.minimize(loss)
        return loss

    def calls_of_python(call: Any, *args: Any) -> int:
        events: list[str] = []
        sys.setprofile(lambda frame, event, arg: events.append(event))
        try:
            for _ in range(20):
                call(*args)
        finally:
            sys.setprofile(None)
        return events.count("call")

    for _ in range(50):
        step(params, *data), closed(*data)
    assert calls_of_python(step, params, *data) <= calls_of_python(closed, *data)


def test_two_parameters_may_become_one() -> None:
    """The other way round: what is written is another array than what is read, and then the same."""
    def body(one: Any, two: Any) -> Any:
        one[...] = np.sin(one) * 2.0 + 1.0
        return two @ np.eye(3)

    fused = jf.fuse(body)
    a, b = (jf.Parameter(np.full(3, v)) for v in (1.0, 2.0))
    held = {"one": a, "two": b}
    by_name = jf.fuse(lambda: body(held["one"], held["two"]))
    for _ in range(8):
        fused(a, b), by_name()
    copy = jf.Parameter(a.array)
    np.testing.assert_allclose(np.asarray(fused(a, a)), np.asarray(body(copy, copy)), rtol=1e-12)
    held["two"] = a
    np.testing.assert_allclose(np.asarray(by_name()), np.asarray(body(copy, copy)), rtol=1e-12)
    assert fused.stats()["traces"] == by_name.stats()["traces"] == 2


def test_a_function_that_only_reads_takes_any_tree(data: Any) -> None:
    held = tree()
    by_name, by_argument = jf.fuse(lambda x, y: loss_of(held, x, y)), jf.fuse(loss_of)
    for value in np.linspace(0.0, 1.0, 9):
        other = tree(value)
        held.update(other)
        expected = loss_of({k: v.array for k, v in other.items()}, *data)
        assert by_name(*data) == pytest.approx(expected) == by_argument(other, *data)
    assert by_name.stats()["traces"] == by_argument.stats()["traces"] == 1
