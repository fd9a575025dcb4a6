"""Elementary functions of complex numbers: errors against mpmath, special cases and powers against NumPy."""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from amount import crossed, drawn

import jitfuse as jf

DTYPES = ("complex64", "complex128")
LIMIT = {"complex64": 0.51, "complex128": 4.0}
"""Units in the last place of each part, where it does not cancel."""
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

EXACT: dict[str, Callable[[Any], Any]] = {
    "exp": mpmath.exp, "exp2": lambda z: mpmath.power(2, z), "expm1": mpmath.expm1, "log": mpmath.log,
    "log2": lambda z: mpmath.log(z) / mpmath.log(2), "log10": mpmath.log10, "log1p": lambda z: mpmath.log(1 + z),
    "sqrt": mpmath.sqrt, "sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan, "sinh": mpmath.sinh,
    "cosh": mpmath.cosh, "tanh": mpmath.tanh, "arcsin": mpmath.asin, "arccos": mpmath.acos, "arctan": mpmath.atan,
    "arcsinh": mpmath.asinh, "arccosh": mpmath.acosh, "arctanh": mpmath.atanh, "abs": lambda z: mpmath.mpc(abs(z)),
}
PARTS = (0.0, -0.0, 1.0, -1.0, 0.5, -3.0, math.inf, -math.inf, math.nan, 1e308, -1e308, 5e-324, 0.75)
SPECIAL = np.array([complex(a, b) for a, b in itertools.product(PARTS, PARTS)])


def points(dtype: str, n: int) -> Any:
    """Around 0, along both axes, far out and near the unit circle."""
    r = np.random.default_rng(1)
    scales = [(0.1, 0.1), (1, 1), (3, 3), (10, 10), (30, 30), (1, 1e-6), (1e-6, 1), (1e-30, 1), (20, 1), (1, 20)]
    pieces = [r.standard_normal(n) * s + 1j * r.standard_normal(n) * t for s, t in scales]
    most = 30 if dtype == "complex64" else 150
    turns = np.exp(1j * r.uniform(-np.pi, np.pi, n))
    pieces += [turns * 10.0 ** r.uniform(-most, most, n), turns * (1 + pieces[0].real * 0.1)]
    return np.concatenate(pieces).astype(dtype)


def error(got: float, want: Any, dtype: Any) -> float:
    """The distance in units in the last place of the exact value; 0 where that overflows or cancels."""
    limits = np.finfo(dtype)
    if abs(want) > limits.max:
        return 0.0
    unit = max(float(np.spacing(dtype(abs(float(want))))), float(limits.smallest_subnormal))
    return float(abs(mpmath.mpf(float(got)) - want) / unit)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", EXACT)
def test_each_part_is_within_its_limit(name: str, dtype: str) -> None:
    part = np.float32 if dtype == "complex64" else np.float64
    z = points(dtype, drawn(6))
    got = jf.fuse(lambda z: getattr(np, name)(z))(z)
    with mpmath.workprec(1600):
        for x, y in zip(z.astype(complex), got, strict=True):
            want = mpmath.mpc(EXACT[name](mpmath.mpc(x.real, x.imag)))
            for g, w in ((np.real(y), want.real), (np.imag(y), want.imag)):
                cancels = name in ("expm1", "log1p") and abs(w) < 0.25 * min(1, abs(complex(x)))
                assert cancels or error(g, w, part) <= LIMIT[dtype], (x, y, want)


def alike(g: Any, w: Any, tiny: float) -> Any:
    """Equal up to rounding; the same NaN, infinities and signs of zero."""
    size = np.maximum(np.abs(g), np.abs(w))
    close = (np.abs(g - w) <= 1e-5 * size) & (np.signbit(g) == np.signbit(w))
    return (np.isnan(g) & np.isnan(w)) | (g == w) & (np.signbit(g) == np.signbit(w)) | close | (size < tiny)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [n for n in EXACT if n != "expm1"])
def test_special_cases_are_numpys(name: str, dtype: str) -> None:
    z, tiny = SPECIAL.astype(dtype), 1e-307 if dtype == "complex128" else 1e-37
    got, want = jf.fuse(lambda z: getattr(np, name)(z))(z), getattr(np, name)(z)
    pairs = [(np.real(got), np.real(want)), (np.imag(got), np.imag(want))]
    # the sign of a zero beside NaN says nothing, and log1p(-0) keeps its sign or not
    free = [np.isnan(pairs[1 - k][1]) & (w == 0) | (name == "log1p") & (w == 0) for k, (_, w) in enumerate(pairs)]
    for (g, w), ignored in zip(pairs, free, strict=True):
        assert np.all(alike(g, w, tiny) | ignored & (g == 0)), z[~(alike(g, w, tiny) | ignored & (g == 0))]


def test_expm1_follows_exp_at_infinity() -> None:
    z = np.array([complex(math.inf, 0), complex(-math.inf, math.nan), complex(math.inf, math.inf), 0, -0.0])
    got = jf.fuse(lambda z: np.expm1(z))(z)
    assert got[0] == complex(math.inf, 0) and got[1] == -1 and got[2].real == math.inf and np.all(got[3:] == 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_angles(dtype: str) -> None:
    z = np.concatenate([points(dtype, 20), SPECIAL[np.isfinite(SPECIAL)].astype(dtype)])
    fused = jf.fuse(lambda z: (np.angle(z), np.angle(z, deg=True), np.angle(z.real)))
    for got, want in zip(fused(z), (np.angle(z), np.angle(z, deg=True), np.angle(z.real)), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=3e-7)


@pytest.mark.parametrize(("dtype", "exponent"), crossed(
    2, DTYPES, [0, 1, 2, 3, -1, -2, 7, -13, 99, 100, 0.5, 1.5, -0.25, 1j, 2 - 1.5j, 1 + 0j]))
def test_powers_to_literals_and_to_arguments(dtype: str, exponent: complex) -> None:
    r = np.random.default_rng(2)
    z = (r.uniform(0.7, 1.3, 40) * np.exp(1j * r.uniform(-3, 3, 40))).astype(dtype)
    want = z**exponent
    results = (
        jf.fuse(lambda z: z**exponent)(z), jf.fuse(lambda z, w: z**w)(z, exponent),
        jf.fuse(lambda z, w: np.power(z, w))(z, np.full(40, exponent, dtype)),
    )
    for got in results:
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-4 if dtype == "complex64" else 2e-13)


def test_powers_of_zero_and_to_zero() -> None:
    z = np.array([0, -0.0, 1j, complex(math.nan, 1), complex(math.inf, 0)])
    for w in (0, 1, 2.5, 3, -1, 1j, 1 + 1j):
        got, want = jf.fuse(lambda z, w: z**w)(z[:2], complex(w)), z[:2] ** complex(w)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        np.testing.assert_array_equal(got[~np.isnan(got)], want[~np.isnan(want)])
    assert np.all(jf.fuse(lambda z: z**0)(z) == 1)


def test_what_is_computed_together_is_right() -> None:
    z = points("complex128", 30)
    fused = jf.fuse(lambda z: np.sum(np.exp(-np.abs(z)) * np.sqrt(z + 1) / (2 + np.sin(z.real))))
    np.testing.assert_allclose(fused(z), np.sum(np.exp(-np.abs(z)) * np.sqrt(z + 1) / (2 + np.sin(z.real))), rtol=1e-12)


@pytest.mark.full
def test_powers_have_the_shape_of_both_operands() -> None:
    z = np.array([[1 + 2j], [3 - 1j]])
    for exponent in (0, 0.0, 0.5, 2, -1, 1.5, 1j):
        def scalar(x: Any, e: Any = exponent) -> Any:
            return np.power(x, np.complex128(e)), x**e

        def spread(x: Any, e: Any = exponent) -> Any:
            return x ** np.full((3, 1, 2), e)

        for got, want in ((jf.fuse(scalar)(z), scalar(z)), ([jf.fuse(spread)(z)], [spread(z)])):
            for g, w in zip(got, want, strict=True):
                assert g.shape == w.shape
                np.testing.assert_allclose(g, w, rtol=1e-14)
