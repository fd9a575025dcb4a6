"""Functions on the GPU within their published errors: float32 against float64, float64 against mpmath."""
from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special
from amount import drawn
from evaluate import memory
from gpu_harness import launch
from harness import Builder

from jitfuse.backends.wgsl.math import SHARED
from jitfuse.ir.kernels.form import Operand
from jitfuse.ir.operators import ops

PUBLISHED = {
    "exp": 1.3, "exp2": 1.4, "expm1": 1.5, "log": 0.8, "log2": 1.8, "log1p": 1.4, "sin": 1.3, "cos": 1.3, "tan": 2.9,
    "tanh": 2.4, "erf": 0.95, "sqrt": 0.5, "log10": 1, "asin": 1, "acos": 1, "atan": 1, "sinh": 1, "cosh": 1,
    "asinh": 1, "acosh": 1, "atanh": 1, "cbrt": 1, "erfc": 1,
}
"""Units in the last place of float32."""
NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
         "atanh": "arctanh"}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-40, -1e-40, 3e38, -3e38, 88.8, -104, 1e10]


def computed(device: Any, op: str, *operands: Any) -> Any:
    dtype, n = operands[0].dtype.name, operands[0].size
    b = Builder()
    b.store(len(operands), dtype, b.add(op, dtype, *[b.load(k, dtype) for k in range(len(operands))]))
    b.stage("point")
    form = b.form(1, 0, 0, [Operand(dtype, ("1",))] * len(operands) + [Operand(dtype, ("1",), True)])
    out = memory(np.zeros(n, dtype))
    launch(device, form, (n,), [*map(memory, operands), out])
    return out.buffer.view(dtype)


def errors(got: Any, exact: Any) -> Any:
    """Return errors in units of the last place of the result's dtype; infinite where a special value is wrong."""
    with np.errstate(all="ignore"):
        ref = exact.astype(got.dtype)
        error = np.abs(got.astype(exact.dtype) - exact) / np.spacing(np.abs(ref)).astype(exact.dtype)
        right = (got == ref) | (np.isnan(got) & np.isnan(ref))
        error = np.where(right & ~np.isfinite(error), 0, np.where(np.isnan(error), np.inf, error))
        error = np.where(right, np.minimum(error, 0.5), error)
        return np.where((np.signbit(got) != np.signbit(ref)) & ~np.isnan(ref), np.inf, error)


@pytest.mark.parametrize("op", PUBLISHED)
def test_float32(device: Any, op: str) -> None:
    bits = np.arange(0, 2**32, 2**32 // drawn(65_535) | 1, dtype=np.uint64).astype(np.uint32)
    x = np.concatenate([bits.view("f4"), np.array(SPECIAL, "f4"), np.linspace(-2, 2, 3001, dtype="f4")])
    exact = getattr(scipy.special, op, None) or getattr(np, NAMES.get(op, op))
    with np.errstate(all="ignore"):
        found = errors(computed(device, op, x), exact(x.astype("f8")))
    worst = int(found.argmax())
    assert found[worst] <= PUBLISHED[op], (x[worst], found[worst])


def test_power_of_float32(device: Any) -> None:
    r = np.random.default_rng(0)
    special = np.array([*SPECIAL, 2, -2, 0.5, 3, -3, 16777217, 2.5], "f4")
    grids = [g.ravel() for g in np.meshgrid(special, special)]
    x = np.concatenate([np.exp(r.uniform(-80, 80, 30_000)), r.uniform(0.5, 2, 30_000), grids[0]]).astype("f4")
    y = np.concatenate([r.uniform(-40, 40, 30_000), r.uniform(-100, 100, 30_000), grids[1]]).astype("f4")
    with np.errstate(all="ignore"):
        exact = np.power(x.astype("f8"), y.astype("f8"))
    assert errors(computed(device, "power", x, y), exact).max() <= 2.3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", sorted(SHARED - {"power"}))
def test_every_function_near_numpys(device: Any, op: str, dtype: str) -> None:
    row = ops.get(op)
    if row is None:
        pytest.skip(f"{op} is part of other operators alone")
    r = np.random.default_rng(2)
    operands = [(r.random(64) * 3 + 0.01).astype(dtype) for _ in range(row.arity)]
    with np.errstate(all="ignore"):
        expected = row.numpy(*operands)
    np.testing.assert_allclose(computed(device, op, *operands), expected, rtol=3e-6 if dtype == "float32" else 1e-14)


@pytest.mark.parametrize("op", ["exp", "log", "sin", "cos", "tan", "tanh", "expm1", "log1p", "atan", "asinh", "power"])
def test_float64(device: Any, op: str) -> None:
    r = np.random.default_rng(1)
    x = np.concatenate([r.standard_normal(100) * 3, np.exp(r.uniform(-30, 30, 40)), [1e22, 1e300, 0.0, 2.0**-1070]])
    if op in ("log", "log1p", "power"):
        x = np.abs(x) + 1e-300
    operands = [x] if op != "power" else [x, np.roll(np.clip(x, -9, 9), 7)]
    got = computed(device, op, *operands)
    function = getattr(mpmath, op)
    with mpmath.workprec(140):
        for at in zip(*operands, got, strict=True):
            *values, value = (float(v) for v in at)
            exact = function(*map(mpmath.mpf, values))
            if not np.isfinite(value) or abs(exact) < 1e-300:
                assert abs(exact) > 1e308 or value == float(exact)
                continue
            assert abs(mpmath.mpf(value) - exact) <= mpmath.mpf(float(np.spacing(abs(value)))), at
