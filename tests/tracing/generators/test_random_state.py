"""np.random.RandomState: NumPy's own numbers of former versions, in each call, from compiled programs."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from generator_calls import SHAPES, X, same_numbers

import jitfuse as jf

METHODS: list[Callable[[Any, Any], Any]] = [
    lambda g, s: g.random_sample(s), lambda g, s: g.random(s), lambda g, s: g.standard_normal(s),
    lambda g, s: g.rand(*(s if isinstance(s, tuple) else () if s is None else (s,))),
    lambda g, s: g.randn(*(s if isinstance(s, tuple) else () if s is None else (s,))),
    lambda g, s: g.normal(size=s), lambda g, s: g.normal(2, 3.0, s), lambda g, s: g.uniform(-1, 1, s),
    lambda g, s: g.exponential(2.0, size=s), lambda g, s: g.standard_gamma(2.0, s), lambda g, s: g.gamma(2.0, size=s),
    lambda g, s: g.beta(1, 2, s), lambda g, s: g.lognormal(sigma=0.2, size=s), lambda g, s: g.laplace(size=s),
    lambda g, s: g.standard_t(3, s), lambda g, s: g.triangular(0, 1, 3, s), lambda g, s: g.poisson(4, s),
    lambda g, s: g.binomial(9, 0.3, s), lambda g, s: g.geometric(0.3, s), lambda g, s: g.randint(7, size=s),
    lambda g, s: g.randint(-3, 7, s), lambda g, s: g.randint(0, 255, s, np.uint8),
    lambda g, s: g.randint(0, 9, s, dtype="int32"), lambda g, s: g.choice(9, s), lambda g, s: g.choice(4, s, True,
                                                                                                       [0.25] * 4),
    lambda g, s: g.choice([1.5, 2.5], s), lambda g, s: g.multinomial(9, [0.25, 0.75], s),
    lambda g, s: g.multivariate_normal([0.0, 1.0], np.eye(2), s), lambda g, s: g.dirichlet([1.0, 2.0], s),
]


@pytest.mark.parametrize("draw", METHODS)
def test_each_method_draws_numpys_numbers(draw: Callable[..., Any]) -> None:
    """A normal number that is left over is part of the state."""
    def function(x: Any) -> Any:
        rng = np.random.RandomState(3)
        first = tuple(draw(rng, s) for s in SHAPES)
        return (*first, rng.randn(1), *(draw(rng, s) for s in SHAPES), rng.randn(2), x * 2)

    same_numbers(function, X)


def test_parameters_and_what_is_rearranged_may_be_traced() -> None:
    def function(x: Any, seed: int) -> Any:
        rng = np.random.RandomState(seed)
        y = x.copy()
        rng.shuffle(y)
        m = np.stack([x, x + 1, x + 2])
        rng.shuffle(m)
        first = (y, m, rng.normal(x, x + 1), rng.poisson(x.sum() * 9), rng.randint((9 * x).astype(int) + 1),
                 rng.choice(x, 4), rng.choice(x, 2, replace=False), rng.choice(x), rng.choice(6, 3, p=x / x.sum()),
                 rng.choice(len(x), p=x / x.sum()), rng.permutation(x), rng.permutation(m), rng.permutation(5),
                 isinstance(rng, np.random.RandomState), isinstance(rng, np.random.Generator))
        rng.seed(seed + 1)
        return (*first, rng.rand(3))

    fused = same_numbers(function, X, 5)
    for seed in (6, 7):
        for a, b in zip(function(X, seed), fused(X, seed), strict=True):
            np.testing.assert_array_equal(a, b)
    assert fused.stats()["traces"] == 1


def test_training_with_batches_in_a_drawn_order() -> None:
    def function(x: Any, seed: int) -> Any:
        rng = np.random.RandomState(seed)
        w = rng.randn(3) * 0.1
        for _ in range(20):
            for k in rng.permutation(8).reshape(2, 4):
                w -= 0.1 * (x[k].T @ (x[k] @ w - 1))
        return w

    fused, x = jf.fuse(function), np.random.default_rng(1).random((8, 3))
    for seed in (0, 1, 0):
        np.testing.assert_allclose(fused(x, seed), function(x, seed), rtol=1e-11)
    assert fused.stats()["fallbacks"] == 0


def test_errors_are_numpys() -> None:
    def function(x: Any, seed: int) -> Any:
        return np.random.RandomState(seed).normal(0.0, x[0], 3)

    fused = jf.fuse(function)
    for arguments in ((X, 1), (-X, 1), (X, -1), (X, 1 << 32), (X, 2)):
        try:
            want = function(*arguments)
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)[:20]):
                fused(*arguments)
        else:
            np.testing.assert_array_equal(fused(*arguments), want)


def returned(x: Any) -> Any:
    rng = np.random.RandomState(1)
    return rng.rand(2), rng


def of_lists(x: Any) -> Any:
    items = [1, 2, 3]
    np.random.RandomState(1).shuffle(items)
    return x * items[0]


def of_an_array(x: Any) -> Any:
    return np.random.RandomState(np.array([1, 2])).rand(2)


def stateful(x: Any) -> Any:
    rng = np.random.RandomState(1)
    before = rng.get_state()
    first = rng.rand(2)
    rng.set_state(before)
    return first - rng.rand(2)


@pytest.mark.parametrize("function", [
    returned, of_lists, of_an_array, stateful, lambda x: x + 0 * np.random.RandomState().rand(6),
    lambda x: np.random.RandomState(1).bytes(2)[0] * x,
])
def test_what_is_not_replayed_falls_back(function: Callable[..., Any]) -> None:
    fused = jf.fuse(function)
    with warnings.catch_warnings(action="ignore"):
        for _ in range(3):
            want, got = function(X), fused(X)
            if function is returned:
                want, got = (want[0], want[1].rand()), (got[0], got[1].rand())
            np.testing.assert_array_equal(np.concatenate(list(map(np.atleast_1d, got))),
                                          np.concatenate(list(map(np.atleast_1d, want))))
    assert fused.stats()["fallbacks"] == 3
