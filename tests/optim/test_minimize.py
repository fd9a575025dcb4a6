"""`minimize`: gradients of a loss that the step has computed, and parameters that move in training alone."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

Made = Callable[..., Any]
OPTIMISERS = [getattr(jf.optim, n) for n in (
    "SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Adagrad", "Adadelta", "Adafactor", "ASGD", "Rprop",
    "Lion")]


def by_hand(steps: int, x: Any, y: Any, lr: float = 0.1) -> tuple[Any, Any]:
    w, b = np.ones((4, 3)), np.zeros(3)
    for _ in range(steps):
        g = 2 * (x @ w + b - y) / y.size
        w, b = w - lr * x.T @ g, b - lr * g.sum(axis=0)
    return w, b


def test_parameters_move_in_training_alone(made: Made, data: Any) -> None:
    params, optimiser, step = made()
    memory = params["w"].array
    for k in range(4):
        w, b = by_hand(k, *data)
        before = step(*data, training=False)
        np.testing.assert_array_equal(before, step(*data, training=False))
        np.testing.assert_allclose(params["w"].array, w, rtol=1e-13)
        np.testing.assert_allclose(params["b"].array, b, atol=1e-14)
        assert optimiser.count.item() == k
        assert step(*data) == before
    assert params["w"].array is memory
    assert step.stats()["traces"] == 1 and step.stats()["fallbacks"] == 0


@pytest.mark.parametrize("kind", OPTIMISERS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_optimiser_lowers_the_loss_and_keeps_dtypes(kind: Any, dtype: str, made: Made, data: Any) -> None:
    params, _, step = made(kind, dtype=dtype, lr=0.01)
    x, y = (a.astype(dtype) for a in data)
    losses = [float(step(x, y)) for _ in range(20)]
    assert losses[-1] < losses[0] and step.stats()["traces"] == 1
    assert {str(b.dtype) for b in params.values()} == {dtype}


@pytest.mark.parametrize("kind", OPTIMISERS, ids=lambda k: k.__name__)
def test_a_step_in_a_program_is_a_step_by_hand(kind: Any, made: Made, data: Any) -> None:
    fused, _, step = made(kind, lr=0.01)
    plain, optimiser, _ = made(kind, lr=0.01)
    gradient = jf.grad(lambda p, x, y: np.mean((x @ p["w"] + p["b"] - y) ** 2))
    for _ in range(3):
        step(*data)
        optimiser.apply(gradient({k: p.array for k, p in plain.items()}, *data))
    for name, p in fused.items():
        np.testing.assert_allclose(p.array, plain[name].array, rtol=1e-12)


def test_the_flag_flips_a_thousand_times(made: Made, data: Any) -> None:
    _, _, step = made(jf.optim.Adam)
    step(*data), step(*data, training=False)
    compiled = step.stats()["compiles"]
    for k in range(1000):
        step(*data, training=k % 2 == 0)
    assert step.stats()["traces"] == 1 and step.stats()["compiles"] == compiled


def test_evaluation_runs_the_kernels_of_the_loss_alone(made: Made, data: Any) -> None:
    params, _, step = made(jf.optim.Adam)

    @jf.fuse
    def loss(x: Any, y: Any) -> Any:
        return np.mean((x @ params["w"] + params["b"] - y) ** 2)

    assert loss(*data) == step(*data, training=False)
    assert step.stats()["launches"] == loss.stats()["launches"] > 0


def test_the_report_tells_the_phases_apart(made: Made, data: Any) -> None:
    rng = np.random.default_rng(0)
    params = jf.nn.parameters({"w": rng.normal(size=(64, 32)), "v": rng.normal(size=(32, 8))})
    optimiser = jf.optim.Adam(params)

    @jf.fuse(training=True)
    def step(x: Any, y: Any) -> Any:
        loss = np.mean((np.tanh(x @ params["w"]) @ params["v"] - y) ** 2)
        optimiser.minimize(loss)
        return loss

    x, y = rng.normal(size=(128, 64)), rng.normal(size=(128, 8))
    text = step.explain(x, y)
    phases = {line.split(": ")[1].split(",")[0] for line in text.splitlines() if line.startswith(
        ("  kernel ", "  library call")) and ": " in line and "over" not in line}
    assert {"forward", "update"} <= phases
    assert "(update)" in text and "(backward)" in text
    assert "(update)" not in step.explain(x, y, training=False).partition("plan:")[2]


def test_numbers_change_without_a_trace(made: Made, data: Any) -> None:
    params, optimiser, step = made(jf.optim.Adam)
    other, reference, again = made(jf.optim.Adam)
    step(*data), again(*data)
    compiled = step.stats()["compiles"]
    for k in range(1000):
        optimiser.groups[0].lr, optimiser.groups[0].betas = 0.1 / (k + 1), (0.9 - k / 2000, 0.99)
        step(*data)
    assert step.stats()["traces"] == 1 and step.stats()["compiles"] == compiled
    optimiser.groups[0].lr = reference.groups[0].lr = 0.0
    before = params["w"].array.copy()
    step(*data)
    np.testing.assert_array_equal(params["w"].array, before)
    assert other["w"].array[0, 0] != before[0, 0]


def test_groups_have_options_of_their_own(data: Any) -> None:
    params = jf.nn.parameters({"w": np.ones((4, 3)), "b": np.zeros(3)})
    optimiser = jf.optim.SGD([{"params": params["w"]}, {"params": [params["b"]], "lr": 0.0}], lr=0.1)

    @jf.fuse(training=True)
    def step(x: Any, y: Any) -> None:
        optimiser.minimize(np.mean((x @ params["w"] + params["b"] - y) ** 2))

    step(*data)
    np.testing.assert_allclose(params["w"].array, by_hand(1, *data)[0], rtol=1e-13)
    assert not params["b"].array.any()
    optimiser.groups[1].lr = 0.1
    step(*data)
    assert params["b"].array.any() and step.stats()["traces"] == 1


def test_limits_of_gradients(made: Made, data: Any) -> None:
    start = {"w": np.ones((4, 3)), "b": np.zeros(3)}
    gradient = jf.grad(lambda p, x, y: np.mean((x @ p["w"] + p["b"] - y) ** 2))(start, *data)
    norm = np.sqrt(sum((g**2).sum() for g in gradient.values()))
    for options, expected in (
        ({"clip_value": 0.01}, {k: np.clip(g, -0.01, 0.01) for k, g in gradient.items()}),
        ({"clip_norm": 0.5}, {k: g * 0.5 / (norm + 1e-6) for k, g in gradient.items()}),
        ({"clip_norm": 1e6}, gradient),
    ):
        params, _, step = made(**options)
        step(*data)
        for name, g in expected.items():
            np.testing.assert_allclose(params[name].array, start[name] - 0.1 * g, rtol=1e-12, err_msg=str(options))


def test_gradients_of_several_calls_make_one_step(made: Made, data: Any) -> None:
    params, optimiser, step = made(jf.optim.Adam, accumulate=2)
    whole, _, once = made(jf.optim.Adam)
    x, y = data
    for _ in range(3):
        step(x[:4], y[:4])
        held = params["w"].array.copy()
        step(x[4:], y[4:])
        once(x, y)
        assert (params["w"].array != held).any()
        np.testing.assert_allclose(params["w"].array, whole["w"].array, rtol=1e-12)
    assert optimiser.count.item() == 3 and step.stats()["traces"] == 1


def test_a_scaled_loss_skips_steps_that_are_not_finite(made: Made, data: Any) -> None:
    params, optimiser, step = made(jf.optim.Adam, loss_scale=1024.0)
    plain, _, once = made(jf.optim.Adam)
    step(*data), once(*data)
    np.testing.assert_allclose(params["w"].array, plain["w"].array, rtol=1e-12)
    before = params["w"].array.copy()
    step(data[0] * np.inf, data[1])
    np.testing.assert_array_equal(params["w"].array, before)
    assert optimiser.count.item() == 1


def test_schedules_are_part_of_the_program(made: Made, data: Any) -> None:
    rate = jf.optim.Cosine(0.1, steps=6, warmup=2)
    params, _, step = made(lr=rate)
    w, b = np.ones((4, 3)), np.zeros(3)
    for k in range(8):
        g = 2 * (data[0] @ w + b - data[1]) / data[1].size
        lr = float(rate(float(k)))
        w, b = w - lr * data[0].T @ g, b - lr * g.sum(axis=0)
        step(*data)
        np.testing.assert_allclose(params["w"].array, w, rtol=1e-12)
    assert step.stats()["traces"] == 1


def test_a_raising_step_moves_nothing(made: Made) -> None:
    params = jf.nn.parameters({"w": np.eye(3)})
    optimiser = jf.optim.Adam(params, lr=0.1)
    seen = jf.Buffer(0.0)

    @jf.fuse(training=True)
    def step(x: Any) -> Any:
        seen[...] = seen + 1.0
        optimiser.minimize(np.sum(np.linalg.solve(x, params["w"]) ** 2))
        return seen.sum()

    step(np.eye(3) * 2)
    before = {k: v.copy() for k, v in jf.nn.state_dict({"p": params, "o": optimiser, "s": seen}).items()}
    with pytest.raises(np.linalg.LinAlgError):
        step(np.zeros((3, 3)))
    after = jf.nn.state_dict({"p": params, "o": optimiser, "s": seen})
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)


def test_losses_across_reads_of_values(made: Made, data: Any) -> None:
    """Python reads a value between the parameters and the loss: the gradient goes through."""
    params = jf.nn.parameters({"w": np.ones((4, 3)), "b": np.zeros(3)})
    optimiser = jf.optim.SGD(params, lr=0.1)

    @jf.fuse(training=True)
    def step(x: Any, y: Any) -> Any:
        h = x @ params["w"] + params["b"]
        scale = 1.0 if float(h.sum()) > -1e9 else 2.0
        loss = np.mean((h - y) ** 2) * scale
        optimiser.minimize(loss)
        return loss

    for _ in range(3):
        step(*data)
    np.testing.assert_allclose(params["w"].array, by_hand(3, *data)[0], rtol=1e-13)
    assert step.stats()["splits"] == 1 and step.stats()["fallbacks"] == 0


def test_a_branch_on_the_flag(data: Any) -> None:
    params = jf.nn.parameters({"w": np.ones((4, 3)), "b": np.zeros(3)})
    optimiser = jf.optim.SGD(params, lr=0.1)

    @jf.fuse(training=True)
    def step(x: Any, y: Any, training: bool = False) -> Any:
        loss = np.mean((x @ params["w"] + params["b"] - y) ** 2)
        if training:
            optimiser.minimize(loss)
        return loss

    step(*data), step(*data, training=False)
    np.testing.assert_allclose(params["w"].array, by_hand(1, *data)[0], rtol=1e-13)
    assert step.stats()["traces"] == 1


def test_loops_and_rules_of_their_own(data: Any) -> None:
    @jf.custom_vjp
    def limited(x: Any) -> Any:
        return x

    limited.defvjp(lambda x: (x, None), lambda kept, g: (np.clip(g, -1e-3, 1e-3),))
    params = jf.nn.parameters({"w": np.ones(3)})
    optimiser = jf.optim.SGD(params, lr=1.0)

    @jf.fuse(training=True)
    def step(x: Any) -> Any:
        h, _ = jf.scan(lambda c, t: (np.sin(c * t), None), limited(params["w"] * x), np.full(5, 1.1))
        loss = np.sum(jf.checkpoint(np.tanh)(h))
        optimiser.minimize(loss)
        return loss, h

    loss, h = step(np.ones(3))
    np.testing.assert_allclose(params["w"].array, 1 - 1e-3, rtol=1e-12)
    np.testing.assert_allclose(loss, np.tanh(h).sum(), rtol=1e-12)
    expected = jf.fuse(lambda w: limited(w) * 2)(params["w"].array)
    np.testing.assert_array_equal(expected, params["w"].array * 2)


def test_two_optimisers_in_a_step(data: Any) -> None:
    first, second = (jf.nn.parameters({"w": np.ones((4, 3))}) for _ in range(2))
    one, two = jf.optim.SGD(first, lr=0.1), jf.optim.Adam(second, lr=0.1)

    @jf.fuse(training=True)
    def step(x: Any, y: Any) -> Any:
        one.minimize(np.mean((x @ first["w"] - y) ** 2))
        two.minimize(np.mean((x @ first["w"] @ first["w"].T @ second["w"] - y) ** 2))

    step(*data)
    w = np.ones((4, 3)) - 0.1 * data[0].T @ (2 * (data[0] @ np.ones((4, 3)) - data[1]) / data[1].size)
    np.testing.assert_allclose(first["w"].array, w, rtol=1e-13)
    assert abs(abs(second["w"].array - 1) - 0.1).max() < 1e-6


def test_averages_of_parameters(made: Made, data: Any) -> None:
    params, optimiser, _ = made()
    ema = jf.optim.EMA(params, decay=0.9)

    @jf.fuse(training=True)
    def step(x: Any, y: Any) -> None:
        optimiser.minimize(np.mean((x @ params["w"] + params["b"] - y) ** 2))
        ema.update()

    average = np.ones((4, 3))
    for k in range(1, 4):
        step(*data), step(*data, training=False)
        average = 0.9 * average + 0.1 * by_hand(k, *data)[0]
    np.testing.assert_allclose(ema.averages["w"].array, average, rtol=1e-13)


def test_a_program_with_updates_is_replayed(made: Made, data: Any) -> None:
    """From its JSON, in the interpreter, with the state that it returns: the same losses."""
    from jitfuse.compile.run.delivery import bind_feeds
    from jitfuse.random_state import state_feeds
    from jitfuse.reports import public_methods

    _, _, step = made(jf.optim.Adam)
    trace = public_methods.report(public_methods.traced, step.parts, data, {})
    program = jf.FusedProgram.from_json(trace.program.to_json())
    feeds = {k: np.array(v) if isinstance(v, np.ndarray) else v
             for k, v in bind_feeds(trace, data, {}, state_feeds()).items() if k in program.feeds}
    for _ in range(5):
        ran = jf.ProgramRunner(program)(feeds, training=True)
        np.testing.assert_allclose(next(iter(ran.outputs.values())), step(*data), rtol=1e-12)
        feeds.update(ran.writes)


def test_muon_is_torchs_in_the_dtype_of_the_parameter() -> None:
    rng = np.random.default_rng(0)
    for shape in ((6, 4), (4, 6), (5, 5)):
        w, g = rng.normal(size=shape), [rng.normal(size=shape) for _ in range(3)]
        params = jf.nn.parameters({"w": w})
        optimiser = jf.optim.Muon(params, lr=0.1)
        mean = np.zeros(shape)
        for x in g:
            optimiser.apply({"w": x})
            mean = mean + 0.05 * (x - mean)
            moved = x + 0.95 * (mean - x)
            tall = shape[0] > shape[1]
            o = moved.T if tall else moved
            o = o / np.linalg.norm(o)
            for _ in range(5):
                a = o @ o.T
                o = 3.4445 * o + (-4.775 * a + 2.0315 * a @ a) @ o
            w = w * (1 - 0.1 * 0.1) - 0.1 * np.sqrt(max(1, shape[0] / shape[1])) * (o.T if tall else o)
        np.testing.assert_allclose(params["w"].array, w, rtol=1e-11)


def test_lion_by_hand() -> None:
    rng = np.random.default_rng(0)
    w, mean = rng.normal(size=5), np.zeros(5)
    params = jf.nn.parameters([w])
    optimiser = jf.optim.Lion(params, lr=0.1, weight_decay=0.01)
    for _ in range(4):
        g = rng.normal(size=5)
        optimiser.apply([g])
        w = w * (1 - 0.1 * 0.01) - 0.1 * np.sign(0.9 * mean + 0.1 * g)
        mean = 0.99 * mean + 0.01 * g
    np.testing.assert_allclose(params[0].array, w, rtol=1e-12)
