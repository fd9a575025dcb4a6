"""The distributions of jf.random: their numbers against SciPy's distributions, fused and plain, shapes and dtypes."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import jitfuse as jf
from jitfuse.ir.semantics import reference
from jitfuse.random.normal_quantile import normal_quantile

N = 100_000
CONTINUOUS: dict[str, tuple[Callable[..., Any], Any]] = {
    "uniform": (lambda **o: jf.random.uniform(N, -1.0, 3.0, **o), stats.uniform(-1, 4)),
    "normal": (lambda **o: jf.random.normal(N, 1.0, 2.0, **o), stats.norm(1, 2)),
    "truncated": (lambda **o: jf.random.truncated_normal(N, -1.0, 2.5, 0.5, 2.0, **o), stats.truncnorm(
        -0.75, 1.0, 0.5, 2)),
    "above": (lambda **o: jf.random.truncated_normal(N, 6.0, np.inf, **o), stats.truncnorm(6, np.inf)),
    "below": (lambda **o: jf.random.truncated_normal(N, -np.inf, -30.0, **o), stats.truncnorm(-np.inf, -30)),
    "exponential": (lambda **o: jf.random.exponential(N, 2.0, **o), stats.expon(0, 2)),
    "gamma": (lambda **o: jf.random.gamma(N, 2.5, 2.0, **o), stats.gamma(2.5, 0, 2)),
    "gamma of 0.3": (lambda **o: jf.random.gamma(N, 0.3, **o), stats.gamma(0.3)),
    "gamma of 1e8": (lambda **o: jf.random.gamma(N, 1e8, **o), stats.gamma(1e8)),
}
DISCRETE: dict[str, tuple[Callable[..., Any], list[float]]] = {
    "integers": (lambda **o: jf.random.integers(N, 0, 7, **o), [1 / 7] * 7),
    "bernoulli": (lambda **o: jf.random.bernoulli(N, 0.3, **o), [0.7, 0.3]),
    "categorical": (lambda **o: jf.random.categorical(N, np.log([0.1, 0.2, 0.7]) + 5, **o), [0.1, 0.2, 0.7]),
}
OTHERS: dict[str, Callable[..., Any]] = {
    "permutation": lambda **o: jf.random.permutation(1001, **o),
    "rows": lambda **o: jf.random.permutation(np.arange(12.0).reshape(3, 4), axis=1, **o),
    "int8": lambda **o: jf.random.integers((3, 5), [-128, -5, 0, 7, 99], 128, "int8", **o),
    "categories": lambda **o: jf.random.categorical((5, 4), np.log(np.full((3, 4), 1 / 3)), axis=0, **o),
    "split": lambda **o: jf.random.split(o["key"], 5), "folded": lambda **o: jf.random.fold_in(o["key"], -(2**40)),
}
ALL: dict[str, Callable[..., Any]] = {
    **{name: made for name, (made, _) in {**CONTINUOUS, **DISCRETE}.items()}, **OTHERS}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_numbers_are_distributed_as_scipy_says(name: str) -> None:
    make, wanted = CONTINUOUS[name]
    x = jf.fuse(make, strict=True)(key=jf.random.key(11))
    assert x.shape == (N,) and x.dtype == np.float64 and np.isfinite(x).all()
    assert stats.kstest(x, wanted.cdf).pvalue > 1e-4
    error = wanted.std() / N**0.5
    assert abs(x.mean() - wanted.mean()) < 4 * error
    kurtosis = float(wanted.stats("k"))
    assert abs(x.var() / wanted.var() - 1) < 4 * ((kurtosis + 2) / N) ** 0.5


@pytest.mark.parametrize("name", DISCRETE)
def test_counts_are_those_of_the_probabilities(name: str) -> None:
    make, wanted = DISCRETE[name]
    x = jf.fuse(make, strict=True)(key=jf.random.key(12))
    counts = np.bincount(np.asarray(x, int))
    assert len(counts) == len(wanted) and stats.chisquare(counts, N * np.array(wanted)).pvalue > 1e-4


@pytest.mark.parametrize("name", ALL)
def test_fused_numbers_are_the_plain_ones_in_every_call(name: str) -> None:
    make, key = ALL[name], jf.random.key(13)
    fused = jf.fuse(lambda key: make(key=key), strict=True)
    first, plain = fused(key), make(key=key)
    fused(jf.random.key(14))
    np.testing.assert_array_equal(first, fused(key))
    assert first.dtype == plain.dtype and first.shape == plain.shape
    if first.dtype.kind == "f":
        np.testing.assert_allclose(first, plain, rtol=2e-14, atol=1e-15)
    else:
        np.testing.assert_array_equal(first, plain)


@pytest.mark.parametrize("shape", [(), 0, (3, 0), 1, 7, (2, 3, 5)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shapes_and_dtypes(shape: Any, dtype: str) -> None:
    wanted = shape if isinstance(shape, tuple) else (shape,)

    def f(key: Any) -> Any:
        return [
            jf.random.uniform(shape, dtype=dtype, key=key), jf.random.normal(shape, dtype=dtype, key=key),
            jf.random.truncated_normal(shape, dtype=dtype, key=key), jf.random.gamma(shape, 0.5, dtype=dtype, key=key),
            jf.random.exponential(shape, dtype=dtype, key=key),
        ], [
            jf.random.integers(shape, 0, 5, key=key), jf.random.bernoulli(shape, key=key),
            jf.random.categorical(shape, [0.0, 1.0], key=key),
        ]

    for floats, others in (jf.fuse(f, strict=True)(jf.random.key(1)), f(jf.random.key(1))):
        assert [(np.shape(x), x.dtype) for x in floats] == [(wanted, dtype)] * 5
        assert [(np.shape(x), x.dtype) for x in others] == [(wanted, d) for d in ("int64", "bool", "int64")]


def test_numbers_of_float32_are_those_of_float64_rounded() -> None:
    key = jf.random.key(3)
    for draw in (jf.random.normal, jf.random.exponential, jf.random.truncated_normal, jf.random.gamma):
        np.testing.assert_array_equal(draw(50, dtype="float32", key=key), draw(50, key=key).astype("float32"))


@pytest.mark.parametrize("u", [0.0, 2.0**-53, 0.5, 1 - 2.0**-53])
def test_no_uniform_number_gives_inf_or_nan(u: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "random_uniform", lambda state, index, shape, dtype: np.full(shape, u)[()])
    key = jf.random.key(0)
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        made = [
            jf.random.normal(2, key=key), jf.random.exponential(2, key=key), jf.random.truncated_normal(2, key=key),
            jf.random.truncated_normal(2, -np.inf, np.inf, key=key), jf.random.truncated_normal(2, 5.0, 6.0, key=key),
            jf.random.truncated_normal(2, 50.0, np.inf, key=key), jf.random.categorical(2, [0.0, 0.0], key=key),
        ]
    assert all(np.isfinite(x).all() for x in made)
    assert (made[4] >= 5).all() and (made[4] <= 6).all() and (made[5] == 50).all()
    assert np.abs(made[0]).max() <= 8.66 and np.abs(made[3]).max() <= 8.3
    np.testing.assert_array_equal(jf.random.integers(2, [0, -(2**52)], [3, 2**52], key=key),
                                  [int(u * 3), int(u * 2**53) - 2**52])


def test_the_normal_quantile_is_that_of_scipy() -> None:
    p = np.concatenate([np.geomspace(1e-300, 0.5, 3001), 1 - np.geomspace(2.0**-53, 0.5, 1001)])
    np.testing.assert_allclose(normal_quantile(p), stats.norm.ppf(p), rtol=4e-15, atol=1e-16)


def test_parameters_broadcast_and_give_the_shape() -> None:
    loc, scale, key = np.array([0.0, 10.0, 20.0]), np.array([[1.0], [0.0]]), jf.random.key(2)
    draw = jf.fuse(lambda a, b, key: jf.random.normal(None, a, b, key=key), strict=True)
    x = draw(loc, scale, key)
    assert x.shape == (2, 3) and (x[1] == loc).all()
    np.testing.assert_allclose(x[0], loc + jf.random.normal((2, 3), key=key)[0], rtol=1e-13)
    p = jf.fuse(lambda p, key: jf.random.bernoulli((50, 3), p, key=key), strict=True)(np.array([0.0, 0.5, 1.0]), key)
    assert not p[:, 0].any() and p[:, 2].all() and 10 < p[:, 1].sum() < 40
    assert jf.random.gamma(None, np.array([0.1, 1.0, 9.0]), key=key).shape == (3,)
    assert jf.random.categorical(None, np.zeros((2, 3, 4)), axis=1, key=key).shape == (2, 4)
    assert jf.random.normal(2, 3, [1, 2], dtype="float32", key=key).dtype == np.float32


def test_permutations_hold_every_element_once_and_every_order_is_as_likely() -> None:
    keys = jf.random.split(jf.random.key(5), 6000)
    orders = jf.fuse(lambda keys: jf.map(lambda key: jf.random.permutation(3, key=key), keys), strict=True)(keys)
    assert (np.sort(orders, axis=1) == [0, 1, 2]).all()
    _, counts = np.unique(orders @ [9, 3, 1], return_counts=True)
    assert len(counts) == 6 and stats.chisquare(counts).pvalue > 1e-4
    x = np.arange(12).reshape(3, 4)
    rows, columns = (jf.random.permutation(x, axis, jf.random.key(1)) for axis in (0, 1))
    assert sorted(map(tuple, rows)) == sorted(map(tuple, x)) and (np.sort(columns, axis=1) == x).all()


def test_categories_without_probability_are_never_drawn() -> None:
    logits = np.array([-np.inf, 0.0, -np.inf])
    assert set(jf.random.categorical(1000, logits, key=jf.random.key(0))) == {1}


def test_an_alpha_that_is_only_known_at_run_time_gives_nan_where_it_is_none() -> None:
    draw = jf.fuse(lambda alpha: jf.random.gamma(None, alpha, key=jf.random.key(0)), strict=True)
    found = draw(np.array([-1.0, 0.0, np.nan, np.inf, 2.0]))
    assert np.isnan(found[:4]).all() and found[4] > 0


def test_without_a_key_each_call_draws_other_numbers_and_a_seed_repeats_them() -> None:
    def f() -> Any:
        return [jf.random.normal(3), jf.random.gamma(3), jf.random.permutation(20), jf.random.integers(9, 0, 2**40)]

    fused = jf.fuse(f, strict=True)
    for draw in (f, fused):
        jf.random.seed(5)
        first, second = draw(), draw()
        jf.random.seed(5)
        again = draw()
        for a, b, c in zip(first, second, again, strict=True):
            np.testing.assert_array_equal(a, c)
            assert (a != b).any()
    jf.random.seed(5)
    plain = jf.random.normal(3)
    jf.random.seed(5)
    np.testing.assert_allclose(jf.fuse(lambda: jf.random.normal(3))(), plain, rtol=1e-13)
