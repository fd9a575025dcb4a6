"""Derivatives at kinks, and beside infinities and NaN.

Where an answer is debatable it is torch's, and JAX's where both agree, with one exception: at sqrt(0), norm(0), x**0.5
and the like, where the slope is infinite, it is 0, so that no gradient is lost to one element.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gradients_expected import expect, gradient

import jitfuse as jf

INF, NAN = np.inf, np.nan


# ---------------------------------------------------------------- choices beside infinities and NaN
def test_where_keeps_the_branch_not_taken_out() -> None:
    x = [-1.0, 0.0, 4.0]
    for function, want in (
        (lambda x: np.where(x > 0, np.sqrt(x), 0), [0, 0, 0.25]),
        (lambda x: np.where(x > 0, np.log(x), x), [1, 1, 0.25]),
        (lambda x: np.where(x > 0, x * np.log(x), 0), [0, 0, 1 + np.log(4)]),
        (lambda x: np.where(x > 0, 1 / x, 3), [0, 0, -1 / 16]),
        (lambda x: np.where(x != 0, np.sin(x) / x, 1), [-(np.cos(1) - np.sin(1)), 0, (np.cos(4) - np.sin(4) / 4) / 4]),
        (lambda x: np.where(x > 0, x ** -2.0, 0), [0, 0, -2 / 64]),
        (lambda x: np.where(x > 0, x ** x, 0), [0, 0, 256 * (np.log(4) + 1)]),
        (lambda x: np.where(x > 0, np.log(np.sqrt(x)), 0), [0, 0, 1 / 8]),
        (lambda x: np.where(x < 2, x, np.exp(x * 1000)), [1, 1, INF]),
        (lambda x: np.where(x > 5, np.exp(x * 1000), x), [1, 1, 1]),
        (lambda x: np.where(x > 0, np.arccos(x / 4), 0), [0, 0, -INF]),
        (lambda x: np.where(x < 4, np.arccos(x / 4), 0), [-1 / np.sqrt(15), -0.25, 0]),
        (lambda x: np.where(x > 0, np.sum(np.log(x)), x), [1, INF, 1.25]),
        (lambda x: np.where(np.isfinite(np.log(x)), np.log(x), 0), [0, 0, 0.25]),
        (lambda x: np.nan_to_num(np.log(x), nan=0.0, neginf=0.0), [0, 0, 0.25]),
        (lambda x: np.maximum(np.log(x), -3.0)[2], [0, 0, 0.25]),
        (lambda x: np.clip(1 / x, -0.5, 0.5), [0, 0, -1 / 16]),
        (lambda x: np.nansum(np.sqrt(x)), [0, 0, 0.25]),
        (lambda x: np.nanmax(np.sqrt(x)), [0, 0, 0.25]),
    ):
        with np.errstate(all="ignore"):
            got = gradient(function, x)
        if np.isinf(want[1]):  # the branch is taken there: -1/x of a NaN beside it
            continue
        expect(got, want)


def test_masked_writes_keep_what_they_replace_out() -> None:
    def function(x: Any) -> Any:
        z = np.log(x)
        z[x <= 0] = 0
        w = 1 / x
        w[1] = 7
        return z + w

    with np.errstate(all="ignore"):
        expect(gradient(function, [1.0, 0.0, 2.0]), [0, 0, 0.25])


def test_choices_in_functions_of_several_steps_count_too() -> None:
    x = [-1.0, 1.0, 4.0]

    def written(x: Any) -> Any:
        z = np.sqrt(x)
        z[0] = 2.0
        w = np.sqrt(x)
        w[np.array([0, 0])] = 3.0
        return z + w

    with np.errstate(all="ignore"):
        expect(gradient(written, x), [0, 1, 0.5])
        expect(gradient(lambda x: np.nanmean(np.sqrt(x)), x), [0, 0.25, 0.125])
        expect(gradient(lambda x: np.tril(np.sqrt(x)[::-1] + np.zeros((3, 3)))[:, :2], x), [0, 1, 0.75])
        expect(gradient(lambda x: np.where(x > 0, jf.scan(
            lambda c, a: (c * np.sqrt(a), np.sqrt(a)), np.float64(1.0), x)[1], 0), x), [0, 0.5, 0.25])
        expect(gradient(lambda x: np.where(x > 0, jf.cond(
            x[1] > 0, lambda v: np.sqrt(v), lambda v: v, x), 0), x), [0, 0.5, 0.25])


def test_reductions_that_are_not_taken() -> None:
    special = pytest.importorskip("scipy.special")
    functions: list[Callable[..., Any]] = [
        np.max, np.min, np.var, np.std, np.prod, np.sum, np.mean, special.logsumexp, np.ptp, np.median,
        lambda y: jf.nn.softmax(y)[0], lambda y: special.log_softmax(y)[0], lambda y: jf.nn.layer_norm(y)[0],
        lambda y: jf.nn.rms_norm(y)[0], lambda y: np.sum(np.sort(y)), lambda y: np.sum(np.cumprod(y)), np.linalg.norm,
    ]
    for number, function in enumerate(functions):
        with np.errstate(all="ignore"):
            got = gradient(lambda x, f=function: np.where(x[0] > 1, f(np.log(x - 1)), x[0]), [0.5, 1.0, 2.0])
        assert list(got) == [1, 0, 0], number


def test_division_and_logarithms_at_infinity() -> None:
    with np.errstate(all="ignore"):
        expect(gradient(lambda x: 1 / x, [INF, -INF]), [0, 0])
        expect(gradient(lambda x: np.log(x), [INF]), [0])
        expect(gradient(lambda x: np.tanh(x), [INF, -INF, 800.0]), [0, 0, 0])
        expect(gradient(lambda x: jf.nn.sigmoid(x), [1000.0, -1000.0]), [0, 0])
        expect(gradient(lambda x: jf.nn.softplus(x), [1000.0, -1000.0]), [1, 0])
        expect(gradient(lambda x: jf.nn.softmax(x, axis=-1)[0], [1000.0, 0.0]), [0, 0])


# ---------------------------------------------------------------- kinks
def test_roots_norms_and_powers_at_zero() -> None:
    """torch has inf or NaN for most of these."""
    with np.errstate(all="ignore"):
        expect(gradient(np.sqrt, [0.0, 4.0]), [0, 0.25])
        expect(gradient(np.cbrt, [0.0, 8.0]), [0, 1 / 12])
        expect(gradient(lambda x: np.sqrt(np.sum(x * x)), [0.0, 0.0]), [0, 0])
        expect(gradient(np.linalg.norm, [0.0, 0.0]), [0, 0])
        expect(gradient(lambda x: np.linalg.norm(x, axis=1), [[0.0, 0.0], [3.0, 4.0]]), [[0, 0], [0.6, 0.8]])
        expect(gradient(lambda x: np.linalg.norm(x, ord=1), [0.0, -2.0]), [0, -1])
        expect(gradient(np.std, [2.0, 2.0, 2.0]), [0, 0, 0])
        expect(gradient(lambda x: np.hypot(x, x), [0.0]), [0])
        expect(gradient(lambda x: x ** 0.5, [0.0, 4.0]), [0, 0.25])
        expect(gradient(lambda x: x ** 0, [0.0, 2.0]), [0, 0])
        expect(gradient(lambda x: x ** 0.0, [0.0, 2.0]), [0, 0])
        expect(gradient(lambda x: x ** 1, [0.0, -2.0]), [1, 1])
        expect(gradient(lambda x: x ** 2, [0.0, -2.0]), [0, -4])
        expect(gradient(lambda x: x ** 3.0, [0.0, -2.0]), [0, 12])
        expect(gradient(lambda x: 0.0 ** x, [2.0, 1.0]), [0, 0])
        expect(gradient(lambda x, y: x ** y, [0.0, 0.0, -2.0], [2.0, 0.0, 2.0])[0], [0, 0, -4])
        expect(gradient(lambda x, y: x ** y, [0.0, 0.0], [2.0, 0.0])[1], [0, 0])


def test_powers_by_numbers_that_a_cast_has_changed() -> None:
    expect(gradient(lambda x: x ** np.full((), 2.7).astype(int), [1.0, 3.0]), [2, 6])
    expect(gradient(lambda x: x ** np.full((), 258).astype(np.uint8), [1.0, 3.0]), [2, 6])
    exponent = float(np.float16(3.3))
    expect(gradient(lambda x: x ** np.full((), 3.3).astype(np.float16), [3.0]), [exponent * 3 ** (exponent - 1)])


def test_powers_of_float16_by_wider_numbers() -> None:
    """The power is float32, and so is its slope: 3 * 300**2 is beyond float16."""
    found = jf.grad(lambda x: np.sum(x ** np.float32(3)) * 1e-4)(np.float16([300, 2]))
    np.testing.assert_allclose(found, np.float16([27, 0.0012]), rtol=1e-3)


def test_second_derivatives_at_zero_are_finite() -> None:
    for function in (np.sqrt, np.linalg.norm, lambda x: x ** 0.5, np.hypot, lambda x: np.arctan2(x, x)):
        with np.errstate(all="ignore"):
            (found,) = jf.hvp(
                lambda x, f=function: np.sum(f(x, x) if f is np.hypot else f(x)), (np.zeros(3),), (np.ones(3),))
        assert np.all(np.isfinite(found)), function
    for power, want in ((2, 2), (3, 0), (1, 0), (2.0, 2), (0, 0), (4, 0)):
        (found,) = jf.hvp(lambda x, p=power: np.sum(x ** p), (np.zeros(3),), (np.ones(3),))
        expect(found, np.full(3, want))


def test_distances_from_zero() -> None:
    expect(gradient(np.abs, [0.0, -0.0, -2.0]), [0, 0, -1])
    expect(gradient(np.fabs, [0.0, -2.0]), [0, -1])
    expect(gradient(np.sign, [0.0, -2.0]), [0, 0])
    expect(gradient(np.arctan2, [0.0, 1.0], [0.0, 0.0]), [0, 0], [0, -1])
    expect(gradient(jf.nn.relu, [0.0, -2.0, 2.0]), [0, 0, 1])
    expect(gradient(np.sinc, [0.0, 0.5]), [0, -4 / np.pi])
    expect(gradient(np.sinc, [1e-9, -1e-5]), [-np.pi ** 2 / 3e9, np.pi ** 2 / 3e5])
    expect(jf.hvp(lambda x: np.sum(np.sinc(x)), (np.zeros(1),), (np.ones(1),))[0], [-np.pi ** 2 / 3])
    assert jf.jvp(np.abs, (np.array([0.0 + 0.0j]),), (np.array([1.0 + 1.0j]),))[1][0] == 0


def test_equal_elements_share() -> None:
    x = [[3.0, 1.0, 3.0], [2.0, 2.0, 2.0]]
    share = [[0.5, 0, 0.5], [1 / 3, 1 / 3, 1 / 3]]
    expect(gradient(lambda x: np.max(x, axis=1), x), share)
    expect(gradient(lambda x: np.amin(-x, axis=1), x), -np.array(share))
    expect(gradient(np.maximum, [1.0, 2.0], [1.0, 3.0]), [0.5, 0], [0.5, 1])
    expect(gradient(np.minimum, [1.0, 2.0], [1.0, 3.0]), [0.5, 1], [0.5, 0])
    expect(gradient(lambda x: np.maximum(x, x), [1.0]), [1])
    expect(gradient(lambda x: np.maximum(x, 0), [0.0]), [0.5])
    expect(gradient(lambda x: np.ptp(x), [1.0, 1.0]), [0, 0])
    for function in (np.sort, lambda x: np.partition(x, 1)):
        got = gradient(lambda x, f=function: f(x) * np.array([1.0, 2.0, 4.0]), [5.0, 5.0, 5.0])
        assert sorted(got) == [1, 2, 4]
    got = gradient(lambda x: np.median(x), [1.0, 1.0, 1.0])
    assert sorted(got) == [0, 0, 1]
    expect(gradient(lambda x: np.maximum.accumulate(x)[-1], [2.0, 2.0, 1.0]), [0, 1, 0])


def test_clips_at_their_bounds() -> None:
    """The element itself counts at a bound, as in torch."""
    expect(gradient(lambda x: np.clip(x, 0, 1), [-1.0, 0.0, 0.5, 1.0, 2.0]), [0, 1, 1, 1, 0])
    expect(gradient(lambda x, a, b: np.clip(x, a, b), [-1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]),
           [0, 1, 0], [1, 0, 0], [0, 0, 1])
    expect(gradient(lambda x: np.clip(x, None, 1), [-1.0, 1.0, 2.0]), [1, 0.5, 0])  # it is np.minimum; torch has 1


def test_sums_of_exponentials_of_minus_infinity() -> None:
    special = pytest.importorskip("scipy.special")
    with np.errstate(all="ignore"):
        expect(gradient(np.logaddexp, [-INF, -INF, 0.0], [-INF, 0.0, -INF]), [0, 0, 1], [0, 1, 0])
        expect(gradient(np.logaddexp, [INF, 1.0, INF], [1.0, INF, INF]), [1, 0, 0.5], [0, 1, 0.5])
        expect(gradient(np.logaddexp2, [-INF, -INF, 3.0], [-INF, 0.0, 3.0]), [0, 0, 0.5], [0, 1, 0.5])
        expect(gradient(lambda x: special.logsumexp(x, axis=-1), [[-INF, 0.0], [-INF, -INF]]), [[0, 1], [0, 0]])
        expect(gradient(lambda x: jf.nn.softmax(x, axis=-1)[1], [-INF, 0.0, 0.0]), [0, 0.25, -0.25])
        expect(gradient(lambda x: special.log_softmax(x, axis=-1)[1], [-INF, 0.0, 0.0]), [0, 0.5, -0.5])
        expect(gradient(lambda x: jf.nn.softmax(np.where([True, False, True], x, -INF), axis=-1)[0], [1.0, 9.0, 1.0]),
               [0.25, 0, -0.25])


def test_shares_of_large_logarithms_are_exact() -> None:
    expect(gradient(np.logaddexp, [1e200, 1e17], [1e200, 1e17]), [0.5, 0.5], [0.5, 0.5])
    a, b = jf.grad(lambda a, b: np.logaddexp(a, b), (0, 1))(np.float32(30000.0), np.float32(30001.0))
    np.testing.assert_allclose([a, b], [1 / (1 + np.e), 1 / (1 + 1 / np.e)], rtol=3e-7)
    (second,) = jf.hvp(np.logaddexp, (1.0, 1.0), (1.0, 0.0))[:1]
    expect(second, 0.25)


def test_nan_among_elements() -> None:
    x = [1.0, NAN, 2.0]
    expect(gradient(np.nanmax, x), [0, 0, 1])
    expect(gradient(np.nanmean, x), [0.5, 0, 0.5])
    expect(gradient(np.fmax, x, [0.0, 1.0, NAN]), [1, 0, 1], [0, 1, 0])
    expect(gradient(np.maximum.accumulate, x), [1, 2, 0])  # NaN is the largest, as in torch
    expect(gradient(lambda x: np.nansum(x * x), x), [2, 0, 4])


@pytest.mark.parametrize("function", [
    np.log, np.log2, np.log10, np.log1p, np.reciprocal, np.arcsin, np.arccos, np.arctanh, np.sqrt, np.cbrt,
    lambda x: np.arccosh(x + 1), lambda x: 2 / x, lambda x: x / (1 + x), lambda x: x**x, lambda x: x**-1.5,
    lambda x: np.hypot(x, 2.0), lambda x: np.arctan2(x, x + 1), lambda x: np.logaddexp(x, 1), np.prod, np.cumprod,
    np.std, np.var, np.linalg.norm, lambda x: np.linalg.inv(np.diag(x)), lambda x: np.linalg.det(np.diag(x) + 0.1),
    lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum(), lambda x: np.where(x > 0.4, np.log(x - 0.4), x),
    lambda x: np.clip(x, 0.3, 1) / x, lambda x: np.maximum(x, 0.4) ** 0.5,
    lambda x: np.where(x > 0.4, np.std(x), x * x), lambda x: x.max() * np.log(x),
    lambda x: np.where(x > 0.4, x, 0).std(),
])
def test_second_derivatives_where_the_cotangent_is_zero(function: Callable[..., Any]) -> None:
    """As at the minimum of a sum of squares: there the derivative of the first derivative is all that is left."""
    x = np.array([0.2, 0.35, 0.55, 0.8])

    def total(x: Any) -> Any:
        return (function(x) * np.cos(np.arange(np.size(function(x)))).reshape(np.shape(function(x)))).sum()

    def loss(x: Any) -> Any:
        return (total(x) - jf.stop_gradient(total(x))) ** 2

    slope = jf.grad(total)(x)
    assert np.isfinite(slope).all() and np.abs(slope).max() > 0.01 and (jf.grad(loss)(x) == 0).all()
    assert np.allclose(jf.grad(lambda x: jf.grad(loss)(x).sum())(x), 2 * slope * slope.sum(), rtol=1e-9)
