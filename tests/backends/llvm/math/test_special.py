"""Special values: infinities, NaN, signed zeros, and the exact division family, against NumPy and C99."""
from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.special
from amount import drawn
from oracle import same_numbers

from jitfuse.backends.llvm.math import FUNCTIONS
from jitfuse.ir.operators import ops

TARGETS = ["host", "host without fma"]
DTYPES = [np.float32, np.float64]
DIVISIONS = ["fmod", "remainder", "floor_divide"]
POWERS = ["power", "logaddexp", "logaddexp2"]
BINARY = {op.name: op.numpy for op in ops.table() if op.name in FUNCTIONS and op.arity == 2}
OF_TWO = sorted(BINARY.keys() - {"xlogy", *POWERS, *DIVISIONS})
ROUNDINGS = ["floor", "ceil", "trunc", "rint", "sqrt"]


def specials(dtype: type) -> np.ndarray:
    info = np.finfo(dtype)
    positive = [
        0.0, info.smallest_subnormal, info.smallest_normal, info.eps, 0.5, 1.0, 1.5, 2.0, 3.0, 1e3,
        1 / info.eps, 1 / info.eps + 1, info.max, np.inf, np.nan,
    ]
    return np.array([*positive, *(-v for v in positive)], dtype)


def random_patterns(dtype: type, n: int, seed: int) -> np.ndarray:
    integer = np.uint32 if dtype == np.float32 else np.uint64
    rng = np.random.default_rng(seed)
    return rng.integers(0, np.iinfo(integer).max, n, dtype=integer, endpoint=True).view(dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(FUNCTIONS - {*BINARY}))
def test_special_arguments(name, dtype, target, kernel, ulps):
    x = specials(dtype)
    op = ops.get(name)
    reference = {"erf": scipy.special.erf, "rint": np.rint}.get(name) or op.numpy
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64))
    assert ulps(kernel(name, dtype, target=target)(x), exact).max() <= 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_payloads_stay_nan(dtype, kernel):
    """The bit patterns of every NaN are far from those of numbers, whatever is added to an exponent field."""
    x = random_patterns(dtype, 20_000, 8)
    integer = np.uint32 if dtype == np.float32 else np.uint64
    x = (x.view(integer) | np.array([np.inf], dtype).view(integer)).view(dtype)
    x = x[np.isnan(x)]
    for name in sorted(FUNCTIONS - {*BINARY}):
        assert np.isnan(kernel(name, dtype)(x)).all(), name


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OF_TWO)
def test_special_arguments_of_two_operands(name, dtype, target, kernel, ulps):
    """The references in long double where they are NumPy's: it holds the quotients of all float64."""
    y, x = np.array(list(itertools.product(specials(dtype), repeat=2)), dtype).T.copy()
    with np.errstate(all="ignore"):
        exact = BINARY[name](y.astype(np.longdouble), x.astype(np.longdouble))
    assert ulps(kernel(name, dtype, target=target)(y, x), exact).max() <= 1


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", POWERS)
def test_pairs_of_special_arguments(name, dtype, target, kernel, ulps):
    """Python's float power and math.pow follow annex F.9.4.4 but raise; NumPy calls the C library's."""
    pairs = np.array(list(itertools.product(specials(dtype), repeat=2)), dtype)
    x, y = np.ascontiguousarray(pairs.T)
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(x.astype(np.longdouble), y.astype(np.longdouble))
    assert ulps(kernel(name, dtype, target=target)(x, y), exact).max() <= 1


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_xlogy_of_special_arguments(dtype, target, kernel, ulps):
    x, y = np.ascontiguousarray(np.array(list(itertools.product(specials(dtype), repeat=2)), dtype).T)
    with np.errstate(all="ignore"):
        expected = scipy.special.xlogy(x.astype(np.float64), y.astype(np.float64))
    assert ulps(kernel("xlogy", dtype, target=target)(x, y), expected).max() <= 2  # SciPy's rounds twice


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", DIVISIONS)
def test_division_is_numpys_bit_for_bit(name, dtype, target, kernel):
    pairs = np.array(list(itertools.product(specials(dtype), repeat=2)), dtype).T
    n = drawn(100_000)
    rng = np.random.default_rng(2)
    x, y = random_patterns(dtype, n, 0), random_patterns(dtype, n, 1)
    with np.errstate(all="ignore"):
        near = (y * rng.integers(1, 1000, n)).astype(dtype)  # quotients at and next to integers
    one_off = np.nextafter(near, np.array(rng.choice([-np.inf, np.inf], n), dtype))
    ordinary = rng.normal(0, 50, n).astype(dtype), rng.normal(0, 3, n).astype(dtype)
    huge_quotient = np.abs(ordinary[0]) * np.array(2.0**60, dtype), ordinary[1]
    operands = [
        np.concatenate(column)
        for column in zip(pairs, (x, y), (near, y), (one_off, y), ordinary, huge_quotient, strict=True)
    ]
    with np.errstate(all="ignore"):
        want = getattr(np, name)(*operands)
    same_numbers(kernel(name, dtype, target=target)(*operands), want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_fmod_is_exact(dtype, kernel):
    x, y = random_patterns(dtype, 2000, 5), random_patterns(dtype, 2000, 6)
    use = np.isfinite(x) & np.isfinite(y) & (y != 0)
    x, y = x[use], y[use]
    want = np.array([math.fmod(a, b) for a, b in zip(x.tolist(), y.tolist())], dtype)
    same_numbers(kernel("fmod", dtype)(x, y), want)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ROUNDINGS)
def test_rounding_is_numpys_bit_for_bit(name, dtype, target, kernel):
    halves = (np.arange(-40, 41) / 4).astype(dtype)
    large = np.array([2.0**e + d for e in (22, 23, 24, 51, 52, 53) for d in (-0.5, 0, 0.5, 1)], dtype)
    x = np.concatenate([specials(dtype), halves, large, -large, random_patterns(dtype, 20_000, 4)])
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x)
    same_numbers(kernel(name, dtype, target=target)(x), want)
