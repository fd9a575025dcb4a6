"""Generators that a function seeds itself: NumPy's own numbers, in each call, from compiled programs."""
from __future__ import annotations

import copy
import functools
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from generator_calls import SHAPES, X, same_numbers

import jitfuse as jf


@pytest.mark.parametrize("draw", [
    lambda g, s: g.random(s), lambda g, s: g.random(s, np.float32), lambda g, s: g.standard_normal(s),
    lambda g, s: g.standard_normal(size=s, dtype="float32"), lambda g, s: g.standard_exponential(s),
    lambda g, s: g.normal(size=s), lambda g, s: g.normal(2, 3.0, s), lambda g, s: g.uniform(-1, 1, s),
    lambda g, s: g.exponential(2.0, size=s), lambda g, s: g.gamma(2.0, size=s), lambda g, s: g.beta(1, 2, s),
    lambda g, s: g.lognormal(sigma=0.2, size=s), lambda g, s: g.laplace(size=s), lambda g, s: g.standard_t(3, s),
    lambda g, s: g.triangular(0, 1, 3, s), lambda g, s: g.poisson(4, s), lambda g, s: g.binomial(9, 0.3, s),
    lambda g, s: g.geometric(0.3, s), lambda g, s: g.integers(7, size=s), lambda g, s: g.integers(-3, 7, s),
    lambda g, s: g.integers(1, 6, s, endpoint=True), lambda g, s: g.integers(0, 255, s, np.uint8),
    lambda g, s: g.integers(0, 9, s, dtype="int32"), lambda g, s: g.choice(9, s),
    lambda g, s: g.choice([1.5, 2.5], s), lambda g, s: g.multinomial(9, [0.25, 0.75], s),
    lambda g, s: g.multivariate_normal([0.0, 1.0], np.eye(2), s), lambda g, s: g.dirichlet([1.0, 2.0], s),
])
def test_each_method_draws_numpys_numbers(draw: Callable[..., Any]) -> None:
    def function(x: Any) -> Any:
        rng = np.random.default_rng(3)
        first = tuple(draw(rng, s) for s in SHAPES)
        return (*first, rng.random(2), x * 2)  # the state goes on from there

    same_numbers(function, X)


def test_parameters_and_what_is_rearranged_may_be_traced() -> None:
    def function(x: Any, seed: int) -> Any:
        rng = np.random.default_rng(seed)
        y = x.copy()
        rng.shuffle(y)
        m = np.stack([x, x + 1, x + 2])
        rng.shuffle(m)
        out = np.zeros(3)
        rng.random(out=out)
        return (y, m, out, rng.normal(x, x + 1), rng.poisson(x.sum() * 9), rng.integers((9 * x).astype(int) + 1),
                rng.choice(x, 4), rng.choice(m, 2, replace=False), rng.choice(x), rng.choice(6, 3, p=x / x.sum()),
                rng.choice(len(x), p=x / x.sum()), rng.permutation(x), rng.permutation(m), rng.permutation(5),
                isinstance(rng, np.random.Generator), np.random.default_rng(rng) is rng)

    fused = same_numbers(function, X, 5)
    for seed in (6, 7):
        for a, b in zip(function(X, seed), fused(X, seed), strict=True):
            np.testing.assert_array_equal(a, b)
    assert fused.stats()["traces"] == 1


def test_python_numbers_give_way_to_narrower_dtypes() -> None:
    def function(x: Any) -> Any:
        rng = np.random.default_rng(1)
        return x.astype(np.float32) * rng.random(), x.astype(np.int8) + rng.poisson(2), rng.random() + rng.choice(4)

    same_numbers(function, X)


@pytest.mark.full
def test_loops_helpers_and_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jitfuse.tracing.generators.rng._MANY_RNG_CALLS", 1000)

    class Walk:
        def __init__(self, seed: int) -> None:
            self.rng = np.random.default_rng(seed)

        def step(self, x: Any) -> Any:
            return x + self.rng.normal(size=x.shape)

    def function(x: Any, seed: int, limit: float) -> Any:
        walk, other = Walk(seed), np.random.default_rng(seed + 1)
        for _ in range(300):
            x = walk.step(x) * other.random()
        steps = 0
        while np.abs(x).max() < limit:
            x = walk.step(x)
            steps += 1
        return x, steps

    for limit in (3.0, 9.0):
        same_numbers(function, X, 2, limit)


def test_draws_with_little_between_are_left_to_numpy() -> None:
    def sampler(seed: int, count: int) -> Any:
        rng, x, kept = np.random.default_rng(seed), 0.0, np.zeros(count)
        for k in range(count):
            x = rng.normal(0.8 * x, 0.6)
            kept[k] = x
        return kept, rng.random()

    same_numbers(sampler, 3, 63 - 1)
    fused = jf.fuse(sampler)
    with pytest.warns(jf.FallbackWarning, match="drawn one after the other"):
        fused(3, 64)
    for got, want in zip(fused(3, 65), sampler(3, 65), strict=True):
        np.testing.assert_array_equal(got, want)

    def filtered(y: Any, seed: int) -> Any:
        rng = np.random.default_rng(seed)
        for k in range(70):
            x = y + rng.normal(size=y.shape)
            y = y * 0.5 + np.sqrt(np.abs(x)) / (k + 1) - x * 0.25
        return y

    same_numbers(filtered, np.linspace(-1, 1, 2000), 3)


def test_errors_of_draws_are_numpys() -> None:
    def function(x: Any, seed: int) -> Any:
        return np.random.default_rng(seed).normal(0.0, x[0], 3)

    fused = jf.fuse(function)
    for arguments in ((X, 1), (-X, 1), (X, -1), (X, 2)):
        try:
            want = function(*arguments)
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)[:20]):
                fused(*arguments)
        else:
            np.testing.assert_array_equal(fused(*arguments), want)


def returned(x: Any) -> Any:
    rng = np.random.default_rng(1)
    return rng.random(2), rng


def unseeded(x: Any) -> Any:
    return x + 0 * np.random.default_rng().random(6)


def unknown(x: Any) -> Any:
    return np.random.default_rng(1).permuted(x)


def caught(x: Any) -> Any:
    try:
        return np.random.default_rng(1).normal(0, x.min() - 2, 2)
    except ValueError:
        return np.zeros(2)


def of_lists(x: Any) -> Any:
    items = [1, 2, 3]
    np.random.default_rng(1).shuffle(items)
    return x * items[0]


@pytest.mark.parametrize("function", [returned, unseeded, unknown, caught, of_lists])
def test_what_is_not_replayed_falls_back(function: Callable[..., Any]) -> None:
    fused = jf.fuse(function)
    with warnings.catch_warnings(action="ignore"):
        for _ in range(3):
            want, got = function(X), fused(X)
            if function is returned:
                want, got = (want[0], want[1].random()), (got[0], got[1].random())
            np.testing.assert_array_equal(np.concatenate(list(map(np.atleast_1d, got))),
                                          np.concatenate(list(map(np.atleast_1d, want))))
    assert fused.stats()["fallbacks"] == 3


def test_a_generator_that_is_kept_outside_goes_on_from_call_to_call() -> None:
    class Model:
        rng: Any = None

    def function(model: Model, x: Any) -> Any:
        if model.rng is None:
            model.rng = np.random.default_rng(4)
        return x + model.rng.random(6)

    plain, given, fused = Model(), Model(), jf.fuse(function)
    with warnings.catch_warnings(action="ignore"):
        for _ in range(5):
            np.testing.assert_array_equal(fused(given, X), function(plain, X))
    assert given.rng.bit_generator.state == plain.rng.bit_generator.state


# ---------------------------------------------------------------- what NumPy's generators are beside their numbers
class Keeper:
    """Something that lives longer than a call."""

    rng: Any = None

    @functools.cached_property
    def made_once(self) -> Any:
        return np.random.default_rng(4)


class Slotted:
    __slots__ = ("rng",)


def kept_by_slot(keeper: Any) -> Any:
    try:
        return keeper.rng
    except AttributeError:
        keeper.rng = np.random.default_rng(5)
        return keeper.rng


def kept_where_absent(keeper: Any) -> Any:
    if not hasattr(keeper, "rng"):
        keeper.rng = np.random.default_rng(1)
    return keeper.rng


def kept_by_class(_: Any) -> Any:
    if Keeper.rng is None:
        Keeper.rng = np.random.default_rng(3)
    return Keeper.rng


@pytest.mark.parametrize(("made", "get"), [
    (Keeper, lambda k: k.made_once), (Slotted, kept_by_slot), (types.SimpleNamespace, kept_where_absent),
    (Keeper, kept_by_class),
])
def test_a_generator_that_is_kept_goes_on_from_call_to_call(made: Any, get: Any) -> None:
    keeper, other = made(), made()

    def function(x: Any) -> Any:
        return x + get(keeper).random()

    fused = jf.fuse(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jf.FallbackWarning)
        got = [fused(X) for _ in range(4)]
    Keeper.rng = None
    want = [X + get(other).random() for _ in range(4)]
    Keeper.rng = None
    np.testing.assert_array_equal(got, want)


def test_a_generator_that_replaces_one_outside_is_numpys() -> None:
    keeper = types.SimpleNamespace(rng=None)

    def function(x: Any) -> Any:
        keeper.rng = np.random.default_rng(3)
        return x + keeper.rng.random()

    with pytest.warns(jf.FallbackWarning):
        np.testing.assert_array_equal(jf.fuse(function)(X), function(X))
    assert type(keeper.rng) is np.random.Generator


@pytest.mark.parametrize("function", [
    lambda g: jf.fori_loop(0, 5, lambda k, c: c + g.random(), 0.0),
    lambda g: jf.while_loop(lambda c: c < 2, lambda c: c + g.random(), 0.0),
    lambda g: jf.cond(X[0] > 0.7, lambda: g.random(), lambda: 0.0),
    lambda g: copy.copy(g).random() + g.random(),
    lambda g: np.random.Generator.random(g, 2).sum(),
])
def test_draws_in_bodies_move_the_state_on(function: Any) -> None:
    def whole(x: Any) -> Any:
        g = np.random.default_rng(3)
        return x + function(g), g.random()

    with pytest.warns(jf.FallbackWarning):
        got = jf.fuse(whole)(X)
    for a, b in zip(got, whole(X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_generator_of_a_body_draws_there() -> None:
    def function(x: Any) -> Any:
        return jf.fori_loop(0, 3, lambda k, c: c + np.random.default_rng(3).random(), x)

    same_numbers(function, X)


def test_chosen_rows_are_copies() -> None:
    def function(m: Any) -> Any:
        row = np.random.default_rng(1).choice(m)
        row += 1
        m[:] = 0
        return row, m

    same_numbers(function, np.arange(12.0).reshape(4, 3))


def test_python_ints_floats_for_whole_numbers_and_limits() -> None:
    def function(x: Any) -> Any:
        rng = np.random.default_rng(2)
        narrow = x.astype(np.int8) + rng.integers(7, dtype=int)
        wide = rng.integers(0, 2**63 - 1, endpoint=True), rng.integers(-(2**63), 2**63 - 1, 3, endpoint=True)
        return narrow, *wide, rng.binomial(5.0, 0.5), rng.integers(1, 6, endpoint=True)

    same_numbers(function, X)
