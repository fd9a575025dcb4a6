"""Reductions, scans, products and moving elements in every dtype, against NumPy, in every layout."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import amount
import numpy as np
import pytest
from dtypes_compared import DTYPES, attempted, differences
from programs import quiet

import jitfuse as jf
from jitfuse.dtypes import numpy_dtype

EXACT: dict[str, Callable[..., Any]] = {
    **{f"{name} {axis}": (lambda x, name=name, axis=axis: getattr(np, name)(x, axis=axis))
       for name in ("min", "max", "any", "all", "argmin", "argmax", "count_nonzero", "ptp") for axis in (None, 0, 1)},
    **{name: (lambda x, name=name: getattr(np, name)(x, axis=1)) for name in ("cumsum", "cumprod", "diff", "flip")},
    "maximum.accumulate": lambda x: np.maximum.accumulate(x, axis=0),
    "minimum.accumulate": lambda x: np.minimum.accumulate(x, axis=1),
    "max of some": lambda x: np.max(x, axis=0, initial=0, where=x > 0),
    "where": lambda x: np.where(x > 0, x, x[::-1]), "where number": lambda x: np.where(x > 0, x, 1),
    "concatenate": lambda x: np.concatenate([x, x[:, ::-1]], axis=1), "stack": lambda x: np.stack([x, x], axis=-1),
    "gather": lambda x: x[[2, 0, -1, 1]], "two indices": lambda x: x[[0, 1, 2], [3, -1, 0]],
    "take": lambda x: np.take(x, [5, 1, 1], axis=1), "pad": lambda x: np.pad(x, 2), "edge": lambda x:
    np.pad(x, ((1, 2), (3, 0)), mode="reflect"), "transpose": lambda x: x.T.copy(), "roll": lambda x: np.roll(x, 3),
    "slice": lambda x: x[::-2, 1::3] * x[::-2, 1::3], "reshape": lambda x: x.reshape(-1)[:20].reshape(4, 5),
    "repeat": lambda x: np.repeat(x, 2, axis=0), "tile": lambda x: np.tile(x, (2, 1)), "tril": np.tril,
    "assigned": lambda x: _assigned(x), "masked": lambda x: np.where(x > 0, x, 0).astype("int16"), "diag": np.diagonal,
}
ROUNDED: dict[str, Callable[..., Any]] = {
    **{f"{name} {axis}": (lambda x, name=name, axis=axis: getattr(np, name)(x, axis=axis))
       for name in ("sum", "prod", "mean", "var", "std") for axis in (None, 0, 1)},
    "matmul": lambda x: x @ x.T, "dot": lambda x: np.dot(x[0], x[1]), "vector": lambda x: x @ x[0],
    "outer": lambda x: np.outer(x[0], x[1]), "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
    "add.reduce": lambda x: np.add.reduce(x, axis=0),
}


def _assigned(x: Any) -> Any:
    y = x.copy()
    y[1:] = x[:-1]
    y[:, 2] = 1
    return y


def every_exact(x: Any) -> dict[str, Any]:
    return attempted(EXACT, x)


def every_rounded(x: Any) -> dict[str, Any]:
    return attempted(ROUNDED, x)


def arrays(dtype: str) -> list[Any]:
    values = np.random.default_rng(5).integers(0 if dtype[0] in "bu" and dtype != "bfloat16" else -3, 4, (14, 66))
    x = (values * (1 if numpy_dtype(dtype).kind in "biu" else 0.25)).astype(numpy_dtype(dtype))
    made = [x[::2, ::2], x[6::-1, 32::-1], x[:7, :33].copy("F"), x[:3, :7]]
    turn = DTYPES.index(dtype)
    return [np.ascontiguousarray(x[:7, :33]), *(made if amount.extended() else [made[turn % 4]])]


@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_functions_of_arrays(dtype: str) -> None:
    fused = jf.fuse(every_exact)
    for x in arrays(dtype):
        with quiet():
            assert differences(fused(x), every_exact(x), {"ptp None": 0.01}) == {}


@pytest.mark.full
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_and_products_of_arrays(dtype: str) -> None:
    fused = jf.fuse(every_rounded)
    for x in arrays(dtype):
        with quiet():
            # quarters add up exactly in 24 bits; products and deviations round, in another order
            ulps = {name: 0 if dtype not in ("float16", "bfloat16") and name[:3] in ("sum", "mat", "dot") else 16
                    for name in ROUNDED}
            got, want = fused(x), every_rounded(x)
            if dtype == "bfloat16":  # NumPy's dot alone of all products has a loop for it, and einsum none
                got, want = ({k: v for k, v in r.items() if k not in ("dot", "einsum")} for r in (got, want))
            assert differences(got, want, ulps) == {}


def test_degrees_and_radians_of_bfloat16_are_float32() -> None:
    x = np.array([0.5, -3.0], numpy_dtype("bfloat16"))
    degrees, radians = jf.fuse(lambda x: (np.degrees(x), np.radians(x)))(x)
    assert degrees.dtype == radians.dtype == np.float32
    np.testing.assert_allclose([degrees, radians], [np.degrees(x), np.radians(x)], rtol=1e-6)
