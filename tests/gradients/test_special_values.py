"""Derivatives up to the third, in all modes, where operands have values that rules choose by: 0, equal, far.

The judge is a polynomial through values of the function along a line: its coefficients are the derivatives there.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

REACH = 0.04
MODES = ("f", "r", "ff", "fr", "rf", "rr", "fff", "frr", "rff", "rrr")


def along(function: Callable[..., Any], direction: tuple[np.ndarray, ...], mode: str) -> Callable[..., Any]:
    """Return the derivative along a direction, in the forward or the reverse mode."""
    if mode == "f":
        return lambda *xs: jf.jvp(function, xs, direction)[1]
    by = tuple(range(len(direction)))
    return lambda *xs: sum(np.sum(g * d) for g, d in zip(jf.grad(function, by)(*xs), direction, strict=True))


def expected(function: Callable[..., Any], xs: tuple[np.ndarray, ...], direction: tuple[np.ndarray, ...]) -> np.ndarray:
    """Return the derivatives along a direction, by order."""
    nodes = np.cos(np.pi * (np.arange(25) + 0.5) / 25)
    values = [float(function(*[x + REACH * t * d for x, d in zip(xs, direction, strict=True)])) for t in nodes]
    made = np.polynomial.Chebyshev.fit(nodes, values, 12, domain=(-1, 1))
    return np.array([made.deriv(k)(0.0) / REACH**k for k in (1, 2, 3)])


def check(
    function: Callable[..., Any], *xs: Any, plain: Callable[..., Any] | None = None, modes: tuple[str, ...] = MODES
) -> None:
    """Compare derivatives with those of values, which `plain` computes where the function itself does not."""
    rng = np.random.default_rng(0)
    arrays = tuple([np.asarray(x, np.float64) for x in xs])
    direction = tuple([0.5 * np.asarray(rng.standard_normal(x.shape)) for x in arrays])
    want = expected(plain or function, arrays, direction)
    for mode in modes:
        derived = function
        for letter in mode:
            derived = along(derived, direction, letter)
        k = len(mode) - 1
        np.testing.assert_allclose(
            jf.fuse(derived)(*arrays), want[k], rtol=(1e-7, 1e-6, 1e-4)[k], atol=(1e-8, 1e-7, 1e-5)[k], err_msg=mode)


@pytest.mark.parametrize("exponents", [(0.0, 0.0), (0.0, 1.0), (1.0, 2.0)])
def test_powers_by_small_whole_exponents(exponents: tuple[float, ...]) -> None:
    """The slope by the base is 0 at the exponent 0, but changes with it."""
    check(lambda x, y: np.sum(x**y), (2.0, 3.0), exponents)
    check(lambda x: np.sum(np.real((x + 1j) ** x)), exponents)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_activations_far_from_zero(dtype: Any) -> None:
    """Powers of such numbers are infinite."""
    x = np.array([90, -90, 300, -300, np.sqrt(np.finfo(dtype).max), -np.finfo(dtype).max, np.inf, -np.inf], dtype)
    slope = jf.grad(lambda x: np.sum(jf.nn.gelu(x, approximate="tanh")))
    assert np.array_equal(slope(x), x > 0)
    assert np.array_equal(jf.grad(lambda x: np.sum(slope(x)))(x), np.zeros(8))
    assert np.isnan(slope(np.array([np.nan], dtype)))


@pytest.mark.parametrize("x", [(0.0, 1e-9, 1e-5), (0.0999, 0.1001, -0.1), (0.05, 3.0, -7.0)])
def test_bessel_functions_near_zero(x: tuple[float, ...]) -> None:
    special = pytest.importorskip("scipy.special")
    check(lambda x: np.sum(special.i1(x)), x)
    check(lambda x: np.sum(special.i1e(x)), np.abs(x) + 0.05)


@pytest.mark.parametrize("factors", [(0.0, 0.0, 0.0, 2.0), (0.0, 2.0, 3.0, 0.0), (1.0, 2.0, 3.0, 4.0)])
@pytest.mark.parametrize("start", [(1.0, 2.0, 3.0), (0.0, 0.0, 3.0)])
def test_products_at_equal_indices(factors: tuple[float, ...], start: tuple[float, ...]) -> None:
    """Where several factors of an element are 0, the derivative by two of them is the rest."""
    def function(x: Any, v: Any) -> Any:
        made = x * 1.0
        np.multiply.at(made, np.array([0, -3, 1, 0]), v)
        return np.sum(made * np.array([1.0, 2.0, -1.0]))

    check(function, start, factors)


def test_products_of_blocks_at_equal_indices() -> None:
    def function(x: Any, v: Any) -> Any:
        made = x * 1.0
        np.multiply.at(made, (np.array([1, 1, 0]), slice(None), np.array([1, -1, 0])), v)
        return np.sum(made * np.arange(8).reshape(2, 2, 2))

    check(function, np.ones((2, 2, 2)), np.array([[0.0, 2.0], [0.0, 3.0], [1.0, 0.0]]))
    check(lambda x, v: function(x, v[0]), np.ones((2, 2, 2)), np.zeros((1, 2)))


def turned(singular: tuple[float, ...]) -> np.ndarray:
    """Return a matrix with these singular values."""
    rng, n = np.random.default_rng(1), len(singular)
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    return np.asarray(left * np.array(singular) @ right)


@pytest.mark.parametrize("singular", [
    (1, 1), (0, 0), (1, 0, 0), (1, 1, 1, 1, 1), (2, 1, 1, 0.5), (1, 1, 1, 0), (1, 1, 0, 0, 0), (0, 0, 0, 0, 0),
    (3, 3, 2, 1e-9, 1e-9), (5, 3, 2, 1),
])
def test_determinants_of_equal_and_zero_singular_values(singular: tuple[float, ...]) -> None:
    for x in (turned(singular), np.diag(singular)):
        check(np.linalg.det, x)
        check(lambda x: np.real((1 + 2j) * np.linalg.det(x + 0.5j * x)), x, modes=("rr", "fr"))


def test_determinants_of_a_stack_and_of_nothing() -> None:
    check(lambda x: np.sum(np.linalg.det(x) * np.array([1.0, 2.0])), np.stack([np.eye(5), np.ones((5, 5))]))
    assert jf.grad(lambda x: np.sum(np.linalg.det(x)))(np.zeros((2, 0, 0))).shape == (2, 0, 0)


def test_vectors_of_equal_eigenvalues_are_any() -> None:
    """What moves them has no derivative, NaN as in torch and JAX; what does not keeps its own."""
    x, weights = np.diag([1.0, 1.0, 3.0]), np.arange(9.0).reshape(3, 3) / 7

    def projector(k: int) -> Callable[..., Any]:
        def function(x: Any) -> Any:
            v = np.linalg.eigh(x + x.T)[1][:, k]
            return np.sum(np.outer(v, v) * weights)

        return function

    check(projector(2), x, modes=("f", "r"))
    check(lambda x: np.linalg.eigh(x + x.T)[0][2] ** 2, x, modes=("f", "r"))
    check(lambda x: np.sum(np.linalg.svd(x)[1]), x, modes=("f", "r"))
    for function in (projector(0), lambda x: np.sum(np.linalg.svd(x)[0] * weights)):
        assert np.isnan(jf.grad(function)(x)).any()
        assert not np.isfinite(jf.jvp(function, (x,), (weights,))[1])
        assert jf.jvp(function, (x,), (np.zeros((3, 3)),))[1] == 0
    (found,) = jf.hvp(lambda x: np.sum(np.linalg.eigvalsh(x) ** 2), (np.eye(3),), (weights,))
    assert np.isnan(found).any()  # through the vectors: the Hessian is 2, which they do not tell


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_angles_of_large_and_small_numbers(dtype: Any) -> None:
    """Their squares are infinite, or 0."""
    x = np.array([300, np.finfo(dtype).max / 4, 1], dtype)
    tolerance = 4 * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(jf.grad(lambda x: np.sum(np.arcsinh(x)))(x) * x, x / np.hypot(x, dtype(1)), tolerance)
    x[2] = np.finfo(dtype).smallest_normal * 8
    by_first, by_second = jf.grad(lambda a, b: np.sum(np.arctan2(a, b)), (0, 1))(x, x)
    np.testing.assert_allclose(by_first * x, np.full(3, 0.5), tolerance)
    assert np.array_equal(by_first, -by_second)


def test_logs_of_the_normal_distribution_far_below_zero() -> None:
    special = pytest.importorskip("scipy.special")
    check(lambda x: np.sum(special.log_ndtr(x)), (-7.95, -8.05, -5.0))
    check(lambda x: np.sum(special.log_ndtr(x)), (-20.0, -30.0, 3.0))
    slope = jf.grad(lambda x: np.sum(special.log_ndtr(x)))
    np.testing.assert_allclose(slope(np.float32([-300, -4e4, -1e30])), [300.00333, 4e4, 1e30], rtol=1e-6)
    assert np.array_equal(slope(np.array([-1e200, -np.inf, np.inf])), [1e200, np.inf, 0])
