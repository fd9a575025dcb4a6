"""float64 functions against mpmath: over the whole range and where each of them is difficult."""
from __future__ import annotations

import numpy as np
import pytest
from amount import drawn
from exact_functions import accuracy_tool

from jitfuse.backends.llvm.math import FUNCTIONS
from jitfuse.ir.operators import ops

mpmath = pytest.importorskip("mpmath", reason="mpmath is not installed")
mpf = mpmath.mpf
TOOL = accuracy_tool()
INEXACT = {op.name: op.arity for op in ops.table() if op.name in FUNCTIONS and op.ulps}
OF_ONE = [name for name, arity in INEXACT.items() if arity == 1]
CANCELLING = ["logaddexp", "logaddexp2"]
OF_TWO = [name for name, arity in INEXACT.items() if arity == 2 and name not in ("power", *CANCELLING)]
MAXIMUM = mpf(float(np.finfo(np.float64).max))


def samples(name: str, n: int) -> np.ndarray:
    """Return arguments of one function: random patterns, small, moderate, and its own difficult ones."""
    rng = np.random.default_rng(sum(name.encode()))
    patterns = rng.integers(0, 1 << 64, n, dtype=np.uint64).view(np.float64)
    small = np.exp(rng.uniform(-60, 3, n)) * rng.choice([-1, 1], n)
    multiples = [float(int(k) * mpmath.pi / 2) for k in rng.integers(-700_000, 700_000, n)]
    near_one = np.exp(rng.uniform(-37, 0, n))
    half_steps = np.rint(rng.uniform(-60, 60, n)) * (np.log(2) / 2) + rng.normal(0, 1e-3, n)
    own = {
        # the float64 closest to a multiple of pi/2 (Muller, Elementary Functions, section 11.3)
        "sin": [multiples, rng.uniform(-(2**20), 2**20, n), [6381956970095103 * 2.0**797]],
        "cos": [multiples, rng.uniform(-(2**20), 2**20, n), [6381956970095103 * 2.0**797]],
        "tan": [multiples, rng.uniform(-(2**20), 2**20, n), [6381956970095103 * 2.0**797], rng.uniform(0.6, 1, n)],
        "asin": [rng.uniform(-1, 1, n), 1 - near_one, 0.5 + rng.normal(0, 1e-6, n), rng.uniform(0.4, 0.6, n)],
        "acos": [rng.uniform(-1, 1, n), 1 - near_one, near_one - 1, 0.5 + rng.normal(0, 1e-6, n)],
        "atan": [rng.uniform(0.4, 0.6, n), rng.uniform(2, 3, n), 2**0.5 - 1 + rng.normal(0, 1e-6, n)],
        "sinh": [rng.uniform(0.3, 0.4, n), rng.uniform(17, 20, n), rng.uniform(709.7, 710.5, n), half_steps],
        "cosh": [rng.uniform(0.3, 0.4, n), rng.uniform(17, 20, n), rng.uniform(709.7, 710.5, n), half_steps],
        "asinh": [rng.uniform(0.2, 0.5, n), 10 ** rng.uniform(-9, 20, n)],
        "acosh": [1 + near_one, rng.uniform(1, 2, n), 10 ** rng.uniform(0, 20, n)],
        "atanh": [rng.uniform(-1, 1, n), 1 - near_one, rng.uniform(0.14, 0.22, n)],
        "cbrt": [rng.uniform(0, 1e-310, n), rng.uniform(0.5, 4, n)],
        "exp": [rng.uniform(-746, -705, n), rng.uniform(709.7, 709.79, n), rng.uniform(-745, 709, n)],
        "exp2": [rng.uniform(-1076, -1020, n), rng.uniform(1023.9, 1024.1, n), rng.uniform(-1070, 1023, n)],
        "expm1": [rng.uniform(-0.4, 0.7, n), rng.uniform(30, 40, n), rng.uniform(709.7, 709.79, n)],
        "log": [1 + rng.normal(0, 0.2, n), 1 + rng.normal(0, 1e-6, n), rng.uniform(0, 1e-310, n)],
        "log2": [1 + rng.normal(0, 0.2, n), 1 + rng.normal(0, 1e-6, n), 2.0 ** np.arange(-1074, 1024)],
        "log10": [1 + rng.normal(0, 0.2, n), 1 + rng.normal(0, 1e-6, n), 10.0 ** np.arange(-307, 308)],
        "erfc": [rng.uniform(0.3, 1.2, n), rng.uniform(-6, 28, n), rng.uniform(26, 27.3, n)],
        "gelu": [rng.uniform(-1.5, 0, n), rng.uniform(-39, 10, n), rng.uniform(-38.8, -37, n)],
        "gelu_tanh": [rng.uniform(-22, 5, n), rng.uniform(-22, -20, n)],
        "sigmoid": [rng.uniform(-746, 750, n), rng.uniform(-746, -700, n)],
        "silu": [rng.uniform(-754, 750, n), rng.uniform(-754, -700, n)],
        "softplus": [rng.uniform(-746, 750, n), rng.uniform(-746, -700, n), rng.uniform(-62, -58, n)],
        "logit": [rng.uniform(0, 1, n), 0.5 + rng.normal(0, 1e-6, n), 1 - near_one, np.exp(-rng.uniform(0, 740, n))],
        "sinc": [np.rint(rng.uniform(-99, 99, n)) + rng.normal(0, 1e-9, n), rng.uniform(0, 2.0**53, n)],
        "log1p": [rng.uniform(-0.4, 0.6, n), 10 ** rng.uniform(0, 308, n), 10 ** rng.uniform(-17, 0, n) - 1],
        "tanh": [rng.uniform(0, 1, n), rng.uniform(15, 22, n)],
        "erf": [rng.uniform(0.8, 1.2, n), rng.uniform(0, 6, n)],
    }
    x = np.concatenate([patterns, small, rng.normal(0, 1, n), rng.uniform(-20, 20, n), *own.get(name, [])])
    x = x[np.isfinite(x) & (x != 0)]
    low, high = TOOL.WITHIN.get(name, (-np.inf, np.inf))
    return x[(x > low) & (x < high)]


def ulps_from(got: float, exact: mpf) -> float:
    """Return the error in units of the last place; beyond the largest float64 infinity is right."""
    if abs(exact) > MAXIMUM or np.isinf(got):
        beyond = abs(exact) >= MAXIMUM * (1 + mpf(2) ** -54)
        return 0.0 if np.isinf(got) and beyond and (got > 0) == (exact > 0) else np.inf
    exponent = max(mpmath.frexp(exact)[1] - 1, -1022) if exact else -1022
    return float(abs(mpf(got) - exact) * mpf(2) ** (52 - exponent))


def precision(name: str, x: float) -> int:
    """Return how many bits mpmath needs so that nothing cancels."""
    if name in ("sin", "cos", "tan"):
        return 1200
    return 1300 if name not in ("exp", "exp2", "log", "log2") and not 1e-20 < abs(x) < 1e20 else 180


@pytest.mark.parametrize("target", ["host", "host without fma"])
@pytest.mark.parametrize("name", OF_ONE)
def test_within_an_ulp(name, target, kernel):
    x = samples(name, drawn(150))
    worst, at = 0.0, None
    for a, got in zip(x.tolist(), kernel(name, np.float64, target=target)(x).tolist()):
        with mpmath.workprec(precision(name, a)):
            error = ulps_from(got, TOOL.exact(name)(mpf(a)))
        if not error <= worst:
            worst, at = error, a
    print(f"at most {worst:.4f} ulp")
    assert worst < 1, (worst, at)


@pytest.mark.parametrize("target", ["host", "host without fma"])
@pytest.mark.parametrize("name", OF_TWO)
def test_functions_of_two_operands_within_an_ulp(name, target, kernel):
    rng = np.random.default_rng(7)
    n = drawn(300)
    pairs = np.concatenate([
        rng.normal(0, 1, (2, n)), np.exp(rng.uniform(-708, 708, (2, n))), rng.uniform(0, 1e-309, (2, n)),
        np.exp(rng.uniform(690, 709.7, (2, n))), np.exp(rng.uniform(-740, -650, (2, n))),
    ], axis=1)
    with np.errstate(over="ignore"):
        near = np.stack([pairs[0], pairs[0] * rng.uniform(0.2, 5, 5 * n)])
    pairs = np.concatenate([pairs, near], axis=1) * rng.choice([-1, 1], (2, 10 * n))
    pairs = pairs[:, np.isfinite(pairs).all(axis=0) & (pairs != 0).all(axis=0)]
    if name == "xlogy":
        pairs[1] = np.abs(pairs[1])
    worst, at = 0.0, None
    got = kernel(name, np.float64, target=target)(*np.ascontiguousarray(pairs))
    for a, b, result in zip(*pairs.tolist(), got.tolist()):
        with mpmath.workprec(180):
            error = ulps_from(result, TOOL.exact(name)(mpf(a), mpf(b)))
        if not error <= worst:
            worst, at = error, (a, b)
    print(f"at most {worst:.4f} ulp")
    assert worst < 1, (worst, at)


@pytest.mark.parametrize("target", ["host", "host without fma"])
def test_power_within_an_ulp(target, kernel):
    rng = np.random.default_rng(5)
    n = drawn(400)
    wide = np.exp(rng.uniform(-740, 709, 2 * n))
    x = np.concatenate([wide, 1 + rng.normal(0, 1e-3, n), rng.uniform(0, 9, n)])
    # exponents for results over the whole range, denormals and overflow included
    y = np.concatenate([rng.uniform(-750, 712, 3 * n) / np.log(x[: 3 * n]), rng.normal(0, 3, n)])
    worst, at = 0.0, None
    for a, b, got in zip(x.tolist(), y.tolist(), kernel("power", np.float64, target=target)(x, y).tolist()):
        with mpmath.workprec(200):
            error = ulps_from(got, mpmath.power(mpf(a), mpf(b)))
        if not error <= worst:
            worst, at = error, (a, b)
    print(f"at most {worst:.4f} ulp")
    assert worst < 1, (worst, at)


@pytest.mark.parametrize("target", ["host", "host without fma"])
@pytest.mark.parametrize("name", CANCELLING)
def test_sums_of_exponentials_that_cancel(name, target, kernel):
    """Within an ulp while the result is more than an epsilon of the operands; float32 whatever they are."""
    base = mpmath.e if name == "logaddexp" else mpf(2)
    rng = np.random.default_rng(11)
    for dtype in (np.float32, np.float64):
        a = rng.uniform(-0.69, -1e-6, drawn(200)).astype(dtype)
        with mpmath.workprec(200):
            b = np.array([float(mpmath.log(1 - base ** mpf(v), base)) for v in a.tolist()]).astype(dtype)
            b[::2] *= (1 + rng.normal(0, 1e-4, b[::2].size)).astype(dtype)
            got = kernel(name, dtype, target=target)(a, b).tolist()
            for x, y, result in zip(a.tolist(), b.tolist(), got, strict=True):
                exact = mpmath.log(base ** mpf(x) + base ** mpf(y), base)
                least = 0 if dtype == np.float32 else 2.0**-52 * max(abs(x), abs(y))
                unit = mpf(2) ** (mpmath.frexp(max(abs(exact), least))[1] - 1 - np.finfo(dtype).nmant)
                assert abs(mpf(result) - exact) <= unit, (x, y)
