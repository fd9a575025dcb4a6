"""Generators that calls move on beside what functions bind, and errors: as NumPy does, with NumPy's numbers."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from generator_calls import Model, X, alone, same, told, with_model

import jitfuse as jf

BITS = [np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64, np.random.PCG64DXSM]

@pytest.fixture(autouse=True)
def global_rng_state() -> Iterator[None]:
    before = np.random.get_state()
    yield
    np.random.set_state(before)


# ---------------------------------------------------------------- what the function binds
def step(model: Any, rng: Any, x: Any) -> Any:
    model.w = model.w * 0.9 + rng.normal(size=6) * x
    model.n += 1
    return model.w[0], model.n


def global_rng_step(model: Any, rng: Any, x: Any) -> Any:
    model.w = model.w + np.random.rand(6) * rng.random()
    model.n += 2
    return model.w + np.random.randint(0, 3, 6)


def rerolled(model: Any, rng: Any, x: Any) -> Any:
    for _ in range(40):
        model.w = model.w * 0.5 + rng.normal(size=6) * x
    model.n += 40
    return model.w.max()


def on_data(model: Any, rng: Any, x: Any) -> Any:
    if x.max() > 0:
        model.w = model.w + rng.random(6)
    else:
        model.n += 1
        model.w = model.w - rng.normal(size=6)
    return model.w


def on_draws(model: Any, rng: Any, x: Any) -> Any:
    y = rng.random()
    if y > 0.5:
        model.w = model.w + rng.random(6)
        return model.w, y
    model.n += 1
    return model.w * np.random.rand(), y


@pytest.mark.parametrize("function", [step, global_rng_step, rerolled, on_data, on_draws])
@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_attributes_that_calls_bind(function: Callable[..., Any], make: Any) -> None:
    same(function, with_model(lambda: make(3)), calls=12, sign=True)
    if function not in (on_data, on_draws):
        same(function, with_model(lambda: make(3)), strict=True)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("of", [np.random.Generator, np.random.RandomState])
def test_each_bit_generator(bits: Any, of: Any) -> None:
    """What compiled draws have no state for is left to Python."""
    native = bits is (np.random.PCG64 if of is np.random.Generator else np.random.MT19937)
    same(step, with_model(lambda: of(bits(3))), plain=not native)


def in_dict(p: Any, rng: Any, x: Any) -> Any:
    p["w"] = p["w"] + rng.random(6)
    p["k"] = rng.integers(0, 9, 3)
    return p, x + p["w"]


def own_dict(p: Any, x: Any) -> Any:
    p["w"] = p["w"] + p["rng"].random(6)
    return x + p["w"]


def own_list(items: Any, pair: Any, x: Any) -> Any:
    items[0] = items[0] + pair[1].random(6)
    return pair[0][0] + 0, pair[0] is items


def test_items_that_calls_bind() -> None:
    """Also of containers that hold the generator, or are given twice."""
    def lists() -> list[Any]:
        items = [X.copy(), X.copy()]
        return [items, (items, np.random.default_rng(2))]

    same(in_dict, lambda: [{"w": np.ones(6), "k": np.zeros(3, int)}, np.random.default_rng(1)])
    same(own_dict, lambda: [{"w": np.ones(6), "rng": np.random.default_rng(1)}])
    same(own_list, lists)


def of_kinds(model: Any, rng: Any, x: Any) -> Any:
    model.w, model.n = x + rng.random(6), x
    return x * 2


def test_beside_arrays_that_native_code_does_not_read() -> None:
    """Eager and unaligned arrays are bound as what they are, in each call, and between calls with others."""
    unaligned = np.zeros(49, np.uint8)[1:].view(np.float64)
    unaligned[:] = X
    models, rngs, fused = (Model(), Model()), (np.random.default_rng(1), np.random.default_rng(1)), jf.fuse(of_kinds)
    for x in (unaligned, X, jf.asarray(X), jf.asarray(X), X, unaligned, unaligned):
        got, want = fused(models[0], rngs[0], x), of_kinds(models[1], rngs[1], x)
        assert type(got) is type(want) and models[0].n is x
        assert type(models[0].w) is type(models[1].w)
        np.testing.assert_array_equal(np.asarray(models[0].w), np.asarray(models[1].w))
        assert told(rngs[0]) == told(rngs[1])
    assert fused.stats()["fallbacks"] == 0


# ---------------------------------------------------------------- errors
def raising(rng: Any, x: Any) -> Any:
    first = rng.random(3)
    return first, rng.normal(0.0, x[0], 3)


def raising_global_rng(rng: Any, x: Any) -> Any:
    rng.random(2)
    return np.random.rand(3), np.random.normal(0.0, x[0], 3)


def raising_after_writes(model: Any, rng: Any, x: Any) -> Any:
    x[:] = rng.random(6) * x
    model.w = model.w + rng.normal(0.0, x[0], 6)
    return model.w


def out_of_bounds(rng: Any, x: Any) -> Any:
    return rng.random(3), x[(x[:2] * -20).astype(int) - 1]


def of_the_users(rng: Any, x: Any) -> Any:
    y = rng.random(3)
    if y[0] > 0.4:
        raise ValueError("now")
    return y + x[:3]


def caught(rng: Any, x: Any) -> Any:
    try:
        return rng.normal(0.0, x[0], 3)
    except ValueError:
        return rng.random(3)


@pytest.mark.parametrize("function", [raising, raising_global_rng, out_of_bounds, of_the_users, caught])
@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_calls_that_raise_move_generators_on_as_far_as_numpy_does(function: Callable[..., Any], make: Any) -> None:
    same(function, alone(lambda: make(1)), plain=None, calls=9, sign=True)


def test_calls_that_raise_bind_nothing() -> None:
    same(raising_after_writes, with_model(), plain=None, calls=7, sign=True)
