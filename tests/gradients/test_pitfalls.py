"""Where derivatives go wrong: kinks, infinities, equal values, writes, dtypes, empty arrays, nesting, randomness.

Where an answer is debatable it is torch's, and JAX's where both agree, with one exception: at sqrt(0), norm(0), x**0.5
and the like, where the slope is infinite, it is 0, so that no gradient is lost to one element.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import jitfuse as jf

INF, NAN = np.inf, np.nan


def gradient(function: Callable[..., Any], *xs: Any) -> Any:
    """Return the gradient of the sum of a function, by its arguments of floats."""
    by = tuple(range(len(xs)))
    found = jf.grad(lambda *given: np.sum(function(*given)), by)(*[np.asarray(x, float) for x in xs])
    return found[0] if len(xs) == 1 else found


def expect(got: Any, *want: Any) -> None:
    for g, w in zip(got if isinstance(got, tuple) else (got,), want, strict=True):
        np.testing.assert_allclose(np.asarray(g, np.float64), np.asarray(w, np.float64), rtol=1e-7, atol=1e-12)


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


# ---------------------------------------------------------------- equal values and arguments
def test_equal_arguments_have_gradients_of_their_own() -> None:
    x = np.array([1.0, 2.0])
    for _ in range(2):
        a, b = jf.grad(lambda a, b: np.sum(a * a * b), (0, 1))(x, x)
        expect((a, b), 2 * x * x, x * x)
        a, b = jf.grad(lambda a, b: np.sum(a * a * b), (0, 1))(x, x[::-1])
        expect((a, b), 2 * x * x[::-1], x * x)
        expect(jf.grad(lambda a, b: np.sum(a * a * b))(x, x), 2 * x * x)
    a, b = jf.grad(lambda a, b: a * a * b, (0, 1))(2.0, 2.0)
    assert (a, b) == (8, 4)
    tree = jf.grad(lambda t: np.sum(t["a"] * t["b"] ** 2))({"a": x, "b": x})
    expect((tree["a"], tree["b"]), x ** 2, 2 * x * x)
    expect(gradient(lambda x: np.zeros(2) + 0 * x + np.zeros(2), x), [0, 0])

    def constants(x: Any) -> Any:
        a, b = np.ones(2), np.ones(2)
        a[0] = x[0]
        b[1] = x[1] ** 2
        return a * 3 + b

    expect(gradient(constants, x), [3, 4])


def test_the_argument_itself_is_the_result() -> None:
    expect(jf.grad(lambda x: x)(3.0), 1)
    value, (pulled,) = (lambda made: (made[0], made[1](np.array([5.0, 7.0]))))(
        jf.vjp(lambda x: x, np.array([1.0, 2.0])))
    expect((value, pulled), [1, 2], [5, 7])
    _, pull_back = jf.vjp(lambda x: (x, x), np.array([1.0, 2.0]))
    expect(pull_back((np.array([1.0, 0.0]), np.array([10.0, 20.0])))[0], [11, 20])


def test_positions_of_arguments() -> None:
    a, b = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    for argnums, want in ((0, b), (-1, a), ((1, 0), (a, b)), ([0], (b,)), ((0, 0), (b, b)), ((0, -2), (b, b)),
                          ((), ())):
        found = jf.grad(lambda a, b: np.sum(a * b), argnums)(a, b)
        assert type(found) is tuple or type(argnums) is int
        for g, w in zip(found if type(found) is tuple else (found,), want if type(want) is tuple else (want,),
                        strict=True):
            expect(g, w)


def test_positions_from_the_function_around() -> None:
    x = np.ones(2)

    def of_gradient(by: Any) -> Any:
        def summed(x: Any, y: Any) -> Any:
            found = jf.grad(lambda x, y: np.sum(x ** 3 * y), by)(x, y)
            return np.sum(found[0] if isinstance(by, tuple) else found)

        return jf.grad(summed)(x, 2 * x)

    expect(tuple(of_gradient(by) for by in (0, 1, (1,), -2)), [12, 12], [3, 3], [3, 3], [12, 12])
    for wrong in (2, -3, 0.0, True, None, "x", (0, 2)):
        with pytest.raises(jf.ArgumentError, match="argnums"):
            jf.grad(lambda x, y: np.sum(x * y), wrong)(x, x)


def test_a_result_that_does_not_depend() -> None:
    expect(jf.grad(lambda x: np.float64(3.0))(np.ones(2)), [0, 0])
    expect(jf.grad(lambda x, y: np.sum(y))(np.ones(2), np.ones(3)), [0, 0])
    expect(jf.jvp(lambda x: np.arange(3.0), (np.ones(2),), (np.ones(2),))[1], [0, 0, 0])


# ---------------------------------------------------------------- writes
def test_writes_at_equal_indices() -> None:
    """The last one stays; those that add all count."""
    index, v = np.array([0, 2, 0]), np.array([1.0, 2.0, 3.0])

    def put(z: Any, v: Any) -> Any:
        z = z.copy()
        z[index] = v
        return z * np.array([1.0, 10.0, 100.0])

    def added(z: Any, v: Any) -> Any:
        z = z.copy()
        np.add.at(z, index, v)
        return z * np.array([1.0, 10.0, 100.0])

    expect(gradient(put, np.ones(3), v), [0, 10, 0], [0, 100, 1])
    expect(gradient(added, np.ones(3), v), [1, 10, 100], [1, 100, 1])
    expect(gradient(lambda x: x[index] * v, np.ones(3)), [4, 0, 2])
    expect(gradient(lambda x: np.take(x, index) * v, np.ones(3)), [4, 0, 2])

    def number(z: Any, v: Any) -> Any:
        z = z.copy()
        z[index] = v
        return z

    expect(gradient(number, np.ones(3), 2.0), [0, 1, 0], 2)

    def buffered(z: Any, v: Any) -> Any:
        z = z.copy()
        z[index] += v
        return z * np.array([1.0, 10.0, 100.0])

    expect(gradient(buffered, np.ones(3), v), [1, 10, 100], [0, 100, 1])


def test_views_and_overlapping_writes() -> None:
    def shifted(x: Any) -> Any:
        z = x.copy()
        z[1:] += 2 * z[:-1]
        return z * np.array([1.0, 10.0, 100.0])

    expect(gradient(shifted, [1.0, 2.0, 3.0]), [21, 210, 100])

    def through(x: Any) -> Any:
        z = x.copy()
        w = z[::-1]
        w[0] = w[1] * 5
        z *= 2
        return w * np.array([1.0, 10.0, 100.0])

    expect(gradient(through, [1.0, 2.0, 3.0]), [200, 20 + 10, 0])

    def of_transposed(x: Any) -> Any:
        z = x * 1.0
        z.T[0] = x[0, 1]
        d = z.ravel()
        d[3] = d[2] ** 2
        return z

    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    expect(gradient(of_transposed, x), [[0, 3 + 4], [0, 0]])

    def argument(x: Any) -> Any:
        x[0] = x[1] ** 2
        return x * np.array([1.0, 10.0])

    x = np.array([3.0, 4.0])
    expect(jf.grad(lambda x: np.sum(argument(x)))(x), [0, 18])


def test_layouts_of_arguments() -> None:
    base = np.arange(24.0).reshape(4, 6) / 7
    for x in (base[::-1, ::2], base.T, np.asfortranarray(base), base[:, 1], base[1:2, ::-1], np.broadcast_to(
            base[0], (3, 6))):
        expect(jf.grad(lambda x: np.sum(np.sin(x) * x))(x), np.cos(x) * x + np.sin(x))
        expect(jf.grad(lambda x: np.sum(np.cumsum(x.T, axis=0)))(x), np.cumsum(np.ones(x.T.shape), axis=0)[::-1].T)


# ---------------------------------------------------------------- integers, dtypes, empty arrays, numbers
def test_integers_on_the_path_are_constant() -> None:
    x = np.array([1.2, 2.7, -0.5])
    expect(gradient(lambda x: x * x.astype(int), x), [1, 2, 0])
    expect(gradient(lambda x: np.floor(x) + np.argmax(x) * x, x), [1, 1, 1])
    expect(gradient(lambda x: x[np.argsort(x)] * np.array([1.0, 2.0, 3.0]), x), [2, 3, 1])
    expect(gradient(lambda x: np.where(x > 0, 1, 2) * x, x), [1, 1, 2])
    expect(gradient(lambda x: x * np.arange(3) + x ** np.arange(3), x), [0, 2, 2 - 1.0])
    expect(gradient(lambda x: x * (x > 0), x), [1, 1, 0])
    expect(gradient(lambda x: np.sum(x > 0) * x + np.searchsorted(np.array([0.0, 1.0]), x), x), [2, 2, 2])
    expect(gradient(lambda x: x // 1 + x % 1, x), [1, 1, 1])
    _, aux = jf.grad(lambda x: (np.sum(x ** 2), np.argmax(x)), has_aux=True)(x)
    assert aux == 1 and np.asarray(aux).dtype.kind == "i"
    with pytest.raises(jf.DerivativeError, match="int64"):
        jf.grad(lambda x: np.sum(x))(np.arange(3))
    with pytest.raises(jf.DerivativeError, match="one real number"):
        jf.grad(lambda x: np.argmax(x))(x)


DTYPES = ("float16", "float32", "float64", ml_dtypes.bfloat16)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_are_kept(dtype: Any) -> None:
    x = np.array([0.5, 1.5, 2.0]).astype(dtype)
    functions: list[Callable[..., Any]] = [
        lambda x: np.sum(x * 2.5), lambda x: np.sum(np.exp(x) / 3), lambda x: np.mean(x ** 2),
        lambda x: np.max(x) * 2, lambda x: np.sum(np.where(x > 1, x, 0.0)), lambda x: np.sum(np.clip(x, 0.0, 1.0)),
        lambda x: np.sum(np.cumsum(x)), lambda x: np.sum(x[np.array([0, 0, 1])]), lambda x: np.sum(x * np.arange(3)),
        lambda x: np.sum(np.concatenate([x, x])), lambda x: np.sum(np.sqrt(x)), lambda x: np.var(x),
        lambda x: np.sum(x.astype("float64") * np.arange(3.0)), lambda x: np.sum(np.sort(x)),
    ]
    for number, function in enumerate(functions):
        got = jf.grad(function)(x)
        assert got.dtype == x.dtype and got.shape == x.shape, number
        want = jf.grad(function)(x.astype("float64"))
        rtol = {"float64": 1e-12, "float32": 1e-5, "float16": 5e-3}.get(str(x.dtype), 5e-2)
        np.testing.assert_allclose(got.astype("float64"), want, rtol=rtol, atol=rtol)


def test_averages_of_more_elements_than_float16_has_numbers() -> None:
    x = (np.arange(100_000) % 7).astype("float16")
    np.testing.assert_allclose(jf.grad(np.mean)(x), np.full(100_000, 1e-5), rtol=5e-3)
    np.testing.assert_allclose(jf.grad(np.var)(x), 2e-5 * (x - np.mean(x.astype(float))), rtol=2e-2, atol=1e-7)
    with np.errstate(all="ignore"):
        assert np.isnan(jf.grad(lambda x: np.var(x, ddof=1))(np.ones(1)))


def test_mixed_dtypes_have_each_their_own() -> None:
    a, b, c = np.ones(3, "float32"), np.ones(3, "float64"), np.ones(3, "complex64")
    found = jf.grad(lambda a, b, c: np.sum(np.real(a * b * c)), (0, 1, 2))(a, b, c)
    assert [g.dtype.name for g in found] == ["float32", "float64", "complex64"]
    _, moved = jf.jvp(lambda a, b: a * b, (a, b), (a, b))
    assert moved.dtype == "float64"


def test_empty_arrays() -> None:
    for shape in ((0,), (0, 3), (3, 0)):
        x = np.zeros(shape)
        for function in (np.sum, lambda x: np.sum(x * x), lambda x: np.sum(np.cumsum(x, axis=0)),
                         lambda x: np.sum(np.sort(x, axis=-1)), lambda x: np.prod(x), lambda x: np.sum(x[::-1]),
                         lambda x: np.sum(np.concatenate([x, x])), lambda x: np.sum(x.T @ x), lambda x: np.sum(
                             np.sum(x, axis=0)), lambda x: np.sum(np.cumprod(x, axis=-1)), np.linalg.norm):
            got = jf.grad(function)(x)
            assert got.shape == shape
    expect(gradient(lambda x: x[3:], [1.0, 2.0, 3.0]), [0, 0, 0])
    expect(gradient(lambda x: x[np.array([], int)], [1.0, 2.0]), [0, 0])

    def nothing_written(x: Any) -> Any:
        z = x.copy()
        z[2:] = 7.0
        z[np.array([], int)] = 3.0
        return z

    expect(gradient(nothing_written, [1.0, 2.0]), [1, 1])
    expect(jf.grad(lambda c: jf.scan(lambda c, a: (c * a, c), c, np.zeros((0,)))[0])(2.0), 1)


def test_numbers_and_arrays_of_rank_zero() -> None:
    got = jf.grad(lambda x: x ** 2)(3.0)
    assert got == 6 and np.asarray(got).dtype == np.float64 and np.shape(got) == ()
    got = jf.grad(lambda x: x ** 2)(np.float32(3.0))
    assert got == 6 and got.dtype == np.float32
    got = jf.grad(lambda x: x ** 2)(np.array(3.0))
    assert got == 6 and np.shape(got) == ()
    got = jf.grad(lambda x: np.sum(x ** 2))(np.array([3.0]))
    assert got.shape == (1,)
    assert jf.grad(lambda x, y: x * y, 1)(2.0, np.float32(3.0)).dtype == np.float32
    assert abs(jf.grad(lambda x: abs(x) ** 2)(3.0 + 4.0j) - (6 + 8j)) < 1e-12


# ---------------------------------------------------------------- complex numbers
COMPLEX: list[Callable[..., Any]] = [
    lambda xp, z: xp.sum(abs(z)), lambda xp, z: xp.sum(abs(z) ** 2), lambda xp, z: xp.sum((z * z).real),
    lambda xp, z: xp.sum((z * z).imag), lambda xp, z: xp.sum((z * xp.conj(z)).real),
    lambda xp, z: xp.sum(xp.exp(1j * z).real), lambda xp, z: xp.sum(xp.angle(z)), lambda xp, z: xp.sum(
        (1 / z + z ** 3).imag), lambda xp, z: xp.sum(abs(xp.fft.fft(z))), lambda xp, z: xp.sum((z @ z.T).real),
    lambda xp, z: xp.sum(xp.log(z).real + xp.sqrt(z).imag), lambda xp, z: abs(xp.prod(z)),
    lambda xp, z: xp.sum((z ** (1 + 2j)).real), lambda xp, z: xp.sum(xp.cumsum(z, 0).real * 2), lambda xp, z: xp.sum(
        xp.sin(z).real * xp.tan(z).imag), lambda xp, z: xp.sum(xp.real(z) * xp.imag(z)), lambda xp, z: xp.mean(z).real,
    lambda xp, z: abs(xp.sum(xp.linalg.inv(z[:2]))), lambda xp, z: xp.sum(xp.fft.ifft(z.real).imag),
    lambda xp, z: xp.sum(xp.fft.irfft(z)), lambda xp, z: xp.sum(xp.where(z.real > 0, z, 2j * z).imag),
    lambda xp, z: abs(xp.linalg.det(z[:2])), lambda xp, z: xp.sum(xp.tanh(z).real + xp.cosh(z).imag),
]


@pytest.mark.parametrize("number", range(len(COMPLEX)))
def test_complex_functions_have_torchs_gradients(number: int) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    z = rng.standard_normal((3, 2)) + 1j * rng.standard_normal((3, 2))
    function = COMPLEX[number]
    leaf = torch.from_numpy(z.copy()).requires_grad_()
    function(torch, leaf).backward()
    got = jf.grad(lambda z: function(np, z))(z)
    assert got.dtype == np.complex128
    np.testing.assert_allclose(got, leaf.grad.resolve_conj().numpy(), rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------- loops and branches
def test_a_value_read_inside_and_behind_a_loop() -> None:
    def function(x: Any, w: Any) -> Any:
        h = np.tanh(x)
        last, ys = jf.scan(lambda c, a: (c * h.sum() + a, c * a), np.float64(1.0), h)
        return last * w + np.sum(ys * h) + np.sum(h)

    def plain(x: Any, w: Any) -> Any:
        h, c, total = np.tanh(x), 1.0, 0.0
        for a in h:
            c, y = c * h.sum() + a, c * a
            total += y * a
        return c * w + total + h.sum()

    x, w = np.array([0.3, -0.4, 0.8]), 1.3
    dx, dw = jf.grad(function, (0, 1))(x, w)
    for k in range(3):
        e = 1e-6 * np.eye(3)[k]
        assert abs(dx[k] - (plain(x + e, w) - plain(x - e, w)) / 2e-6) < 1e-8
    assert abs(dw - (plain(x, w + 1e-6) - plain(x, w - 1e-6)) / 2e-6) < 1e-8


def test_integer_carries_and_unused_parts_of_loops() -> None:
    x = np.array([0.5, 1.5, 2.5])

    def function(x: Any) -> Any:
        (n, total), ys = jf.scan(lambda c, a: ((c[0] + 1, c[1] * a + c[0]), (a * c[0], c[0])), (0, np.float64(1.0)), x)
        return total + np.sum(ys[0]) * n

    expect(jf.grad(function)(x), [1.5 * 2.5 + 0, 0.5 * 2.5 + 3, 0.5 * 1.5 + 1 + 6])
    expect(jf.grad(lambda x: jf.fori_loop(0, 3, lambda i, v: (v[0] * x[i], v[1] + 1), (np.float64(1.0), 0))[0])(x),
           [3.75, 1.25, 0.75])
    expect(jf.grad(lambda x: np.sum(jf.cond(x[0] > 0, lambda v: v * v, lambda v: np.sqrt(v - 9), x)))(x), 2 * x)


def test_branches_beside_infinities() -> None:
    x = np.array([0.0, 1.0])

    def function(x: Any) -> Any:
        return np.sum(jf.cond(x[0] > 0, lambda v: np.log(v), lambda v: v * 2, x))

    with np.errstate(all="ignore"):
        expect(jf.grad(function)(x), [2, 2])

    def in_loop(x: Any) -> Any:
        _, ys = jf.scan(lambda c, a: (c, np.where(a > 0, np.log(a), a)), np.float64(0.0), x)
        return np.sum(ys)

    with np.errstate(all="ignore"):
        expect(jf.grad(in_loop)(x), [1, 1])


# ---------------------------------------------------------------- nesting and closures
def test_nested_in_all_orders() -> None:
    x = np.array([0.5, 1.5])

    def f(x: Any) -> Any:
        return np.sum(np.sin(x) * x)

    first, second = np.cos(x) * x + np.sin(x), -np.sin(x) * x + 2 * np.cos(x)
    third = -np.cos(x) * x - 3 * np.sin(x)
    inner = jf.fuse(lambda x: np.sum(jf.grad(f)(x) ** 2))
    expect(jf.grad(inner)(x), 2 * first * second)
    expect(jf.fuse(jf.grad(f))(x), first)
    expect(jf.grad(lambda x: np.sum(jf.grad(lambda x: np.sum(jf.grad(f)(x)))(x)))(x), third)
    expect(jf.jvp(jf.grad(f), (x,), (np.ones(2),))[1], second)
    expect(jf.grad(lambda x: np.sum(jf.jvp(f, (x,), (np.ones(2),))[1]))(x), second)
    expect(jf.hvp(f, (x,), (np.ones(2),))[0], second)
    expect(jf.jvp(lambda x: jf.jvp(f, (x,), (np.ones(2),))[1], (x,), (np.ones(2),))[1], second.sum())
    expect(jf.grad(lambda x: x * jf.grad(lambda y: x * y)(2.0))(3.0), 6)  # no confusion of x and y
    expect(jf.grad(lambda x: x * jf.jvp(lambda y: x + y, (1.0,), (1.0,))[1])(3.0), 1)
    expect(jf.grad(lambda x: np.sum(jf.stop_gradient(np.sin(x)) * x))(x), np.sin(x))
    (pulled,) = jf.fuse(lambda x: jf.vjp(np.sin, x)[1](x))(x)
    expect(pulled, np.cos(x) * x)


def test_closures_over_arrays_that_change() -> None:
    w = np.array([1.0, 2.0])
    slope = jf.grad(lambda x: np.sum(w * x * x))
    x = np.array([1.0, 1.0])
    expect(slope(x), [2, 4])
    w[0] = 10
    expect(slope(x), [20, 4])
    holder = {"w": np.array([1.0, 1.0])}
    slope = jf.grad(lambda x: np.sum(holder["w"] * x))
    expect(slope(x), [1, 1])
    holder["w"] = np.array([3.0, 4.0])
    expect(slope(x), [3, 4])

    class Model:
        def __init__(self) -> None:
            self.w = np.array([1.0, 2.0])

        def loss(self, x: Any) -> Any:
            return np.sum(self.w * x)

    model = Model()
    slope = jf.grad(model.loss)
    expect(slope(x), [1, 2])
    model.w = model.w * 3
    expect(slope(x), [3, 6])
    model.w += 1
    expect(slope(x), [4, 7])


# ---------------------------------------------------------------- training and randomness
def doubled_in_training(x: Any, training: bool = False) -> Any:
    return np.sum(x * 2 if training else x * 3)


def test_the_mode_of_calls() -> None:
    x = np.ones(2)
    slope = jf.grad(doubled_in_training)
    for mode, want in (({}, 3), ({"training": True}, 2), ({"training": False}, 3)):
        expect(slope(x, **mode), [want, want])
        expect(jf.value_and_grad(doubled_in_training)(x, **mode), 2 * want, [want, want])
    expect(jf.vjp(doubled_in_training, x)[1](1.0)[0], [3, 3])
    expect(jf.jvp(doubled_in_training, (x,), (x,))[1], 6)
    by_flag = jf.grad(lambda x: np.sum(x * 2 if jf.is_training() else x * 3))
    expect(by_flag(x), [3, 3])
    expect(jf.fuse(lambda x: by_flag(x), training=True)(x), [2, 2])
    expect(jf.fuse(lambda x, training=False: slope(x, training=training))(x, training=True), [2, 2])


def test_dropout_drops_the_same_elements_backwards() -> None:
    def dropped(x: Any, training: bool = False) -> Any:
        y = jf.nn.dropout(x, 0.4)
        return np.sum(y), y

    x = np.full(200, 2.0)
    for training in (True, False):
        (_, y), slope = jf.value_and_grad(dropped, has_aux=True)(x, training=training)
        expect(slope, y / 2)
        assert bool(0 < np.sum(slope == 0) < 200) is training


def test_draws_are_the_same_forwards_and_backwards_and_go_on_behind() -> None:
    def function(x: Any) -> Any:
        before = jf.random.uniform((3,))

        def inner(x: Any) -> Any:
            noise = jf.random.uniform((3,))
            return np.sum(x * noise * noise), noise

        slope, noise = jf.grad(inner, has_aux=True)(x)
        return before, noise, jf.random.uniform((3,)), slope

    jf.random.seed(3)
    want = [*jf.fuse(lambda: [jf.random.uniform((3,)) for _ in range(3)])(), jf.random.uniform((3,))]
    jf.random.seed(3)
    *found, slope = jf.fuse(function)(np.ones(3))
    expect(tuple(found), *want[:3])
    expect(slope, want[1] ** 2)
    expect(jf.random.uniform((3,)), want[3])
    jf.random.seed(3)
    expect(jf.grad(lambda x: np.sum(x * jf.random.uniform((3,))))(np.ones(3)), want[0])

    def in_loop(x: Any) -> Any:
        last, noise = jf.scan(lambda c, a: (lambda u: (c + a * u, u))(jf.random.uniform(())), np.float64(0.0), x)
        return last, noise

    slope, noise = jf.grad(in_loop, has_aux=True)(np.ones(4))
    expect(slope, noise)
    assert len(set(noise)) == 4


def test_a_pull_back_is_of_the_call_that_has_made_it() -> None:
    x = np.ones(3)
    value, pull_back = jf.vjp(lambda x: x * x * jf.random.uniform((3,)), x)
    behind = jf.random.state().copy()
    x *= 5  # it keeps what it was given
    for _ in range(2):
        expect(pull_back(np.ones(3))[0], 2 * value)
    np.testing.assert_array_equal(jf.random.state(), behind)
    torch = pytest.importorskip("torch")
    leaf = torch.ones(3)
    value, pull_back = jf.vjp(lambda x: x ** 3, leaf)
    leaf.mul_(2)
    expect(pull_back(torch.ones(3))[0].numpy(), [3, 3, 3])


def test_derivatives_run_in_the_interpreter_where_kernels_are_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITFUSE_DISABLE", "1")
    x = np.array([1.0, 2.0])
    gradient = jf.grad(lambda x: np.sum(x**3))
    expect((gradient(x), jf.jvp(np.sin, (x,), (x,))[1], jf.vjp(np.sin, x)[1](x)[0]),
           3 * x**2, np.cos(x) * x, np.cos(x) * x)
    assert gradient.stats()["launches"] == 0


# ---------------------------------------------------------------- equal steps
def test_what_a_recursion_computes_again_is_differentiated_once() -> None:
    def minor(a: Any, row: int, columns: tuple[int, ...]) -> Any:
        if not columns:
            return 1.0
        signed = [a[row, c] * minor(a, row + 1, columns[:k] + columns[k + 1 :]) * (-1) ** k
                  for k, c in enumerate(columns)]
        return sum(signed)

    a = np.random.default_rng(0).normal(size=(5, 5))
    gradient = jf.grad(lambda a: minor(a, 0, tuple(range(5))))
    assert len(gradient.program(a).steps) < 900  # 2,269 where each product has a cotangent of its own
    expect(gradient(a), np.linalg.det(a) * np.linalg.inv(a).T)
