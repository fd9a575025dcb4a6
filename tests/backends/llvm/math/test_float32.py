"""float32 functions against NumPy's and SciPy's float64 ones: strided through all bit patterns."""
from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
from amount import drawn

from jitfuse.backends.llvm.math import FUNCTIONS
from jitfuse.ir.operators import ops

UNARY = {op.name: op.numpy for op in ops.table() if op.name in FUNCTIONS and op.ulps and op.arity == 1}
REFERENCE = {
    **UNARY, "erf": scipy.special.erf,
    "sigmoid": scipy.special.expit, "softplus": lambda x: np.logaddexp(x, 0.0),
    "silu": lambda x: np.where(x == -np.inf, -0.0, x * scipy.special.expit(x)),
    "gelu_tanh": lambda x: np.where(x == -np.inf, -0.0, x * scipy.special.expit(SLOPE * (x + 0.044715 * x**3))),
    # the C library's, as SciPy's is off by many ulp in the tail
    "erfc": lambda x: erfc(x), "gelu": lambda x: np.where(x == -np.inf, -0.0, x / 2 * erfc(-x / 2**0.5)),
}
"""The references of the op table, and others where these are slow or there are independent ones."""
SLOPE = 2 * (2 / np.pi) ** 0.5
erfc = np.vectorize(math.erfc, otypes=["float64"])
CHUNK = 1 << 20
NARROW = {"tan": 0.53, "cbrt": 0.53, "rad2deg": 0.74, "deg2rad": 0.65}
"""Functions that are not quite as exact, on every target."""
SINGLE = {"exp": 0.89, "exp2": 0.87, "expm1": 0.87, "log": 0.85, "log1p": 0.93, "erf": 0.84,
          "atan": 0.66, "asin": 0.72, "acos": 0.69, "atan2": 0.88, "atanh": 0.64, "asinh": 0.64, "acosh": 0.58,
          "cbrt": 0.55}
"""Where float32 is computed in float32, largest errors over all bit patterns, rounded up."""


def bound(name, target):
    """Return the largest error in ulp; what is computed in float64 rounds almost correctly."""
    return (SINGLE if target == "host" else NARROW).get(name, NARROW.get(name, 0.51))


@pytest.mark.parametrize("target", ["host", "host without fma"])
@pytest.mark.parametrize("name", REFERENCE)
def test_within_an_ulp_over_all_bit_patterns(name, target, kernel, ulps):
    stride = (1 << 32) // drawn(107_350 if name in ("erfc", "gelu") else 2_144_267) | 1  # all low bits
    f = kernel(name, np.float32, target=target)
    worst, at = 0.0, None
    for start in range(0, 1 << 32, CHUNK * stride):
        patterns = np.arange(start, min(start + CHUNK * stride, 1 << 32), stride, dtype=np.uint64)
        x = patterns.astype(np.uint32).view(np.float32)
        with np.errstate(all="ignore"):
            exact = REFERENCE[name](x.astype(np.float64))
        errors = ulps(f(x), exact)
        k = int(errors.argmax())
        if errors[k] > worst:
            worst, at = float(errors[k]), x[k]
    print(f"at most {worst:.4f} ulp")
    assert worst <= bound(name, target), (worst, at)


@pytest.mark.parametrize("target", ["host", "host without fma"])
def test_power_within_an_ulp(target, kernel, ulps):
    rng = np.random.default_rng(3)
    n = drawn(400_000)
    near_one = 1 + rng.normal(0, 1e-3, n)
    x = np.concatenate([np.exp(rng.uniform(-100, 88, n)), near_one, rng.normal(0, 2, n)])
    y = np.concatenate([rng.normal(0, 2, n), rng.normal(0, 3e4, n), rng.integers(-20, 20, n)])
    x, y = x.astype(np.float32), y.astype(np.float32)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    worst = float(ulps(kernel("power", np.float32, target=target)(x, y), exact).max())
    print(f"at most {worst:.4f} ulp")
    assert worst <= 0.51


@pytest.mark.parametrize("target", ["host", "host without fma"])
@pytest.mark.parametrize("name", ["atan2", "hypot"])
def test_functions_of_two_operands_within_an_ulp(name, target, kernel, ulps):
    rng = np.random.default_rng(4)
    n = drawn(300_000)
    y = np.concatenate([np.exp(rng.uniform(-100, 88, n)), rng.normal(0, 3, n), rng.uniform(0, 1e-40, n)])
    x = np.concatenate([np.exp(rng.uniform(-100, 88, n)), rng.normal(0, 3, 2 * n)])
    y[::5] = x[::5] * rng.uniform(0, 3, y[::5].size)  # of all quotients
    y, x = (np.minimum(v, 3e38).astype(np.float32) * rng.choice([-1, 1], 3 * n).astype(np.float32) for v in (y, x))
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(y.astype(np.float64), x.astype(np.float64))
    worst = float(ulps(kernel(name, np.float32, target=target)(y, x), exact).max())
    print(f"at most {worst:.4f} ulp")
    assert worst <= bound(name, target)


@pytest.mark.parametrize("name", [n for n in REFERENCE if n != "log2"])
def test_thresholds_and_neighbours(name, kernel, ulps):
    """Every float32 within 2,000 steps of where the code or the result changes its nature."""
    points = np.array([
        0.0, 1e-45, 1.1754944e-38, 1.0, -1.0, 88.72284, -87.33655, -103.97208, 128.0, -126.0, -149.0, 3.92,
        9.01, 0.9, 0.5, -0.5, 2.0, 0.41421357, 2.4142137, 0.17157288, 0.20005, 2.0**-13, 8.0, 89.41599, 2.0**-30,
        -18.0, np.pi / 2, np.pi, 2.0**20, 0.70710677, 1.4142135, -0.29289323, 0.34657359,
        3.4028235e38,
    ], np.float32)
    steps = np.arange(-2000, 2001)
    x = (points.view(np.int32)[:, None] + steps).astype(np.int64).ravel()
    x = (x & 0xFFFFFFFF).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        exact = REFERENCE[name](x.astype(np.float64))
    assert ulps(kernel(name, np.float32)(x), exact).max() <= bound(name, "host")
