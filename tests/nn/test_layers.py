"""jf.nn's layers, fused and plain, beside torch's: both modes of one trace, running statistics, dropout of channels."""
from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest

import jitfuse as jf

NEAR = {"float64": {"rtol": 1e-12, "atol": 1e-12}, "float32": {"rtol": 5e-5, "atol": 5e-5}}


def draw(*shape: int, seed: int = 7) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


# ---------------------------------------------------------------- linear
@pytest.mark.parametrize("dtype", NEAR)
def test_linear(dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x, w, b, c = (a.astype(dtype) for a in (draw(2, 5, 4), draw(4, 3), draw(3), draw(2, 5, 3)))
    loss = jf.fuse(jf.value_and_grad(lambda x, w, b: (jf.nn.linear(x, w, b) * c).sum(), argnums=(0, 1, 2)))
    value, gradients = loss(x, w, b)
    tensors = [torch.tensor(a, requires_grad=True) for a in (x, w, b)]
    expected = (torch.nn.functional.linear(tensors[0], tensors[1].T, tensors[2]) * torch.tensor(c)).sum()
    expected.backward()
    np.testing.assert_allclose(value, expected.item(), **NEAR[dtype])
    for got, tensor in zip(gradients, tensors, strict=True):
        np.testing.assert_allclose(got, tensor.grad.numpy(), **NEAR[dtype])
    oracle.check(lambda x, w: jf.nn.linear(x, w), (x, w), (x[0, 0], w), (x[0], w), within=oracle.REDUCED)


# ---------------------------------------------------------------- batch_norm
SHAPES = {
    "rows": ((6, 4), 1), "images": ((4, 3, 5, 2), 1), "odd": ((5, 3, 3), 1), "one channel": ((3, 1, 7), 1),
    "last axis": ((3, 5, 4), -1), "first axis": ((4, 7), 0),
}


class Statistics:
    """Parameters of channels, running statistics, and torch's beside them."""

    def __init__(self, channels: int, dtype: str = "float64") -> None:
        torch = pytest.importorskip("torch", reason="torch is not installed")
        self.weight, self.bias = draw(channels).astype(dtype), draw(channels, seed=8).astype(dtype)
        self.mean, self.var = draw(channels, seed=9).astype(dtype), (draw(channels, seed=10) ** 2 + 0.5).astype(dtype)
        self.torch = [torch.tensor(a, requires_grad=k < 2) for k, a in enumerate(
            (self.weight.copy(), self.bias.copy(), self.mean.copy(), self.var.copy()))]

    def expected(self, x: Any, axis: int, training: bool, factor: Any, **options: Any) -> list[Any]:
        """Return torch's result, and the gradients of its product with a factor for x, weight and bias."""
        import torch

        weight, bias, mean, var = self.torch
        tensor = torch.tensor(x, requires_grad=True)
        moved = tensor.movedim(axis, 1) if axis else tensor.T
        made = torch.nn.functional.batch_norm(moved, mean, var, weight, bias, training, **options)
        made = made.movedim(1, axis) if axis else made.T
        weight.grad = bias.grad = None
        (made * torch.tensor(factor)).sum().backward()
        return [t.detach().numpy() for t in (made, tensor.grad, weight.grad, bias.grad)]


@pytest.mark.parametrize(("where", "dtype", "options"), [
    *((where, "float64", {}) for where in SHAPES), ("rows", "float32", {}), ("images", "float32", {}),
    ("rows", "float64", {"momentum": 0.3, "eps": 0.25}),
])
def test_batch_norm_in_both_modes(where: str, dtype: str, options: dict[str, float]) -> None:
    shape, axis = SHAPES[where]
    held, factor = Statistics(shape[axis], dtype), draw(*shape, seed=3).astype(dtype)

    @jf.fuse
    def f(x: Any, weight: Any, bias: Any, mean: Any, var: Any) -> Any:
        def loss(x: Any, weight: Any, bias: Any) -> Any:
            made = jf.nn.batch_norm(x, weight, bias, mean, var, axis=axis, **options)
            return (made * factor).sum(), made

        gradients, made = jf.grad(loss, argnums=(0, 1, 2), has_aux=True)(x, weight, bias)
        return made, *gradients

    for step, training in enumerate((True, False, True, False)):
        x = draw(*shape, seed=step).astype(dtype) * 2 + 1
        got = f(x, held.weight, held.bias, held.mean, held.var, training=training)
        want = held.expected(x, axis, training, factor, **options)
        for ours, theirs in zip(got, want, strict=True):
            assert ours.dtype == dtype
            np.testing.assert_allclose(ours, theirs, **NEAR[dtype])
        np.testing.assert_allclose(held.mean, held.torch[2].numpy(), **NEAR[dtype])
        np.testing.assert_allclose(held.var, held.torch[3].numpy(), **NEAR[dtype])
    assert f.stats()["traces"] == 1 and f.stats()["fallbacks"] == 0


def normalised(x: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float = 1e-5) -> Any:
    """Evaluation, as the formula of axis 1 says it."""
    to = (1, -1) + (1,) * (x.ndim - 2)
    return (x - mean.reshape(to)) * (1 / np.sqrt(var + eps)).reshape(to) * weight.reshape(to) + bias.reshape(to)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_evaluation_writes_nothing_and_is_the_formula(dtype: str) -> None:
    x, weight, bias = draw(5, 3, 4).astype(dtype), draw(3).astype(dtype), draw(3, seed=8).astype(dtype)
    mean, var = draw(3, seed=9).astype(dtype), (draw(3, seed=10) ** 2 + 0.5).astype(dtype)
    before = mean.copy(), var.copy()
    f = jf.fuse(lambda *args: jf.nn.batch_norm(*args))
    want = normalised(x, weight, bias, mean, var)
    for got in (f(x, weight, bias, mean, var), jf.nn.batch_norm(x, weight, bias, mean, var)):
        oracle.same(got, want)
    assert mean.tobytes() == before[0].tobytes() and var.tobytes() == before[1].tobytes()
    launches = f.stats()["launches"]
    f(x, weight, bias, mean, var)
    assert f.stats()["launches"] == launches + 1  # the result alone: nothing is stored into the statistics
    f(x, weight, bias, mean, var, training=True)
    assert (mean != before[0]).all() and (var != before[1]).all() and f.stats()["traces"] == 1


def test_flipping_the_mode_compiles_nothing_after_the_first_calls() -> None:
    held = {"mean": jf.asarray(np.zeros(3)), "var": jf.asarray(np.ones(3))}

    @jf.fuse
    def f(x: Any, w: Any) -> Any:
        h = jf.nn.batch_norm(jf.nn.linear(x, w), running_mean=held["mean"], running_var=held["var"])
        return jf.nn.dropout(jf.nn.relu(h), 0.25, shared_axes=1)

    x, w = draw(6, 4), draw(4, 3)
    f(x, w, training=True), f(x, w)
    before = f.stats()
    for k in range(100):
        f(x, w, training=k % 2 == 0)
    after = f.stats()
    assert after["traces"] == 1
    assert {k: after[k] for k in ("compiles", "cache_misses", "fallbacks")} == {
        k: before[k] for k in ("compiles", "cache_misses", "fallbacks")}


def moves(read: Callable[[], tuple[Any, Any]], call: Callable[..., Any]) -> None:
    """Compare running statistics and results of fused calls in turn with those of the plain function."""
    mean, var = (np.array(a) for a in read())
    for step, training in enumerate((True, False, False, True, False)):
        x = draw(6, 3, seed=step) + 2
        got = call(x, training=training)
        want = jf.nn.batch_norm(x, running_mean=mean, running_var=var, training=training)
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)
        for ours, plain in zip(read(), (mean, var), strict=True):
            np.testing.assert_allclose(np.asarray(ours), plain, rtol=1e-14)
    assert call.stats()["traces"] == 1 and call.stats()["fallbacks"] == 0  # type: ignore[attr-defined]
    assert not np.allclose(mean, 0.0)


@pytest.mark.parametrize("make", [np.array, jf.asarray], ids=["NumPy", "jitfuse"])
def test_running_statistics_anywhere(make: Callable[..., Any]) -> None:
    def new() -> tuple[Any, Any]:
        return make(np.zeros(3)), make(np.ones(3))

    mean, var = new()
    moves(lambda: (mean, var), jf.fuse(lambda x: jf.nn.batch_norm(x, running_mean=mean, running_var=var)))
    mean, var = new()
    given = jf.fuse(lambda x, m, v: jf.nn.batch_norm(x, running_mean=m, running_var=v))

    def call(x: Any, training: bool) -> Any:
        return given(x, mean, var, training=training)

    call.stats = given.stats  # type: ignore[attr-defined]
    moves(lambda: (mean, var), call)
    nested = {"layers": [dict(zip(("mean", "var"), new(), strict=True))]}
    first = nested["layers"][0]
    moves(lambda: (first["mean"], first["var"]), jf.fuse(lambda x: jf.nn.batch_norm(
        x, running_mean=nested["layers"][0]["mean"], running_var=nested["layers"][0]["var"])))


def test_fused_equals_plain_and_arrays_of_jitfuse_outside() -> None:
    def f(x: Any, mean: Any, var: Any) -> Any:
        return jf.nn.batch_norm(x, None, None, mean, var, training=True), jf.nn.batch_norm(x)

    oracle.check(f, (draw(5, 3) + 1, np.zeros(3), np.ones(3)), within=oracle.REDUCED)
    mean, var = jf.asarray(np.zeros(3)), jf.asarray(np.ones(3))
    x = draw(5, 3) + 1
    got = jf.nn.batch_norm(jf.asarray(x), running_mean=mean, running_var=var, training=True)
    plain_mean, plain_var = np.zeros(3), np.ones(3)
    want = jf.nn.batch_norm(x, running_mean=plain_mean, running_var=plain_var, training=True)
    assert type(got) is type(mean) and (np.asarray(got) == want).all()
    assert (np.asarray(mean) == plain_mean).all() and (np.asarray(var) == plain_var).all()


def test_without_running_statistics_both_modes_have_those_of_the_batch() -> None:
    f, x = jf.fuse(lambda x: jf.nn.batch_norm(x)), draw(5, 3)
    assert (f(x) == f(x, training=True)).all()
    np.testing.assert_allclose(f(x).mean(axis=0), 0.0, atol=1e-14)


def test_the_flag_of_a_call_wins_over_the_mode() -> None:
    mean, var, x = np.zeros(3), np.ones(3), draw(5, 3)
    f = jf.fuse(lambda x, mean, var: jf.nn.batch_norm(x, running_mean=mean, running_var=var, training=False))
    assert (f(x, mean, var, training=True) == f(x, mean, var)).all() and (mean == 0).all()

    @jf.fuse
    def own(x: Any, mean: Any, var: Any, training: bool = False) -> Any:
        return jf.nn.batch_norm(x, running_mean=mean, running_var=var, training=training)

    own(x, mean, var)
    assert (mean == 0).all()
    own(x, mean, var, training=True)
    assert (mean != 0).all() and own.stats()["traces"] == 1


def test_other_dtypes_of_statistics_and_of_16_bits() -> None:
    x = draw(5, 3).astype("float16")
    mean, var = np.zeros(3, "float32"), np.ones(3, "float32")
    f = jf.fuse(lambda x, mean, var: jf.nn.batch_norm(x, running_mean=mean, running_var=var))
    for training in (True, False):
        plain = mean.copy(), var.copy()
        got = f(x, mean, var, training=training)
        want = jf.nn.batch_norm(x.astype("float32"), running_mean=plain[0], running_var=plain[1], training=training)
        assert got.dtype == "float16" and mean.dtype == "float32"
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=1e-3)
        np.testing.assert_allclose(mean, plain[0], rtol=1e-6)


def test_one_value_per_channel_raises_in_training_and_is_evaluated() -> None:
    f = jf.fuse(lambda x, mean, var: jf.nn.batch_norm(x, running_mean=mean, running_var=var))
    x, mean, var = np.full((1, 3), 5.0), np.ones(3), np.full(3, 4.0)
    np.testing.assert_allclose(f(x, mean, var), 2.0, rtol=1e-5)
    with pytest.raises(jf.ShapeError, match="one value per channel"):
        f(x, mean, var, training=True)
    assert (mean == 1).all() and (var == 4).all()
    np.testing.assert_allclose(f(x, mean, var), 2.0, rtol=1e-5)
    assert f.stats()["traces"] == 1 and f.stats()["fallbacks"] == 0
    for call in (lambda: jf.nn.batch_norm(x), lambda: jf.nn.batch_norm(x, None, None, mean, var, training=True)):
        with pytest.raises(jf.ShapeError, match=r"\(1, 3\) has one value per channel"):
            call()
        with pytest.raises(jf.ShapeError, match=r"\(1, 3\) has one value per channel"):
            jf.fuse(lambda call=call: call(), strict=True)()


# ---------------------------------------------------------------- dropout
def test_channels_are_dropped_as_a_whole() -> None:
    f = jf.fuse(lambda x: jf.nn.dropout(x, 0.25, shared_axes=(2, -1)))
    x = draw(20, 30, 3, 2) + 10
    jf.random.seed(4)
    got = f(x, training=True)
    dropped = got == 0
    assert (dropped == dropped[:, :, :1, :1]).all() and abs(dropped.mean() - 0.25) < 0.06
    assert (got == np.where(dropped, 0.0, x * (1 / 0.75))).all()
    assert not (f(x, training=True) == got).all(), "each call draws anew"
    assert f(x).tobytes() == x.tobytes() and f.stats()["traces"] == 1 and f.stats()["fallbacks"] == 0


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_fused_and_plain_dropout_draw_the_same_numbers(dtype: str) -> None:
    x = np.ones((5, 6, 2), dtype)
    f = jf.fuse(lambda x: (jf.nn.dropout(x, 0.4, shared_axes=2), jf.nn.dropout(x, 0.4, shared_axes=(0, 1))))
    jf.random.seed(4)
    first, second = f(x, training=True)
    jf.random.seed(4)
    oracle.same(jf.nn.dropout(x, 0.4, True, shared_axes=2), first)
    assert first.dtype == dtype and (second == second[:1, :1]).all()


def test_the_gradient_of_dropped_channels_and_infinities() -> None:
    f = jf.fuse(jf.value_and_grad(lambda x: jf.nn.dropout(x, 0.5, True, shared_axes=1).sum()))
    x = np.ones((40, 3))
    value, gradient = f(x)
    assert value == gradient.sum() and (gradient == gradient[:, :1]).all() and set(np.unique(gradient)) == {0.0, 2.0}
    g = jf.fuse(lambda x: jf.nn.dropout(x, 0.5, True, shared_axes=1))
    assert set(np.unique(g(x * np.inf))) == {0.0, np.inf}


def test_a_probability_of_zero_and_axes_of_all_kinds() -> None:
    x = np.ones((3, 4))
    assert jf.nn.dropout(x, 0.0, True, shared_axes=[0]) is x
    assert len(np.unique(jf.nn.dropout(x, 0.5, True, shared_axes=[0, 1]))) == 1
    eager = jf.nn.dropout(jf.asarray(x), 0.5, True, shared_axes=0)
    assert type(eager) is type(jf.asarray(x)) and (np.asarray(eager) == np.asarray(eager)[:1]).all()


def test_the_example_of_the_page_runs() -> None:
    text = (Path(__file__).parents[2] / "docs/nn.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(compile(code, "nn.md", "exec"), namespace)
    assert (namespace["statistics"]["mean"] != 0).all()
    assert all(namespace[name].stats()["traces"] == 1 for name in ("step", "predict"))
    assert all(f"`{name}`" in text for name in jf.nn.__all__)


# ---------------------------------------------------------------- errors
X = np.ones((4, 3))
ERRORS: dict[str, tuple[Callable[..., Any], type[Exception], str]] = {
    "linear": (lambda: jf.nn.linear(X, np.ones((4, 3))), jf.ShapeError, r"\(4, 3\).*\(4, 3\).*\(in, out\)"),
    "vector": (lambda: jf.nn.linear(X, np.ones(3)), jf.ShapeError, r"\(4, 3\).*\(3,\)"),
    "bias": (lambda: jf.nn.linear(X, np.ones((3, 2)), np.ones(3)), jf.ShapeError, r"\(3, 2\).*\(3,\)"),
    "integers": (lambda: jf.nn.batch_norm(X.astype(int)), jf.DTypeError, "batch_norm wants floats.*int64"),
    "weight": (lambda: jf.nn.batch_norm(X, np.ones(4)), jf.ShapeError, r"\(4, 3\).*weight.*\(4,\)"),
    "statistics": (lambda: jf.nn.batch_norm(X, running_mean=np.ones(2), running_var=np.ones(3)), jf.ShapeError,
                   r"\(4, 3\).*running_mean.*\(2,\)"),
    "integer statistics": (lambda: jf.nn.batch_norm(X, running_mean=np.ones(3, int), running_var=np.ones(3)),
                           jf.DTypeError, "running_mean"),
    "one of two": (lambda: jf.nn.batch_norm(X, running_var=np.ones(3)), jf.ArgumentError, "both"),
    "a list": (lambda: jf.nn.batch_norm(X, running_mean=[0.0] * 3, running_var=np.ones(3)), jf.ArgumentError,
               "arrays, .*not a list"),
    "axis": (lambda: jf.nn.batch_norm(X, axis=2), jf.errors.AxisError, "axis 2"),
    "dropout": (lambda: jf.nn.dropout(X.astype(int)), jf.DTypeError, "int64"),
    "dropout of bools": (lambda: jf.nn.dropout(X > 0, 0.5, True), jf.DTypeError, "bool"),
    "shared axes": (lambda: jf.nn.dropout(X, 0.5, True, shared_axes=(2,)), jf.errors.AxisError, "axis 2"),
    "an axis twice": (lambda: jf.nn.dropout(X, 0.5, True, shared_axes=(1, -1)), jf.ShapeError, "twice"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_typed_and_say_what_does_not_fit(case: str) -> None:
    call, kind, text = ERRORS[case]
    with pytest.raises(kind, match=text):
        call()
    with pytest.raises(kind, match=text):
        jf.fuse(lambda: call(), strict=True)()
